"""Options of `evaluate cxr`: which questions, what answers them, and what is written."""

from dataclasses import dataclass, field
from pathlib import Path

from medvqa_core.clinical.clinical_scores import LEVELS, METRICS, SETUP
from medvqa_core.errors import ConfigError
from medvqa_core.llm.options import NO_ENGINE, EngineOptions
from mimic_cxr_vqa.images import FILM_SIDE

FAILED_POLICIES = ("exclude", "empty")


@dataclass(frozen=True)
class GenerationSettings:
    """How a checkpoint decodes: greedily or by beam search. The paper uses 2 beams.

    Attributes:
        max_new_tokens: maximum tokens of an answer. None is the checkpoint's limit (128, or 63 for converted weights).
    """

    num_beams: int = 2
    max_new_tokens: int | None = None
    dtype: str = "float32"  # or "bfloat16"

    def __post_init__(self) -> None:
        for name in ("num_beams", "max_new_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}. It must be at least 1.")
        if self.dtype not in ("float32", "bfloat16"):
            raise ConfigError(f"dtype is {self.dtype!r}. Expected float32 or bfloat16.")


@dataclass(frozen=True)
class DataOptions:
    """The questions of an evaluation.

    Attributes:
        data: a release, the workspace that it was built in, or the authors' CSV files. With `layout`, the folder of a
            public dataset.
        layout: name of the public dataset, see `layouts.registry`.
        limit: use the first `limit` studies only.
        missing_images: "error", or "skip" studies that lack an image.
        shuffle_images, blank_images: also evaluate with these controls.
    """

    data: Path
    split: str = "test"
    layout: str | None = None
    image_root: Path | None = None
    limit: int | None = None
    missing_images: str = "error"
    shuffle_images: bool = False
    shuffle_seed: int = 0
    blank_images: bool = False


@dataclass(frozen=True)
class AnswerOptions:
    """The model that answers: a checkpoint, an engine, or a file of answers.

    Attributes:
        model: checkpoint folder or Hub repository.
        engine: an image-text model instead of a checkpoint.
        predictions: a file of answers that were generated elsewhere, see `answer_files`.
        retry_failed: ask questions again whose answer failed.
        questions_per_batch: maximum questions per batch of a checkpoint. Studies are not split.
        confidence: ask an engine for the probabilities of its answers.
        feature_cache: folder of image features, which checkpoints with the same image encoder share.
    indication, bare_question, image_side: prompt of an engine, see `StudyPrompt`.
    """

    model: str | None = None
    engine: EngineOptions = NO_ENGINE
    predictions: Path | None = None
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    questions_per_batch: int = 96
    retry_failed: bool = False
    indication: bool = False
    bare_question: bool = False
    image_side: int = FILM_SIDE
    confidence: bool = False
    feature_cache: Path | None = None


@dataclass(frozen=True)
class ScoreOptions:
    """Scores of an evaluation, and the files that it writes besides predictions and results.

    Attributes:
        profile, encoder, layer, baseline: settings of the text scores, see `TextScorer`.
        failed: "exclude" rows whose answer failed from the scores, or score them as "empty" answers, which are wrong.
        examples: number of studies in examples.png.
        scored: also write every row with its texts and scores.
        clinical_python: Python of an environment with RadEval, whose metrics are added.
        clinical_scores: file of scores that RadEval computed before.
        clinical_metrics: RadEval's names of the metrics.
        radgraph_level: simple, partial or complete, for the profile cxr-oracle.
    """

    profile: str = "default"
    encoder: str | None = None
    layer: int | None = None
    baseline: str | None = None
    failed: str = "exclude"
    examples: int = 4
    scored: bool = False
    clinical_python: Path | None = None
    clinical_scores: Path | None = None
    clinical_metrics: tuple[str, ...] = METRICS
    radgraph_level: str = "partial"

    def __post_init__(self) -> None:
        if self.clinical_python is not None and self.clinical_scores is not None:
            raise ConfigError("--clinical-python and --clinical-scores cannot be combined: the file has the scores")
        if self.profile == "cxr-oracle" and self.clinical_python is None and self.clinical_scores is None:
            raise ConfigError(
                "--profile cxr-oracle needs RadGraph F1. Add --clinical-python PYTHON (of an environment with RadEval: "
                f"{SETUP}) or --clinical-scores FILE"
            )
        if (
            self.profile == "cxr-oracle"
            and self.clinical_python is not None
            and "radgraph" not in self.clinical_metrics
        ):
            raise ConfigError("--profile cxr-oracle needs RadGraph F1. Add radgraph to --clinical-metrics")
        if self.radgraph_level not in LEVELS:
            raise ConfigError(f"--radgraph-level {self.radgraph_level!r}: expected one of {', '.join(LEVELS)}")
        if self.failed not in FAILED_POLICIES:
            raise ConfigError(f"failed is {self.failed!r}. Expected one of {', '.join(FAILED_POLICIES)}.")
        if self.examples < 0:
            raise ConfigError(f"--examples is {self.examples}. It must be 0 (no picture) or more.")
