"""`medvqa-hub cxr batch-export` and `batch-import`: answers by machines that run no server."""

from pathlib import Path
from typing import Annotated

import typer

from mimic_cxr_vqa.cli_output import echo_counts


def batch_export(
    out: Annotated[Path, typer.Option(help="Folder that the dataset is built in.")],
    to: Annotated[Path, typer.Option(help="Folder for the batch files.")],
    model: Annotated[str, typer.Option(help="Name that the machine knows the model by.")],
    prompt_file: Annotated[Path | None, typer.Option(help="Prompts of your own in place of the bundled ones.")] = None,
    questions_per_request: Annotated[
        str, typer.Option(help="1 (as in the paper), more, or all of a study's questions in one request.")
    ] = "1",
    requests_per_file: Annotated[int, typer.Option(help="Requests of a file; hosted services take 50,000.", min=1)] = (
        50_000
    ),
    limit: Annotated[int | None, typer.Option(help="Of the first so many open studies only.", min=1)] = None,
) -> None:
    """Write what is still to be asked as batch files, for vLLM's run-batch or a hosted batch service."""
    from medvqa_core.governance import Governance
    from mimic_cxr_vqa.generation.batch_export import BatchOptions, export_batch
    from mimic_cxr_vqa.generation.language_model import parse_question_count
    from mimic_cxr_vqa.generation.prompts import Prompt, read_prompt
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    prompt = read_prompt(prompt_file) if prompt_file else Prompt()
    options = BatchOptions(model, prompt, parse_question_count(questions_per_request), requests_per_file)
    counts = export_batch(workspace, to, options, limit)
    if not counts["requests"]:
        typer.echo("nothing is left to ask")
    typer.echo(f"{counts['questions']:,} questions in {counts['requests']:,} requests, {counts['files']:,} files: {to}")
    if workspace.governance() is Governance.CREDENTIALED:
        typer.echo("these files hold credentialed text: read CREDENTIALED.txt beside them before they go anywhere")


def batch_import(
    out: Annotated[Path, typer.Option(help="Folder that the dataset is built in.")],
    results: Annotated[list[Path], typer.Argument(help="Files of results, in any order, whole or partial.")],
    answered_by: Annotated[
        str, typer.Option(prompt="Which machine or service answered", help="Machine or service; kept beside.")
    ],
    i_run_this_server: Annotated[
        bool, typer.Option("--i-run-this-server", help="Credentialed texts: that machine is yours.")
    ] = False,
) -> None:
    """Take results of batch files into the answers; what is there already is not taken twice."""
    from mimic_cxr_vqa.generation.batch_import import import_batch
    from mimic_cxr_vqa.workspace import Workspace

    counts = import_batch(Workspace(out), results, answered_by, i_run_this_server)
    echo_counts(counts)
    if counts["open"] or counts["failed"] or counts["flagged"]:
        typer.echo("what is open, failed or broke a wording rule goes into the next batch-export, three times at most")
