"""`medvqa-hub export …`. Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Hand questions and figures to other people's tools.")


@app.callback()
def _group() -> None:
    pass


@app.command()
def vlmevalkit(
    data: Annotated[Path, typer.Option(help="A release, a public set (--layout), or a folder of RJUA-MedDQA data.")],
    out: Annotated[Path, typer.Option(help="Folder for NAME.tsv; name it in LMUData.")],
    meddqa: Annotated[bool, typer.Option("--meddqa", help="The data are RJUA-MedDQA's.")] = False,
    layout: Annotated[str | None, typer.Option(help="As in evaluate cxr.")] = None,
    split: Annotated[str, typer.Option(help="train, validate or test; not of RJUA-MedDQA.")] = "test",
    image_root: Annotated[Path | None, typer.Option(help="Folder of the images.")] = None,
    limit: Annotated[int | None, typer.Option(help="The first so many studies only.")] = None,
    name: Annotated[str | None, typer.Option(help="Of the dataset in VLMEvalKit; default: the data's folder.")] = None,
) -> None:
    """Write VLMEvalKit's TSV; its prediction file goes back to evaluate --predictions."""
    from medvqa_hub.evaluation.exporting import cxr_rows, meddqa_rows, write_tsv

    if meddqa:
        from rjua_meddqa.inference.questions import load_questions

        questions = load_questions(data, image_root)
        rows, governance = meddqa_rows(questions), questions.governance
    else:
        from medvqa_hub.evaluation.cxr.evaluating import CxrOptions
        from medvqa_hub.evaluation.cxr.evaluation_data import open_data

        found = open_data(CxrOptions(None, data, out, split=split, image_root=image_root, limit=limit, layout=layout))
        rows, governance = cxr_rows(found), found.governance
    path = write_tsv(rows, out, name or layout or data.absolute().name, governance)
    typer.echo(f"{len(rows):,} questions: {path} ({governance}); after VLMEvalKit: evaluate … --predictions FILE")


@app.command("eval-results")
def eval_results(
    run: Annotated[Path, typer.Argument(help="Folder that evaluate wrote.")],
    model: Annotated[Path, typer.Option(help="The model's folder, as it goes to the Hub.")],
    dataset_id: Annotated[str, typer.Option(help="The dataset's repository on the Hub: OWNER/NAME.")],
    revision: Annotated[str | None, typer.Option(help="Commit of that repository.")] = None,
) -> None:
    """Write a run's figures into a model's folder, as the Hub shows them on its page (.eval_results/NAME.yaml)."""
    from medvqa_hub.evaluation.exporting import export_entries

    typer.echo(f"figures: {export_entries(run, model, dataset_id, revision)}")
