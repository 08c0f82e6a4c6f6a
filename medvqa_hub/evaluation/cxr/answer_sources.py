"""Sources of the answers of an evaluation: a checkpoint, a model behind `--engine`, or a file of answers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from medvqa_core.errors import ConfigError
from medvqa_core.files import make_folder
from medvqa_core.governance import Governance, strictest
from medvqa_core.llm.connecting import connect_model, get_engines_governance
from medvqa_core.llm.record import FILE as RECORD
from medvqa_hub.evaluation.answer_files import RecordedAnswers, read_answer_file
from medvqa_hub.evaluation.cxr.engine_inference import ChatReader, StudyEngine, ask_studies
from medvqa_hub.evaluation.cxr.evaluation_data import EvaluationData
from medvqa_hub.evaluation.cxr.generating import Answers, generate_predictions
from medvqa_hub.evaluation.cxr.model_inference import StudyAnswerer
from medvqa_hub.evaluation.cxr.options import AnswerOptions, GenerationSettings
from medvqa_hub.evaluation.cxr.prompts import BARE, StudyPrompt
from medvqa_hub.evaluation.cxr.studies import Study
from medvqa_hub.families.checkpoint import open_checkpoint
from medvqa_hub.launching import ProcessGroup

TOKENS = 256  # default limit of an engine's reply, including reasoning


class AnswerSource(Protocol):
    """Attributes:
    governance: class of the model's training data. The answers have at least this class.
    model, generation: description for the results.
    needs_images: whether it cannot be asked without images.
    """

    @property
    def needs_images(self) -> bool: ...

    @property
    def governance(self) -> Governance: ...

    @property
    def model(self) -> Mapping[str, Any]: ...

    @property
    def generation(self) -> Mapping[str, Any]: ...

    def predict(
        self, studies: Sequence[Study], path: Path, governance: Governance, digests: Mapping[Path, str]
    ) -> Answers:
        """See `generate_predictions`."""
        ...


class CheckpointSource:
    """A checkpoint of one of our model families. It is loaded when the first question has to be answered."""

    needs_images = True

    def __init__(self, options: AnswerOptions, group: ProcessGroup) -> None:
        checkpoint = open_checkpoint(str(options.model))
        self._options, self._group = options, group
        self._open = cache(partial(StudyAnswerer, checkpoint, options.generation, group.device, options.feature_cache))
        self.governance = checkpoint.governance
        self.model = {"name": checkpoint.name, "kind": checkpoint.kind, "fingerprint": checkpoint.fingerprint}
        self.generation = asdict(options.generation)

    def predict(
        self, studies: Sequence[Study], path: Path, governance: Governance, digests: Mapping[Path, str]
    ) -> Answers:
        settings = {"model": self.model["fingerprint"], **self.generation}
        batch, retry = self._options.questions_per_batch, self._options.retry_failed
        open_model = partial(self._open, governance)
        return generate_predictions(studies, path, governance, settings, open_model, batch, retry, digests, self._group)


class EngineSource:
    """An engine that answers study by study."""

    needs_images = False

    def __init__(self, engine: StudyEngine, governance: Governance, retry_failed: bool) -> None:
        self._engine, self._retry_failed = engine, retry_failed
        self.governance = governance
        self.model, self.generation = engine.described

    def predict(
        self, studies: Sequence[Study], path: Path, governance: Governance, digests: Mapping[Path, str]
    ) -> Answers:
        return ask_studies(self._engine, studies, path, governance, self._retry_failed, digests)


def open_source(
    options: AnswerOptions, data: EvaluationData, out: Path, group: ProcessGroup, has_controls: bool = False
) -> AnswerSource:
    """Open the source that the options name.

    Args:
        data: the questions. Credentialed ones are only sent to engines on this machine or attested ones.
        out: folder that records what is known about a server.
        has_controls: whether questions are asked with other images too.

    Raises:
        ConfigError: no source or several are given, or an option that the source does not support.
        GovernanceError, InputError, ServerError: the source cannot be used.
    """
    engine = options.engine
    if options.feature_cache is not None and not options.model:
        raise ConfigError("--feature-cache only works with a checkpoint (--model FOLDER)")
    if options.predictions is not None:
        if engine.engines or options.model or has_controls:
            raise ConfigError(
                "--predictions cannot be combined with --engine, --model, --shuffle-images or --blank-images"
            )
        file = read_answer_file(options.predictions, {row["qa_id"]: row["answer"] for row in data.rows})
        return EngineSource(RecordedAnswers(file), file.governance or Governance.OPEN, options.retry_failed)
    if not engine.engines:
        engine.check_unused(str(options.model), indication=options.indication)
        if not options.model:
            raise ConfigError("No model is given. Add --model FOLDER, --engine server:URL or --predictions FILE.")
        return CheckpointSource(options, group)
    if group.size > 1:
        raise ConfigError("--launch only works with a checkpoint (--model FOLDER), not with --engine")
    if options.generation != GenerationSettings(max_new_tokens=options.generation.max_new_tokens):
        raise ConfigError("--beams and --bf16 only work with a checkpoint (--model FOLDER), not with --engine")
    if options.bare_question and (options.indication or data.style != "sentence"):
        raise ConfigError("--bare-question cannot be combined with --indication or --layout")
    own = get_engines_governance(engine.engines)
    governance = strictest([data.governance, own])
    make_folder(out, governance.private)
    model = connect_model(engine, governance, out / RECORD)
    prompt = StudyPrompt(
        BARE if options.bare_question else data.style,
        options.indication,
        options.image_side,
        options.generation.max_new_tokens or TOKENS,
        options.confidence,
    )
    return EngineSource(ChatReader(model, prompt), own, options.retry_failed)
