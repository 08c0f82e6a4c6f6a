"""`medvqa-hub cxr rebuild-spec` and `rebuild`: share a spec of a release, and recreate the release from it."""

from pathlib import Path
from typing import Annotated

import typer

from medvqa_core.llm.options import EngineOptions, with_engine_options


def rebuild_spec(
    out: Annotated[Path, typer.Option(help="Folder that the dataset was built in.")],
    to: Annotated[Path, typer.Option(help="Folder for the rebuild spec.")],
) -> None:
    """Write what may be shared of a release: questions without answers, ids, settings and hashes."""
    from mimic_cxr_vqa.rebuild_spec import write_rebuild_spec
    from mimic_cxr_vqa.workspace import Workspace

    manifest = write_rebuild_spec(Workspace(out), to)
    typer.echo(f"rebuild spec of {manifest['counts']['rows']:,} rows ({manifest['rows_governance']}): {to}")
    typer.echo("It contains no answers, labels, reports or images. Its README.md explains how to rebuild the rows.")


@with_engine_options("the spec's own, unless that is a language model")
def rebuild(
    spec: Annotated[Path, typer.Argument(help="Folder of a rebuild spec.")],
    root: Annotated[Path, typer.Option(help="Folder of the source, as for cxr questions.")],
    out: Annotated[Path, typer.Option(help="Folder to build in.")],
    engine: EngineOptions,
    reports: Annotated[Path | None, typer.Option(help="Folder of MIMIC-CXR or its reports zip. Default: root.")] = None,
    sections: Annotated[Path | None, typer.Option(help="mimic_cxr_sectioned.csv, if the spec used it.")] = None,
    studies: Annotated[Path | None, typer.Option(help="List of study ids, if the spec used it.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="Prompts, if the spec used its own.")] = None,
    questions_per_request: Annotated[
        str | None, typer.Option(help="Questions of a study per request: a number, or all. Default: as in the spec.")
    ] = None,
) -> None:
    """Recreate a release from your own copy of its source, and name each file that differs."""
    from medvqa_core.llm.record import FILE
    from mimic_cxr_vqa import rebuild_spec as specs
    from mimic_cxr_vqa.generation.chosen_engine import ChosenEngine
    from mimic_cxr_vqa.rebuild_spec_check import choose_engine, read_rebuild_spec
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    chosen = ChosenEngine.choose(
        choose_engine(read_rebuild_spec(spec), engine),
        prompt_file=prompt_file,
        questions_per_request=questions_per_request,
        record=workspace.root / FILE,
    )
    changed = specs.rebuild(spec, root, workspace, chosen.make, reports, sections, studies, typer.echo)
    if changed:
        typer.echo(f"rebuilt in {out}, but {len(changed)} files differ from the spec: {', '.join(changed)}")
        raise typer.Exit(1)
    typer.echo(f"rebuilt in {out}: every file has the spec's sha256")
