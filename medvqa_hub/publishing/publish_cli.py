"""`medvqa-hub publish …`. Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Prepare a folder for submission to an archive.")


@app.callback()
def publish() -> None:
    """Prepare a folder for submission to an archive."""


@app.command()
def physionet(
    out: Annotated[Path, typer.Option(help="Folder for the submission.")],
    data: Annotated[Path, typer.Option(help="Folder that the release was built in.")],
    title: Annotated[str, typer.Option(help="Title, which begins with MIMIC-CXR-Ext-.")],
    version: Annotated[str, typer.Option(help="Version, such as 1.0.0.")] = "1.0.0",
    check: Annotated[bool, typer.Option("--check", help="Also print the problems of the submission.")] = False,
) -> None:
    """Write tables, texts and checksums for PhysioNet, and a to-do list."""
    from medvqa_hub.publishing.physionet import publish_physionet
    from medvqa_hub.publishing.submission import show

    found = publish_physionet(data, out, title, version, typer.echo)
    typer.echo(f"Complete {out / 'texts.md'}, then upload {out / 'files'}. To do: {out / 'TODO.md'}")
    if check:
        show(found, typer.echo)
