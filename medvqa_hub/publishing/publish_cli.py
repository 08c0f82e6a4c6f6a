"""`medvqa-hub publish …`: folders ready to be submitted elsewhere. Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Make a folder that is ready to be submitted to an archive.")


@app.callback()
def publish() -> None:
    """Make a folder that is ready to be submitted to an archive."""


@app.command()
def physionet(
    out: Annotated[Path, typer.Option(help="Folder for the submission.")],
    data: Annotated[Path, typer.Option(help="Folder that the release was built in.")],
    title: Annotated[str, typer.Option(help="Title; it begins with MIMIC-CXR-Ext-.")],
    version: Annotated[str, typer.Option(help="Version, such as 1.0.0.")] = "1.0.0",
    check: Annotated[bool, typer.Option("--check", help="Also say what stands in the way of submitting.")] = False,
) -> None:
    """Write tables, texts and checksums for PhysioNet, and a list of what a person must still do."""
    from medvqa_hub.publishing.physionet import publish_physionet
    from medvqa_hub.publishing.submission import show

    found = publish_physionet(data, out, title, version, typer.echo)
    typer.echo(f"upload {out / 'files'} when {out / 'texts.md'} is written; to do: {out / 'TODO.md'}")
    if check:
        show(found, typer.echo)
