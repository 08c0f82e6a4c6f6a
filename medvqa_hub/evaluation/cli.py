"""`medvqa-hub evaluate …`. Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from medvqa_core.errors import ConfigError
from medvqa_core.llm.options import EngineOptions, with_engine_options
from medvqa_hub.launching import Launch, launch_command

LONGEST_SIDE = 1536  # equal to rjua_meddqa.inference.page_images.LONGEST_SIDE, whose import is slow
app = typer.Typer(no_args_is_help=True, help="Evaluate a model: predictions first, then tables from them.")

Predictions = Annotated[
    Path | None,
    typer.Option(
        help="Score answers that were generated elsewhere: JSON lines, CSV, samples of lmms-eval, predictions of "
        "VLMEvalKit. The results get the stricter governance class of the data and the file."
    ),
]
ImageRoot = Annotated[Path | None, typer.Option(help="Folder of the images. Default: images/ of the data.")]
RetryFailed = Annotated[bool, typer.Option(help="Retry questions whose answer failed.")]
Limit = Annotated[int | None, typer.Option(help="Use only the first studies, up to this number.")]
Layout = Annotated[
    str | None,
    typer.Option(help="The data are a public dataset as published: vqa-rad, slake, medical-diff-vqa or rexvqa."),
]
Shuffle = Annotated[bool, typer.Option(help="Also evaluate with the images of another patient for every study.")]
MODEL = "Checkpoint folder, output folder of train, or Hub repository. With --engine: model name on the server."
Data = Annotated[Path, typer.Option(help="A release, the folder it was built in, or the authors' CSV files.")]
Split = Annotated[str, typer.Option(help="train, validate or test.")]
StudyImageRoot = Annotated[Path | None, typer.Option(help="Folder of the images. Default: MIMIC_CXR_JPG_ROOT.")]
Profile = Annotated[
    Literal["default", "paper", "cxr-oracle"],
    typer.Option(
        help="paper: the paper's metrics, which need Java and an encoder. cxr-oracle: the challenge's score, which "
        "needs RadGraph F1 (--clinical-python or --clinical-scores)."
    ),
]
Encoder = Annotated[str | None, typer.Option(help="Encoder of BERTScore: a folder, a Hub id, minilm or none.")]
Layer = Annotated[int | None, typer.Option(min=0, help="Hidden layer of the encoder. Default: 5.")]
Baseline = Annotated[
    str | None,
    typer.Option(
        help="Rescale BERTScore: computed (from the references of the split), a CSV file with the "
        "columns LAYER,P,R,F, or none."
    ),
]
MaxNewTokens = Annotated[int | None, typer.Option(help="Longest answer in tokens. Default: the checkpoint's limit.")]
Batch = Annotated[int, typer.Option(help="Maximum questions per batch (checkpoints only). Studies are not split.")]
Missing = Annotated[Literal["error", "skip"], typer.Option(help="Stop at a missing image, or skip its study.")]
Failed = Annotated[
    Literal["exclude", "empty"], typer.Option(help="Exclude failed answers from the scores, or score them as empty.")
]
Examples = Annotated[int, typer.Option(min=0, help="Studies in the picture of examples. 0: no picture.")]
Scored = Annotated[
    bool, typer.Option("--scored", help="Also write scored.jsonl: each question, answer, reference and its scores.")
]
ClinicalPython = Annotated[
    Path | None,
    typer.Option(help="Python of an environment with RadEval, to add RadGraph F1, CheXbert and other clinical scores."),
]
ClinicalScoresFile = Annotated[
    Path | None, typer.Option(help="File of clinical scores that RadEval computed from the same answers.")
]
ClinicalMetrics = Annotated[str, typer.Option(help="RadEval's names of the metrics, separated by commas.")]
RadGraphLevel = Annotated[
    Literal["simple", "partial", "complete"], typer.Option(help="RadGraph F1 of --profile cxr-oracle.")
]
Indication = Annotated[
    bool, typer.Option("--indication", help="Include the reason for the examination in the prompt of --engine.")
]
BareQuestion = Annotated[
    bool, typer.Option("--bare-question", help="Prompt --engine as train vlm does: images and question only.")
]
ImageSide = Annotated[
    int,
    typer.Option(min=32, help="Resize images so that the shorter side has at most this many pixels (--engine only)."),
]
FeatureCache = Annotated[
    Path | None,
    typer.Option(
        help="Folder of image features. Checkpoints with the same image encoder, and training, share them (checkpoints "
        "only)."
    ),
]


@app.callback()
def _group() -> None:
    pass


@app.command()
@with_engine_options(model=MODEL)
def cxr(
    context: typer.Context,
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for predictions, results, chart and examples.")],
    engine: EngineOptions,
    layout: Layout = None,
    split: Split = "test",
    image_root: StudyImageRoot = None,
    limit: Limit = None,
    shuffle_images: Shuffle = False,
    shuffle_seed: Annotated[int, typer.Option(help="Seed of --shuffle-images.")] = 0,
    blank_images: Annotated[bool, typer.Option(help="Also evaluate with images without content.")] = False,
    profile: Profile = "default",
    encoder: Encoder = None,
    layer: Layer = None,
    baseline: Baseline = None,
    beams: Annotated[int, typer.Option(help="Beam search width (checkpoints only). 1 is greedy.")] = 2,
    max_new_tokens: MaxNewTokens = None,
    bf16: Annotated[bool, typer.Option(help="Weights in bfloat16 instead of float32.")] = False,
    questions_per_batch: Batch = 96,
    retry_failed: RetryFailed = False,
    missing_images: Missing = "error",
    failed: Failed = "exclude",
    examples: Examples = 4,
    scored: Scored = False,
    clinical_python: ClinicalPython = None,
    clinical_scores: ClinicalScoresFile = None,
    clinical_metrics: ClinicalMetrics = "radgraph,f1chexbert",
    radgraph_level: RadGraphLevel = "partial",
    predictions: Predictions = None,
    indication: Indication = False,
    bare_question: BareQuestion = False,
    image_side: ImageSide = 512,
    feature_cache: FeatureCache = None,
    launch: Launch = None,
) -> None:
    """Answer the questions of a split and print the paper's Table 4 row. Run it again to resume."""
    if launch is not None:
        launch_command(launch, ["evaluate", "cxr"], context)
        return
    from medvqa_hub.evaluation.cxr.evaluating import evaluate_cxr
    from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions, GenerationSettings, ScoreOptions
    from medvqa_hub.evaluation.cxr.printing import print_results

    engine, model = engine.split_checkpoint()
    generation = GenerationSettings(beams, max_new_tokens, "bfloat16" if bf16 else "float32")
    results = evaluate_cxr(
        out,
        DataOptions(
            data, split, layout, image_root, limit, missing_images, shuffle_images, shuffle_seed, blank_images
        ),
        AnswerOptions(
            model, engine, predictions, generation, questions_per_batch, retry_failed, indication, bare_question,
            image_side, feature_cache=feature_cache,
        ),
        ScoreOptions(
            profile, encoder, layer, baseline, failed, examples, scored, clinical_python, clinical_scores,
            tuple(clinical_metrics.split(",")), radgraph_level,
        ),
    )  # fmt: skip
    if results:
        print_results(results, out)


