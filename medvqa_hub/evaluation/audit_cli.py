"""`medvqa-hub audit …`. Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated

import typer

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.llm.options import EngineOptions, with_engine_options
from medvqa_hub.evaluation.cli import (
    MODEL,
    BareQuestion,
    Batch,
    Data,
    FeatureCache,
    ImageSide,
    Indication,
    Limit,
    MaxNewTokens,
    RetryFailed,
    Split,
    StudyImageRoot,
)
from medvqa_hub.tracking import ReportTo, Trackers, check_trackers

app = typer.Typer(no_args_is_help=True, help="Measure whether a model's answers depend on the images.")


@app.callback()
def _group() -> None:
    pass


@app.command()
@with_engine_options(model=MODEL)
def cxr(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for predictions, changed images and results.")],
    engine: EngineOptions,
    split: Split = "test",
    image_root: StudyImageRoot = None,
    limit: Limit = None,
    boxes: Annotated[
        Path | None,
        typer.Option(
            help="CSV with the boxes of findings: dicom_id,finding,left,top,right,bottom (fractions of the image), or "
            "columns of VinDr-CXR, MS-CXR or MIMIC-Ext. Default: the regions of a synthetic tree."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed that chooses other patients' images.")] = 0,
    beams: Annotated[
        int, typer.Option(help="Beam search width (checkpoints only). 1 is greedy, which confidences need.")
    ] = 2,
    max_new_tokens: MaxNewTokens = None,
    questions_per_batch: Batch = 96,
    retry_failed: RetryFailed = False,
    predictions: Annotated[
        Path | None, typer.Option(help="Answers to the questions that --export wrote, in a file as evaluate reads it.")
    ] = None,
    export: Annotated[
        bool, typer.Option("--export", help="Write the questions and images to OUT, and ask no model.")
    ] = False,
    indication: Indication = False,
    bare_question: BareQuestion = False,
    image_side: ImageSide = 512,
    feature_cache: FeatureCache = None,
    report_to: ReportTo = None,
) -> None:
    """Ask each question with the study's own images, another patient's, covered ones and blank ones. Run it again to
    resume."""
    from medvqa_hub.evaluation.cxr.audit_tables import print_audit
    from medvqa_hub.evaluation.cxr.auditing import audit_cxr, export_audit, name_estimates
    from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions, GenerationSettings

    engine, model = engine.split_checkpoint()
    generation = GenerationSettings(beams, max_new_tokens)
    answers = AnswerOptions(
        model, engine, predictions, generation, questions_per_batch, retry_failed, indication, bare_question,
        image_side, confidence=True, feature_cache=feature_cache,
    )  # fmt: skip
    options = DataOptions(data, split, None, image_root, limit)
    if export:
        if model or engine.engines or predictions:
            raise ConfigError("--export does not ask a model. Remove --model, --engine and --predictions.")
        typer.echo(f"questions in all conditions: {export_audit(out, options, boxes, seed)}")
        return
    check_trackers(report_to or ())
    summary = audit_cxr(out, options, answers, boxes, seed)
    print_audit(summary, out)
    if report_to:
        trackers = Trackers(report_to, out, Governance(summary["governance"]))
        trackers.log({"step": 0, **name_estimates(summary)})
        trackers.close()
