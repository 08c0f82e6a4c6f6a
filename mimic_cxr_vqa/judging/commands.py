"""`medvqa-hub cxr judge|review|table3`: rate answers by a judge and by people. Imports are lazy to start quickly."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.llm.options import SPELLED, EngineOptions, with_engine_options
from mimic_cxr_vqa.cli_output import Out, list_counts, quote

review_app = typer.Typer(
    no_args_is_help=True, help="Export a sample of answers for people to rate, and import the ratings."
)

SampleReports = Annotated[int, typer.Option(help="Number of random reports whose answers are used.", min=1)]


@with_engine_options("rules (no model, the default)")
def judge(
    out: Out,
    engine: EngineOptions,
    judge_protocol: Annotated[
        Literal["chat", "systemone"] | None,
        typer.Option(help="chat (the default): a JSON reply. systemone: typed decisions with probabilities."),
    ] = None,
    sample_reports: SampleReports = 1000,
    seed: Annotated[int, typer.Option(help="The same seed draws the same reports.")] = 0,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Measure the judge: inject errors into answers and report how many it notices."),
    ] = False,
    per_kind: Annotated[int, typer.Option(help="With --probe: errors of each kind.", min=1)] = 100,
    max_tokens: Annotated[
        int | None, typer.Option(help="Limit of a reply, including its reasoning. Default: 4096.", min=1)
    ] = None,
    retry_failed: Annotated[bool, typer.Option(help="Retry answers whose verdict failed.")] = False,
) -> None:
    """Rate answers on the four dimensions of Table 3. Run the same command again to resume."""
    from medvqa_core.llm.connecting import connect_model
    from medvqa_core.llm.record import FILE
    from medvqa_core.registry import load_entry
    from mimic_cxr_vqa.judging.base import Judge
    from mimic_cxr_vqa.judging.decision_judge import DecisionJudge
    from mimic_cxr_vqa.judging.independence import find_dependence
    from mimic_cxr_vqa.judging.judges import JUDGES
    from mimic_cxr_vqa.judging.model_judge import MAX_TOKENS, ModelJudge
    from mimic_cxr_vqa.judging.pairs import writer_settings
    from mimic_cxr_vqa.judging.probing import run_probe
    from mimic_cxr_vqa.judging.run_judge import judge_sample
    from mimic_cxr_vqa.judging.verdicts import Sample
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    if engine.is_language_model:
        if judge_protocol == "systemone" and max_tokens:
            raise ConfigError("--max-tokens only applies to --judge-protocol chat: systemone does not generate text")
        connected = connect_model(engine, workspace.governance(), workspace.judge / FILE)
        is_chat = judge_protocol != "systemone"
        chosen: Judge = ModelJudge(connected, max_tokens or MAX_TOKENS) if is_chat else DecisionJudge(connected)
    elif (name := engine.get_single_engine() if engine.engines else "rules") in JUDGES:
        engine.check_unused(name, judge_protocol=judge_protocol, max_tokens=max_tokens)
        chosen = load_entry(JUDGES[name])()
    else:
        raise ConfigError(f"--engine {name!r} is unknown. Expected {', '.join(JUDGES)}, {SPELLED}.")
    if problem := find_dependence(writer_settings(workspace), chosen.settings):
        typer.echo(f"Warning: {problem}. Table 3 and the card will mark these ratings.", err=True)
    sample = Sample(sample_reports, seed)
    if probe:
        typer.echo(run_probe(workspace, chosen, sample, per_kind, retry_failed))
        return
    counts = judge_sample(workspace, chosen, sample, retry_failed)
    typer.echo(f"judge {chosen.name}: {list_counts(counts)}")
    if counts["failed"]:
        typer.echo("Failed verdicts are not counted. Ask again with --retry-failed.")
    typer.echo(f"next: medvqa-hub cxr review export --out {quote(out)} --stratify {chosen.name}")


def table3(
    out: Out,
    judge: Annotated[str | None, typer.Option(help="Name of the judge, if there are several.")] = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples for the coefficients. 0 for none.", min=0)] = 2000,
) -> None:
    """Print Table 3 with the judge's rates, corrected by the people's ratings, and write it to OUT/table3.json."""
    from medvqa_core.json_files import write_json
    from mimic_cxr_vqa.judging.table3 import measure_table3
    from mimic_cxr_vqa.judging.table3_text import format_table3
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    found = measure_table3(workspace, judge, resamples)
    typer.echo(format_table3(found))
    write_json(workspace.table3, found)
    typer.echo(f"written: {workspace.table3}")


@review_app.command("export")
def review_export(
    out: Out,
    items: Annotated[int, typer.Option(help="Number of pairs. Everybody rates all of them.", min=1)] = 100,
    raters: Annotated[int, typer.Option(help="Number of people.", min=1)] = 3,
    stratify: Annotated[
        str | None, typer.Option(help="Name of a judge: draw half of the items from answers that it objects to.")
    ] = None,
    sample_reports: SampleReports = 1000,
    image_root: Annotated[Path | None, typer.Option(help="Copy the studies' images from here into the sample.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same sample.")] = 0,
) -> None:
    """Draw pairs for people to rate, as blinded sheets with drop-downs and Label Studio tasks."""
    from mimic_cxr_vqa.judging.dimensions import is_flawless
    from mimic_cxr_vqa.judging.pairs import iterate_pairs, require_pairs, sample_studies
    from mimic_cxr_vqa.judging.review import FOR_RATERS
    from mimic_cxr_vqa.judging.review_export import export_review
    from mimic_cxr_vqa.judging.sampling import FLAWED, FLAWLESS
    from mimic_cxr_vqa.judging.verdicts import sampled_verdicts
    from mimic_cxr_vqa.release import find_image_prefix
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    stratum_of = None
    if stratify:
        verdicts = {pair: is_flawless(verdict) for pair, verdict in sampled_verdicts(workspace, stratify)}
        pairs, stratum_of = list(verdicts), lambda pair: FLAWLESS if verdicts[pair] else FLAWED
    else:
        studies = set(sample_studies(workspace, sample_reports, seed))
        pairs = [pair for study in iterate_pairs(workspace, studies) for pair in study]
    strata = export_review(
        workspace.review,
        require_pairs(pairs, workspace),
        workspace.governance(),
        items,
        raters,
        seed,
        stratify,
        stratum_of,
        image_prefix=find_image_prefix(image_root) if image_root else None,
    )
    typer.echo(f"{items} of {sum(strata.values()):,} pairs ({list_counts(strata)}), {raters} raters")
    typer.echo(
        f"Send {workspace.review / FOR_RATERS}/rater-1 and so on to the raters. Keep {workspace.review / 'key.json'}."
    )
    typer.echo(f"next: medvqa-hub cxr review import --out {quote(out)} SHEET…")


@review_app.command("import")
def review_import(
    out: Out,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Filled sheets (CSV, XLSX) and Label Studio exports.")
    ] = None,
    allow_missing: Annotated[bool, typer.Option(help="Import although ratings are missing.")] = False,
    replace: Annotated[bool, typer.Option(help="Replace earlier, different ratings.")] = False,
) -> None:
    """Import ratings. If any is missing, duplicate or unknown, list all of these and import nothing."""
    from mimic_cxr_vqa.judging.review import RATINGS_CSV, open_review
    from mimic_cxr_vqa.judging.review_import import import_ratings
    from mimic_cxr_vqa.workspace import Workspace

    review = open_review(Workspace(out).review)
    found = import_ratings(review, files or [], allow_missing, replace)
    refused = found.problems + ([] if allow_missing else found.missing)
    for line in found.problems + found.missing:
        typer.echo(line, err=True)
    if refused:
        raise InputError(
            f"{len(refused)} problems, listed above. Nothing was imported. Correct the sheets and import again."
        )
    done = {rater: len(review.ratings(rater)) for rater in review.raters}
    typer.echo(f"rated items: {list_counts(done)}, of {len(review.items)}")
    typer.echo(f"next: medvqa-hub cxr agreement {quote(review.folder / RATINGS_CSV)}, medvqa-hub cxr table3")
