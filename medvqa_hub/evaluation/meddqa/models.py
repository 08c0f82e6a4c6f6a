"""A language or image-text model as the engine of an evaluation, with its prompt, input and examples."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import make_folder
from medvqa_core.governance import Governance
from medvqa_core.llm.connecting import connect_model
from medvqa_core.llm.options import EngineOptions
from medvqa_core.llm.record import FILE as RECORD
from medvqa_hub.evaluation.meddqa.inference import ImageSet, digest_readable
from rjua_meddqa.inference.engines import DocumentEngine
from rjua_meddqa.inference.language_model import IMAGE, INPUTS, MAX_TOKENS, DocumentModel
from rjua_meddqa.inference.page_images import LONGEST_SIDE, ImageRule
from rjua_meddqa.inference.prompts import OURS, find_prompt
from rjua_meddqa.inference.questions import DocumentQuestion
from rjua_meddqa.inference.shots import draw_shots

Shots = Mapping[str, Sequence[DocumentQuestion]]


@dataclass(frozen=True)
class ModelOptions:
    """Attributes:
    input: one of `INPUTS`.
    context: whether clinical-reasoning questions come with their passage.
    shots, shots_seed: number of examples before each question, and the seed that draws them.
    prompt: ours, paper, or a file.
    longest_side: pixels of the longest side of an image.
    """

    engine: EngineOptions
    input: str = IMAGE
    context: bool = True
    shots: int = 0
    shots_seed: int = 0
    prompt: str = OURS
    longest_side: int = LONGEST_SIDE
    max_tokens: int = MAX_TOKENS


def connect_document_model(options: ModelOptions, governance: Governance, out: Path) -> DocumentModel:
    """Connect to the model. Raises ConfigError, GovernanceError and ServerError, as `connect_model` does.

    Args:
        out: folder that records what is known about a server.
    """
    if options.input not in INPUTS:
        raise ConfigError(f"--input {options.input!r} is unknown. Expected one of {', '.join(INPUTS)}.")
    prompt, rule = find_prompt(options.prompt), ImageRule(options.longest_side)
    make_folder(out, governance.private)
    connected = connect_model(options.engine, governance, out / RECORD)
    return DocumentModel(connected, prompt, options.input, options.context, rule, options.max_tokens)


def draw_examples(
    engine: DocumentEngine, asked: Sequence[DocumentQuestion], images: ImageSet, options: ModelOptions | None
) -> Shots:
    """The examples of each question, by its id. Images that cannot be read are not used."""
    if options is None or not options.shots or not isinstance(engine, DocumentModel):
        return {}
    content = digest_readable(asked, images)
    while True:
        shots = draw_shots(asked, options.shots, options.shots_seed, content)
        broken = []
        for path in {shot.image for found in shots.values() for shot in found if shot.image is not None}:
            try:
                engine.keep(path)
            except InputError:  # the questions about the image fail with the reason
                broken.append(path)
        if not broken:
            return shots
        content = {path: found for path, found in content.items() if path not in broken}


def describe_shots(shots: Shots, options: ModelOptions | None) -> dict[str, Any]:
    """Number and ids of the examples, for the results."""
    if options is None:
        return {}
    if not options.shots:
        return {"shots": 0}
    given = Counter(len(found) for found in shots.values())
    shown = sorted({shot.id for found in shots.values() for shot in found})
    return {
        "shots": options.shots,
        "shots_seed": options.shots_seed,
        "shots_given": {str(count): questions for count, questions in sorted(given.items())},
        "shots_shown": shown,
    }


def name_run(engine: DocumentEngine) -> str:
    """Name of the run in tables: our engine, or the model and its input."""
    return f"{engine.model.model} ({engine.input})" if isinstance(engine, DocumentModel) else engine.name
