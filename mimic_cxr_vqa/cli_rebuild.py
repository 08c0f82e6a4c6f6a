"""`medvqa-hub cxr rebuild-spec` and `rebuild`: share a spec of a release, and recreate the release from it."""

from pathlib import Path
from typing import Annotated

import typer

from medvqa_core.llm.options import (
    DEFAULT_SLOTS,
    DEFAULT_WAIT,
    AttestationFile,
    LoadInBits,
    ModelName,
    OwnServer,
    Slots,
    Wait,
    engine_option,
)


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


def rebuild(
    spec: Annotated[Path, typer.Argument(help="Folder of a rebuild spec.")],
    root: Annotated[Path, typer.Option(help="Folder of the source, as for cxr questions.")],
    out: Annotated[Path, typer.Option(help="Folder to build in.")],
    reports: Annotated[Path | None, typer.Option(help="Folder of MIMIC-CXR or its reports zip; default: root.")] = None,
    sections: Annotated[Path | None, typer.Option(help="mimic_cxr_sectioned.csv, if the spec used it.")] = None,
    studies: Annotated[Path | None, typer.Option(help="List of study ids, if the spec used it.")] = None,
    engine: Annotated[list[str] | None, engine_option("the spec's own, unless that is a language model")] = None,
    model: ModelName = None,
    prompt_file: Annotated[Path | None, typer.Option(help="Prompts, if the spec used its own.")] = None,
    questions_per_request: Annotated[str, typer.Option(help="As in the spec.")] = "1",
    slots: Slots = DEFAULT_SLOTS,
    wait: Wait = DEFAULT_WAIT,
    load_in: LoadInBits = None,
    i_run_this_server: OwnServer = False,
    attestation: AttestationFile = None,
) -> None:
    """Recreate a release from your own copy of its source, and name each file that differs."""
    from medvqa_core.llm.record import FILE
    from mimic_cxr_vqa import rebuild_spec as specs
    from mimic_cxr_vqa.generation.chosen_engine import ChosenEngine
    from mimic_cxr_vqa.rebuild_spec_check import choose_engines, read_rebuild_spec
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    chosen = ChosenEngine.choose(
        choose_engines(read_rebuild_spec(spec), engine or ()),
        prompt_file=prompt_file,
        questions_per_request=questions_per_request,
        model=model,
        slots=slots,
        wait=wait,
        load_in=load_in,
        own_server=i_run_this_server,
        attestation=attestation,
        record=workspace.root / FILE,
    )
    changed = specs.rebuild(spec, root, workspace, chosen.make, reports, sections, studies, typer.echo)
    if changed:
        typer.echo(f"rebuilt in {out}, but {len(changed)} files differ from the spec: {', '.join(changed)}")
        raise typer.Exit(1)
    typer.echo(f"rebuilt in {out}: every file has the spec's sha256")
