"""Where the answers of an evaluation come from: a checkpoint of ours, a model behind `--engine`, a file of predictions.

Each says what it is, what class it has, and gives a prediction for every question of any set of studies.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from medvqa_core.errors import ConfigError
from medvqa_core.files import make_folder
from medvqa_core.governance import Governance, strictest
from medvqa_core.llm.connecting import connect_model, get_engines_governance
from medvqa_core.llm.record import FILE as RECORD
from medvqa_core.runs.predictions import Prediction
from medvqa_hub.evaluation.answer_files import RecordedAnswers, read_answer_file
from medvqa_hub.evaluation.cxr.engine_inference import ChatReader, StudyEngine, ask_studies
from medvqa_hub.evaluation.cxr.generating import ProcessGroup, generate_predictions
from medvqa_hub.evaluation.cxr.model_inference import GenerationSettings, StudyAnswerer
from medvqa_hub.evaluation.cxr.prompts import BARE, StudyPrompt
from medvqa_hub.evaluation.cxr.studies import Study
from medvqa_hub.families.checkpoint import open_checkpoint

if TYPE_CHECKING:
    from medvqa_hub.evaluation.cxr.evaluating import CxrOptions

TOKENS = 256  # of a reply, reasoning included, where nothing else is asked for


class AnswerSource(Protocol):
    """Attributes:
    governance: class of what it was trained on; the answers' is at least that.
    model, generation: what results say of it.
    """

    governance: Governance
    model: Mapping[str, Any]
    generation: Mapping[str, Any]

    def predict(
        self, studies: Sequence[Study], path: Path, governance: Governance, digests: Mapping[Path, str]
    ) -> tuple[list[list[Prediction]], Counter]:
        """As `generate_predictions`."""
        ...


class CheckpointSource:
    """One of our model families; loaded when the first question is to be answered."""

    def __init__(self, options: "CxrOptions", group: ProcessGroup) -> None:
        checkpoint = open_checkpoint(str(options.model))
        self._options, self._group = options, group
        self._settings = {"model": checkpoint.fingerprint, **asdict(options.generation)}
        # once for all conditions
        self._open = cache(lambda: StudyAnswerer(checkpoint, options.generation, group.device))
        self.governance = checkpoint.governance
        self.model = {"name": checkpoint.name, "kind": checkpoint.kind, "fingerprint": checkpoint.fingerprint}
        self.generation = asdict(options.generation)

    def predict(
        self, studies: Sequence[Study], path: Path, governance: Governance, digests: Mapping[Path, str]
    ) -> tuple[list[list[Prediction]], Counter]:
        options = self._options
        asked = (options.questions_per_batch, options.retry_failed, digests, self._group)
        return generate_predictions(studies, path, governance, self._settings, self._open, *asked)


class EngineSource:
    """An engine that is asked study by study."""

    def __init__(self, engine: StudyEngine, governance: Governance, retry_failed: bool) -> None:
        self._engine, self._retry_failed = engine, retry_failed
        self.governance = governance
        self.model, self.generation = engine.described

    def predict(
        self, studies: Sequence[Study], path: Path, governance: Governance, digests: Mapping[Path, str]
    ) -> tuple[list[list[Prediction]], Counter]:
        return ask_studies(self._engine, studies, path, governance, self._retry_failed, digests)


def open_source(
    options: "CxrOptions", studies: Sequence[Study], governance: Governance, style: str, group: ProcessGroup
) -> AnswerSource:
    """The source that the options name.

    Args:
        studies: all that will be asked about.
        governance: of the studies: credentialed images go to this machine's engines only.
        style: of the dataset's answers, see `prompts.STYLES`.

    Raises:
        ConfigError: none or several are named, or options belong to another one.
        GovernanceError, InputError, ServerError: as the sources.
    """
    if options.predictions is not None:
        return _open_file(options, studies)
    if not options.engine.engines:
        options.engine.check_unused(str(options.model), indication=options.indication)
        if not options.model:
            raise ConfigError("name what is evaluated: --model FOLDER, --engine server:URL, or --predictions FILE")
        return CheckpointSource(options, group)
    if group.size > 1:
        raise ConfigError("--launch is for checkpoints (--model FOLDER); with --engine one process asks the model")
    if options.generation != GenerationSettings(max_new_tokens=options.generation.max_new_tokens):
        raise ConfigError("--beams and --bf16 are of checkpoints (--model FOLDER); an engine writes greedily")
    if options.bare_question and (options.indication or style != "sentence"):
        raise ConfigError(
            "--bare-question asks the question and nothing else: leave --indication out, and --layout, whose sets say "
            "how to ask"
        )
    own = get_engines_governance(options.engine.engines)
    governance = strictest([governance, own])
    make_folder(options.out, governance.private)
    model = connect_model(options.engine, governance, options.out / RECORD)
    most = options.generation.max_new_tokens or TOKENS
    prompt = StudyPrompt(BARE if options.bare_question else style, options.indication, options.image_side, most)
    return EngineSource(ChatReader(model, prompt), own, options.retry_failed)


def _open_file(options: "CxrOptions", studies: Sequence[Study]) -> EngineSource:
    if options.engine.engines or options.model or options.shuffle_images or options.blank_images:
        raise ConfigError(
            "--predictions are answers already: leave --engine, --model, --shuffle-images and --blank-images out"
        )
    references = {row["qa_id"]: row["answer"] for study in studies for row in study.rows}
    file = read_answer_file(options.predictions, references)
    return EngineSource(RecordedAnswers(file), file.governance or Governance.OPEN, options.retry_failed)
