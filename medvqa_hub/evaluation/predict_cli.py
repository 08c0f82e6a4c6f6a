"""`medvqa-hub predict`. Heavy imports wait until the command runs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from medvqa_core.llm.options import EngineOptions, with_engine_options
from medvqa_hub.evaluation.cli import (
    MODEL,
    BareQuestion,
    Batch,
    FeatureCache,
    ImageSide,
    Indication,
    Layout,
    Limit,
    MaxNewTokens,
    RetryFailed,
    Split,
)


@with_engine_options(model=MODEL)
def predict(
    data: Annotated[
        Path,
        typer.Option(
            help="Questions: a dataset folder, the challenge's or the authors' CSV files, or a .csv or .jsonl file "
            "with qa_id, question and images."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for answers.csv, answers.jsonl and predictions.jsonl.")],
    engine: EngineOptions,
    layout: Layout = None,
    split: Split = "test",
    image_root: Annotated[
        Path | None,
        typer.Option(help="Folder of the images. Default: MIMIC_CXR_JPG_ROOT, or the folder of the file."),
    ] = None,
    limit: Limit = None,
    beams: Annotated[int, typer.Option(help="Beam search width (checkpoints only). 1 is greedy.")] = 2,
    max_new_tokens: MaxNewTokens = None,
    bf16: Annotated[bool, typer.Option(help="Weights in bfloat16 instead of float32.")] = False,
    questions_per_batch: Batch = 96,
    retry_failed: RetryFailed = False,
    missing_images: Annotated[
        Literal["error", "skip"],
        typer.Option(help="Stop at a missing image, or record the questions of its study as failures."),
    ] = "error",
    indication: Indication = False,
    bare_question: BareQuestion = False,
    image_side: ImageSide = 512,
    feature_cache: FeatureCache = None,
) -> None:
    """Answer unanswered questions. evaluate cxr --predictions scores the result. Run it again to resume."""
    from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions, GenerationSettings
    from medvqa_hub.evaluation.cxr.predicting import predict_cxr

    engine, model = engine.split_checkpoint()
    generation = GenerationSettings(beams, max_new_tokens, "bfloat16" if bf16 else "float32")
    counts = predict_cxr(
        out,
        DataOptions(data, split, layout, image_root, limit, missing_images),
        AnswerOptions(
            model,
            engine,
            None,
            generation,
            questions_per_batch,
            retry_failed,
            indication,
            bare_question,
            image_side,
            feature_cache=feature_cache,
        ),
    )
    typer.echo(", ".join(f"{name}: {count:,.0f}" for name, count in counts.items()))
    typer.echo(f"answers.csv and answers.jsonl: {out}")