@app.command()
@with_engine_options("esra-rules (restored text and rules without a model, the default)")
def meddqa(
    data: Annotated[Path, typer.Option(help="Folder with questions.jsonl and images/, or the authors' release.")],
    out: Annotated[Path, typer.Option(help="Folder for predictions, results and restored pages.")],
    engine: EngineOptions,
    input: Annotated[
        Literal["image", "esra", "image+esra"] | None,
        typer.Option(help="Input of a model: the image (default), the restored text (ESRA), or both."),
    ] = None,
    context: Annotated[
        Literal["yes", "no"] | None,
        typer.Option(help="Whether clinical-reasoning questions come with their passage. Default: yes."),
    ] = None,
    shots: Annotated[int, typer.Option(min=0, help="Examples of the same task from other images.")] = 0,
    shots_seed: Annotated[int, typer.Option(help="Seed that draws the examples.")] = 0,
    prompt: Annotated[
        str | None, typer.Option(help="ours (default), paper (context and question alone), or a file.")
    ] = None,
    longest_side: Annotated[
        int | None, typer.Option(help=f"Pixels of the longest side of an image. Default: {LONGEST_SIDE}.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a reply, including reasoning.")] = 1024,
    predictions: Predictions = None,
    image_root: ImageRoot = None,
    workers: Annotated[int, typer.Option(help="Processes that read images.")] = 1,
    profile: Annotated[
        Literal["ours", "released"], typer.Option(help="released: equal to the authors' script. ours: corrected rules.")
    ] = "ours",
    units: Annotated[Literal["characters", "words"], typer.Option(help="Units of our ROUGE-L.")] = "characters",
    pages: Annotated[
        Path | None, typer.Option(help="Folder of meddqa esra --out, whose images are not read again.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Number of images, the first ones. Default: all.")] = None,
    retry_failed: RetryFailed = False,
) -> None:
    """Answer questions about report images and print the paper's Tables 5 to 7. Run it again to resume."""
    from medvqa_hub.evaluation.meddqa.evaluating import MeddqaOptions, evaluate_meddqa
    from medvqa_hub.evaluation.meddqa.models import ModelOptions
    from medvqa_hub.evaluation.meddqa.printing import print_meddqa

    engine, checkpoint = engine.split_checkpoint()
    asking, name = None, engine.model or ""
    if engine.is_language_model:
        sides = longest_side or LONGEST_SIDE
        asking = ModelOptions(
            engine, input or "image", context != "no", shots, shots_seed, prompt or "ours", sides, max_tokens
        )
    else:
        if checkpoint is not None:
            raise ConfigError(
                f"--model {checkpoint!r} needs --engine server:URL. Engines without a server are --engine NAME."
            )
        name = engine.get_single_engine() if engine.engines else "esra-rules"
        others = {"input": input, "context": context, "prompt": prompt, "longest_side": longest_side}
        engine.check_unused(name, shots=shots or None, **others)
    if predictions is not None and engine.engines:
        raise ConfigError("--predictions cannot be combined with --engine")
    options = MeddqaOptions(
        name, data, out, image_root, workers, units, retry_failed, profile, pages, asking, predictions, limit
    )
    print_meddqa(evaluate_meddqa(options), out)


@app.command("meddqa-report")
def meddqa_report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that evaluate meddqa wrote.")],
    out: Annotated[Path, typer.Option(help="Folder for tables.md and tables.csv.")],
) -> None:
    """Write Tables 5 to 8 of several runs with the paper's rows, and their errors by cause."""
    from medvqa_hub.evaluation.meddqa.report import write_report

    for line in write_report(runs, out):
        typer.echo(line)
