"""`medvqa-hub cxr recipe` and `rebuild`: what may be shared of a release, and making the release again from it."""

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


def recipe(
    out: Annotated[Path, typer.Option(help="Folder that the dataset was built in.")],
    to: Annotated[Path, typer.Option(help="Folder for the recipe.")],
) -> None:
    """Write what may be shared of a release: questions without answers, ids, settings and hashes."""
    from mimic_cxr_vqa.rebuild_spec import write_recipe
    from mimic_cxr_vqa.workspace import Workspace

    manifest = write_recipe(Workspace(out), to)
    typer.echo(f"recipe of {manifest['counts']['rows']:,} rows ({manifest['rows_governance']}): {to}")
    typer.echo("it holds no answer, label, report or image; its README.md says how others make the rows again")


def rebuild(
    recipe: Annotated[Path, typer.Argument(help="Folder of a recipe.")],
    root: Annotated[Path, typer.Option(help="Folder of the source, as for cxr questions.")],
    out: Annotated[Path, typer.Option(help="Folder to build in.")],
    reports: Annotated[Path | None, typer.Option(help="Folder of MIMIC-CXR or its reports zip; default: root.")] = None,
    sections: Annotated[Path | None, typer.Option(help="mimic_cxr_sectioned.csv, where the recipe used it.")] = None,
    studies: Annotated[Path | None, typer.Option(help="List of study ids, where the recipe used it.")] = None,
    engine: Annotated[list[str] | None, engine_option("the recipe's own, where it is no model")] = None,
    model: ModelName = None,
    prompt_file: Annotated[Path | None, typer.Option(help="The recipe's prompts, where it had its own.")] = None,
    questions_per_request: Annotated[str, typer.Option(help="As in the recipe.")] = "1",
    slots: Slots = DEFAULT_SLOTS,
    wait: Wait = DEFAULT_WAIT,
    load_in: LoadInBits = None,
    i_run_this_server: OwnServer = False,
    attestation: AttestationFile = None,
) -> None:
    """Make a recipe's release again from one's own copy of the source, and name each file that differs."""
    from medvqa_core.llm.record import FILE
    from mimic_cxr_vqa.generation.chosen_engine import ChosenEngine
    from mimic_cxr_vqa.rebuild_spec import rebuild as rebuild_recipe
    from mimic_cxr_vqa.rebuild_spec_check import choose_engines, read_rebuild_spec
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    chosen = ChosenEngine.choose(
        choose_engines(read_rebuild_spec(recipe), engine or ()),
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
    changed = rebuild_recipe(recipe, root, workspace, chosen.make, reports, sections, studies, typer.echo)
    if changed:
        typer.echo(f"built in {out}, but {len(changed)} files are not the recipe's: {', '.join(changed)}")
        raise typer.Exit(1)
    typer.echo(f"built in {out}: every file has the recipe's sha256")
