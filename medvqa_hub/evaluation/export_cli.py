"""`medvqa-hub export …`. Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Export questions and figures for other tools.")


@app.callback()
def _group() -> None:
    pass


@app.command()
def vlmevalkit(
    data: Annotated[Path, typer.Option(help="A release, a public set (--layout), or a folder of RJUA-MedDQA data.")],
    out: Annotated[Path, typer.Option(help="Folder for NAME.tsv. Set LMUData to it.")],
    meddqa: Annotated[bool, typer.Option("--meddqa", help="The data are RJUA-MedDQA.")] = False,
    layout: Annotated[
        str | None, typer.Option(help="Layout of a public dataset, as in evaluate cxr: slake, vqa-rad, …")
    ] = None,
    split: Annotated[str, typer.Option(help="train, validate or test. Not for RJUA-MedDQA.")] = "test",
    image_root: Annotated[Path | None, typer.Option(help="Folder of the images.")] = None,
    limit: Annotated[int | None, typer.Option(help="Use only the first studies, up to this number.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the dataset in VLMEvalKit. Default: the data's folder.")
    ] = None,
) -> None:
    """Write VLMEvalKit's TSV. Its file of predictions can be scored by evaluate --predictions."""
    from medvqa_hub.evaluation.exporting import cxr_rows, meddqa_rows, write_tsv

    if meddqa:
        from rjua_meddqa.inference.questions import load_questions

        questions = load_questions(data, image_root)
        rows, governance = meddqa_rows(questions), questions.governance
    else:
        from medvqa_hub.evaluation.cxr.evaluation_data import open_data
        from medvqa_hub.evaluation.cxr.options import DataOptions

        found = open_data(DataOptions(data, split, layout, image_root, limit))
        rows, governance = cxr_rows(found), found.governance
    path = write_tsv(rows, out, name or layout or data.absolute().name, governance)
    typer.echo(f"{len(rows):,} questions: {path} ({governance}); after VLMEvalKit: evaluate … --predictions FILE")


@app.command()
def metric(
    name: Annotated[str, typer.Argument(help="cxr_vqa, cxr_findings, agreement, soft_accuracy or meddqa.")],
    out: Annotated[Path, typer.Option(help="Empty folder for the module.")],
) -> None:
    """Copy an evaluate module with its code, to load it without this package or as a Space."""
    import mimic_cxr_vqa.cxr_findings
    from medvqa_core.metrics.exporting import export_module

    folder = Path(mimic_cxr_vqa.cxr_findings.__file__).parent
    files = export_module(name, out, {folder.name: folder})
    typer.echo(f"{len(files)} files in {out}; load it with evaluate.load({str(out / f'{name}.py')!r})")


@app.command()
def leaderboard(
    runs: Annotated[list[Path], typer.Argument(help="Folders that evaluate wrote.")],
    out: Annotated[Path, typer.Option(help="File of the page.")] = Path("leaderboard.html"),
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Leaderboard",
) -> None:
    """Write a page with the results of evaluations, without their rows. Rows that a folder has are verified."""
    from medvqa_hub.evaluation.leaderboard import write_leaderboard

    tables = write_leaderboard(runs, out, title)
    typer.echo(f"{out}: {len(runs)} results in {tables} tables")


@app.command("eval-results")
def eval_results(
    run: Annotated[Path, typer.Argument(help="Folder that evaluate wrote.")],
    model: Annotated[Path, typer.Option(help="Folder of the model that is uploaded to the Hub.")],
    dataset_id: Annotated[str, typer.Option(help="The dataset's repository on the Hub: OWNER/NAME.")],
    revision: Annotated[str | None, typer.Option(help="Commit of that repository.")] = None,
) -> None:
    """Write a run's figures into a model's folder for its page on the Hub (.eval_results/NAME.yaml)."""
    from medvqa_hub.evaluation.exporting import export_entries

    typer.echo(f"figures: {export_entries(run, model, dataset_id, revision)}")
