"""`medvqa-hub cxr answer` and `merge`: answer questions on one machine, in shards or on a Ray cluster."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from medvqa_core.errors import ConfigError
from medvqa_core.llm.options import EngineOptions, with_engine_options
from mimic_cxr_vqa.cli_output import Out, echo_counts, quote

if TYPE_CHECKING:
    from medvqa_core.llm.engines import Engine
    from mimic_cxr_vqa.workspace import Workspace


@with_engine_options("extractive (rules without a model, the default)")
def answer(
    out: Out,
    engine: EngineOptions,
    prompt_file: Annotated[Path | None, typer.Option(help="Use these prompts instead of the bundled ones.")] = None,
    questions_per_request: Annotated[
        str | None,
        typer.Option(help="Questions of a study per request: a number, or all. Default: 1, as in the paper."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only answer this many studies.", min=1)] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what is left to answer without answering it.")
    ] = False,
    probe: Annotated[
        int | None, typer.Option(help="Answer this many studies and estimate the time for the rest.", min=1)
    ] = None,
    retry_failed: Annotated[bool, typer.Option(help="Retry questions whose answer failed.")] = False,
    answer_from: Annotated[
        Literal["findings", "findings+impression"],
        typer.Option(help="Report sections to answer from. The paper uses findings."),
    ] = "findings",
    shard: Annotated[str, typer.Option(help="i/n: the part of the studies for this machine. See cxr merge.")] = "1/1",
    ray: Annotated[
        str | None, typer.Option(help="Spread studies over a Ray cluster: local, auto or ray://HOST:PORT (extra ray).")
    ] = None,
    ray_workers: Annotated[int | None, typer.Option(help="Ray workers. Default: one per --engine.", min=1)] = None,
    ray_gpus: Annotated[float, typer.Option(help="GPUs of each worker, for transformers:… engines.")] = 0.0,
) -> None:
    """Answer the questions. Safe to interrupt: run the same command again to resume."""
    from medvqa_core.llm.record import FILE
    from medvqa_core.runs.shards import parse_shard
    from mimic_cxr_vqa.generation.answers import answer_questions
    from mimic_cxr_vqa.generation.chosen_engine import ChosenEngine
    from mimic_cxr_vqa.workspace import Workspace

    workspace, part = Workspace(out), parse_shard(shard)
    if dry_run or probe:
        _check_estimate_options(part.of > 1, limit is not None, ray is not None and probe is not None)
    if ray is None and (ray_workers is not None or ray_gpus):
        raise ConfigError("--ray-workers and --ray-gpus only apply with --ray. Name the cluster, or leave them out")
    chosen = ChosenEngine.choose(
        engine if engine.engines else replace(engine, engines=("extractive",)),
        prompt_file=prompt_file,
        questions_per_request=questions_per_request,
        record=workspace.root / FILE,
    )
    governance = workspace.governance()
    if dry_run or probe:
        _estimate(workspace, chosen.make(governance), answer_from, retry_failed, probe or 0)
        return
    made = chosen.on_ray(governance, ray, ray_workers, ray_gpus) if ray else nullcontext(chosen.make(governance))
    with made as ready:
        counts = answer_questions(workspace, ready, retry_failed, limit=limit, answer_from=answer_from, shard=part)
    if not counts["asked"]:
        typer.echo("every question is answered already")
    echo_counts(counts)
    if counts["failed"]:
        typer.echo("A release leaves out failed questions. Ask them again with --retry-failed.")
    if part.of > 1:
        typer.echo(
            f"part {shard}: {part.path(workspace.answers)}. When all parts are done: medvqa-hub cxr merge --out …"
        )
    else:
        typer.echo(f"next: medvqa-hub cxr release --out {quote(out)}")


def _check_estimate_options(shard: bool, limit: bool, ray: bool) -> None:
    """Raise ConfigError for options that an estimate does not support."""
    typed = [name for name, given in (("--shard", shard), ("--limit", limit), ("--ray", ray)) if given]
    if typed:
        raise ConfigError(
            f"{', '.join(typed)} cannot be combined with --dry-run or --probe, which estimate the whole build"
        )


def _estimate(workspace: "Workspace", engine: "Engine", answer_from: str, retry_failed: bool, probe: int) -> None:
    """Print what is left to answer. With a probe, answer that many studies and print how long the rest takes."""
    from mimic_cxr_vqa.generation.answers import answer_questions
    from mimic_cxr_vqa.generation.estimating import estimate_remaining, format_remaining, format_time_estimate
    from mimic_cxr_vqa.generation.language_model import LanguageModel

    if probe and not isinstance(engine, LanguageModel):
        raise ConfigError(f"--probe only applies to language models. The engine {engine.name!r} does not use one")
    before = estimate_remaining(workspace, engine, answer_from, retry_failed, probe)
    typer.echo(format_remaining(before))
    if not probe or not isinstance(engine, LanguageModel):
        typer.echo("Nothing was sent to the engine.")
        return
    if before.studies:
        answer_questions(workspace, engine, retry_failed, limit=before.last_probed, answer_from=answer_from)
    after = estimate_remaining(workspace, engine, answer_from, False)
    for line in format_time_estimate(engine, before, after):
        typer.echo(line)
    typer.echo("The probe's answers are kept. Run the same command without --probe to continue.")


def merge(
    out: Out,
    parts: Annotated[list[Path] | None, typer.Argument(help="Files of answers. Default: the parts in OUT.")] = None,
) -> None:
    """Join the parts of `answer --shard i/n`. The result is byte-identical to a single-machine run."""
    from mimic_cxr_vqa.generation.answers import merge_answers
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    echo_counts(merge_answers(workspace, parts or ()))
    typer.echo(f"answers: {workspace.answers}. The parts can be deleted")
