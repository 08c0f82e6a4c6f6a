"""What answers questions about report images: the interface, and the engine that needs no model.

An engine gets the questions of one image together, so that it pays for the image (or its restored text) once. Engines
that see the image, or a language model that reads the restored text, implement the same protocol; `reads_pages` says
whether ESRA is run for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from medvqa_core.errors import ConfigError
from medvqa_core.replies import Reply
from rjua_meddqa.answering import rules as esra_rules
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
    """

    id: str
    image: Path
    question: str
    task: str
    answer_type: str
    context: str = ""
    page: "Page | None" = None


class DocumentReply(Reply):
    """Reply to a DocumentRequest."""


@runtime_checkable
class DocumentEngine(Protocol):
    """What the evaluation needs of an engine.

    Attributes:
        name: the kind of engine, as the command line spells it.
        settings: everything that its answers depend on besides the request: model, revision, prompt, sampling.
        tasks: the tasks that it answers; others are not put to it.
        reads_pages: whether requests carry the restored page.
        endpoint: address that text and images are sent to; None where nothing leaves the process.
        images_at_once: calls of `answer` that may be under way together, on one event loop.
    """

    name: str
    settings: dict[str, Any]
    tasks: frozenset[str]
    reads_pages: bool
    images_at_once: int
    endpoint: str | None

    async def answer(self, requests: Sequence[DocumentRequest]) -> list[DocumentReply]:
        """Answer `requests`, all about one image, in their order, one reply each.

        A failure inside one request is its reply's error.

        Raises:
            InputError: the image or its text cannot be used; all of its questions fail and the run goes on.
            Whatever else is raised stops the run.
        """
        ...


class EsraRules:
    """Answers image-content questions from restored text by rule (`rules.py`). No model, no network."""

    name = esra_rules.NAME
    tasks = frozenset(CONTENT_TASKS)
    reads_pages = True
    images_at_once = 1
    endpoint = None

    def __init__(self) -> None:
        self.settings = {"engine": self.name, "version": esra_rules.VERSION}

    async def answer(self, requests: Sequence[DocumentRequest]) -> list[DocumentReply]:
        """See `DocumentEngine.answer`."""
        return [DocumentReply(esra_rules.answer(r.question, r.task, r.answer_type, r.page)) for r in requests]


ENGINES = {EsraRules.name: EsraRules}


def load_engine(name: str) -> DocumentEngine:
    """The engine called `name`. Raises ConfigError where there is none."""
    if name not in ENGINES:
        raise ConfigError(f"model {name!r}: there is no such engine; allowed: {', '.join(ENGINES)}")
    return ENGINES[name]()
