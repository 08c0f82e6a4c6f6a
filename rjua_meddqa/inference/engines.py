"""What answers questions about report images: the interface, and the engine that needs no model.

An engine gets the questions of one image together, so that it pays for the image (or its restored text) once. Models
that see the image or read the restored text (`language_model.py`) implement the same protocol; `reads_pages` says
whether ESRA is run for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from medvqa_core.llm.engines import Engine, Reply
from rjua_meddqa.inference import rules as esra_rules
from rjua_meddqa.schema import CONTENT_TASKS

if TYPE_CHECKING:
    from rjua_meddqa.restoration.pages import Page


@dataclass(frozen=True)
class DocumentRequest:
    """One question about one report image.

    Attributes:
        id: `img_path` and the number of the question in its file.
        image: the image's file.
        question: with its options, for multiple choice.
        context: medical knowledge given with the question; "" for image-content questions.
        page: the image restored to text, where the engine reads pages.
        shots: examples that stand before the question, for engines that take any.
    """

    id: str
    image: Path
    question: str
    task: str
    answer_type: str
    context: str = ""
    page: "Page | None" = None
    shots: "tuple[Shot, ...]" = ()


@dataclass(frozen=True)
class Shot:
    """An example: a question about another image, and its answer."""

    request: DocumentRequest
    answer: str


@runtime_checkable
class DocumentEngine(Engine, Protocol):
    """What the evaluation needs of an engine; `answer` gets DocumentRequests that are all about one image.

    Attributes:
        tasks: the tasks that it answers; others are not put to it.
        reads_pages: whether requests carry the restored page.
        asking: what else the run's results should say of how it was asked.
    """

    tasks: frozenset[str]
    reads_pages: bool
    asking: Mapping[str, Any]

    def asked_as(self, request: DocumentRequest) -> Mapping[str, Any]:
        """What the answer to `request` depends on besides it and `settings`, such as the prompt of its task."""
        ...


class EsraRules:
    """Answers image-content questions from restored text by rule (`rules.py`). No model, no network."""

    name = esra_rules.NAME
    tasks = frozenset(CONTENT_TASKS)
    reads_pages = True
    in_flight = 1
    endpoint = None
    asking: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.settings = {"engine": self.name, "version": esra_rules.VERSION}

    def asked_as(self, request: DocumentRequest) -> Mapping[str, Any]:
        """Nothing: rules have one version for all."""
        return {}

    async def answer(self, requests: Sequence[DocumentRequest]) -> list[Reply]:
        """See `Engine.answer`."""
        return [Reply(esra_rules.answer(r.question, r.task, r.answer_type, r.page)) for r in requests]


ENGINES = {EsraRules.name: EsraRules}
