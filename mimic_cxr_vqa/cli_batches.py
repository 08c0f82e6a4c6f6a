"""`medvqa-hub cxr batch-export` and `batch-import`: answers by batch files instead of a server."""

from pathlib import Path
from typing import Annotated

import typer

from mimic_cxr_vqa.cli_output import Out, echo_counts


def batch_export(
    out: Out,
    to: Annotated[Path, typer.Option(help="Folder for the batch files.")],
    model: Annotated[str, typer.Option(help="Name of the model in the requests.")],
    prompt_file: Annotated[Path | None, typer.Option(help="Use these prompts instead of the bundled ones.")] = None,
    questions_per_request: Annotated[
        str, typer.Option(help="Questions of a study per request: a number, or all. The paper uses 1.")
    ] = "1",
    requests_per_file: Annotated[int, typer.Option(help="Requests per file. Hosted services accept 50,000.", min=1)] = (
        50_000
    ),
    limit: Annotated[
        int | None, typer.Option(help="Only export this many studies with unanswered questions.", min=1)
    ] = None,
) -> None:
    """Write the questions without an answer as batch files for vLLM's run-batch or a hosted batch service."""
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
        typer.echo("All questions are answered.")
    typer.echo(f"{counts['questions']:,} questions in {counts['requests']:,} requests, {counts['files']:,} files: {to}")
    if workspace.governance() is Governance.CREDENTIALED:
        typer.echo("These files contain credentialed text. Read CREDENTIALED.txt beside them before you copy them.")


def batch_import(
    out: Out,
    results: Annotated[list[Path], typer.Argument(help="Result files in any order, complete or partial.")],
    answered_by: Annotated[
        str,
        typer.Option(prompt="Which machine or service answered", help="Machine or service. Recorded with the answers."),
    ],
    i_run_this_server: Annotated[
        bool, typer.Option("--i-run-this-server", help="Credentialed texts: the machine is yours.")
    ] = False,
) -> None:
    """Add the results of batch files to the answers. Questions with an answer are skipped."""
    from mimic_cxr_vqa.generation.batch_import import import_batch
    from mimic_cxr_vqa.workspace import Workspace

    counts = import_batch(Workspace(out), results, answered_by, i_run_this_server)
    echo_counts(counts)
    if counts["open"] or counts["failed"] or counts["flagged"]:
        typer.echo(
            "The next batch-export repeats questions that are open, failed or broke a wording rule, up to three times."
        )
