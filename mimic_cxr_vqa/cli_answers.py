"""`medvqa-hub cxr answer` and `merge`: asking an engine, here, in parts or on a Ray cluster."""

from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medvqa_core.errors import ConfigError
from medvqa_core.llm.options import EngineOptions, with_engine_options
from mimic_cxr_vqa.cli_output import echo_counts, quote

if TYPE_CHECKING:
    from medvqa_core.llm.engines import Engine
    from mimic_cxr_vqa.workspace import Workspace

Out = Annotated[Path, typer.Option(help="Folder that the dataset is built in.")]


class AnswerFrom(StrEnum):
    findings = "findings"
    both = "findings+impression"


@with_engine_options("extractive (rules, no model; the default)")
def answer(
    out: Out,
    engine: EngineOptions,
    prompt_file: Annotated[Path | None, typer.Option(help="Prompts of your own in place of the bundled ones.")] = None,
    questions_per_request: Annotated[
        str | None,
        typer.Option(help="1 (as in the paper, the default), more, or all of a study's questions in one request."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Answer the first so many studies only.", min=1)] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is left to ask, and ask nothing but what --probe does.")
    ] = False,
    probe: Annotated[
        int | None, typer.Option(help="Answer so many studies and say how long the rest takes.", min=1)
    ] = None,
    retry_failed: Annotated[bool, typer.Option(help="Ask failed questions again.")] = False,
    answer_from: Annotated[
        AnswerFrom, typer.Option(help="Sections that are answered from; the paper's is findings.")
    ] = AnswerFrom.findings,
    shard: Annotated[str, typer.Option(help="i/n: this machine's part of the studies; see cxr merge.")] = "1/1",
    ray: Annotated[
        str | None, typer.Option(help="Spread studies over a Ray cluster: local, auto or ray://HOST:PORT (extra ray).")
    ] = None,
    ray_workers: Annotated[int | None, typer.Option(help="Workers there; default: one an --engine.", min=1)] = None,
    ray_gpus: Annotated[float, typer.Option(help="GPUs of each worker, for transformers:… engines.")] = 0.0,
) -> None:
    """Answer the questions; a stopped run goes on where it was."""
    from medvqa_core.llm.record import FILE
    from medvqa_core.runs.shards import parse_shard
    from mimic_cxr_vqa.generation.answers import answer_questions
    from mimic_cxr_vqa.generation.chosen_engine import ChosenEngine
    from mimic_cxr_vqa.workspace import Workspace

    workspace, part = Workspace(out), parse_shard(shard)
    if dry_run or probe:
        _refuse_with_estimates(part.of > 1, limit is not None, ray is not None and probe is not None)
    if ray is None and (ray_workers is not None or ray_gpus):
        raise ConfigError("--ray-workers and --ray-gpus are of --ray: name the cluster too, or leave them out")
    chosen = ChosenEngine.choose(
        engine if engine.engines else replace(engine, engines=("extractive",)),
        prompt_file=prompt_file,
        questions_per_request=questions_per_request,
        record=workspace.root / FILE,
    )
    governance = workspace.governance()
    if dry_run or probe:
        _estimate(workspace, chosen.make(governance), answer_from.value, retry_failed, probe or 0)
        return
    made = chosen.on_ray(governance, ray, ray_workers, ray_gpus) if ray else nullcontext(chosen.make(governance))
    with made as ready:
        counts = answer_questions(
            workspace, ready, retry_failed, limit=limit, answer_from=answer_from.value, shard=part
        )
    if not counts["asked"]:
        typer.echo("every question has an answer already; nothing was asked")
    echo_counts(counts)
    if counts["failed"]:
        typer.echo("failed questions are left out of a release; ask them again with --retry-failed")
    if part.of > 1:
        typer.echo(f"part {shard}: {part.path(workspace.answers)}; when all are done: medvqa-hub cxr merge --out …")
    else:
        typer.echo(f"next: medvqa-hub cxr release --out {quote(out)}")


def _refuse_with_estimates(shard: bool, limit: bool, ray: bool) -> None:
    """Raise ConfigError for what an estimate leaves aside: it is of all studies, asked from here."""
    typed = [name for name, given in (("--shard", shard), ("--limit", limit), ("--ray", ray)) if given]
    if typed:
        raise ConfigError(
            f"{', '.join(typed)}: --dry-run and --probe tell of all studies, asked from here; leave it out"
        )


def _estimate(workspace: "Workspace", engine: "Engine", answer_from: str, retry_failed: bool, probe: int) -> None:
    """Say what is left to ask; with a probe, answer so many studies first and say how long the rest takes."""
    from mimic_cxr_vqa.generation.answers import answer_questions
    from mimic_cxr_vqa.generation.estimating import estimate_remaining, format_remaining, format_time_estimate
    from mimic_cxr_vqa.generation.language_model import LanguageModel

    if probe and not isinstance(engine, LanguageModel):
        raise ConfigError(f"--probe measures a language model; engine {engine.name!r} is none")
    before = estimate_remaining(workspace, engine, answer_from, retry_failed, probe)
    typer.echo(format_remaining(before))
    if not probe:
        typer.echo("nothing was asked")
        return
    if before.studies:
        answer_questions(workspace, engine, retry_failed, limit=before.last_probed, answer_from=answer_from)
    after = estimate_remaining(workspace, engine, answer_from, False)
    for line in format_time_estimate(engine, before, after):
        typer.echo(line)
    typer.echo("what the probe answered is kept; the same command without --probe goes on")


def merge(
    out: Out,
    parts: Annotated[
        list[Path] | None, typer.Argument(help="Files of answers; default: the parts that lie in OUT.")
    ] = None,
) -> None:
    """Join the parts that `answer --shard i/n` wrote: the very bytes that one machine would have written."""
    from mimic_cxr_vqa.generation.answers import merge_answers
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    echo_counts(merge_answers(workspace, parts or ()))
    typer.echo(f"answers: {workspace.answers}; the parts stay as they are and can be deleted")
