"""The interface of engines that answer questions about report images, and the engine without a model.

An engine gets all questions about one image at once, so that the image or its restored text is processed once. With
`reads_pages`, requests carry the page restored by ESRA.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from medvqa_core.llm.engines import Engine, Reply
from rjua_meddqa.inference import rules as esra_rules
from rjua_meddqa.schema import CONTENT_TASKS, Page


@dataclass(frozen=True)
class DocumentRequest:
    """One question about one report image.

    Attributes:
        id: `img_path` and the number of the question in its file.
        image: file of the image.
        question: with its options, for multiple choice.
        context: medical knowledge for the question, "" for image-content questions.
        page: the restored page, for engines that read pages.
        shots: examples to show before the question, for engines that support them.
    """

    id: str
    image: Path
    question: str
    task: str
    answer_type: str
    context: str = ""
    page: Page | None = None
    shots: "tuple[Shot, ...]" = ()


@dataclass(frozen=True)
class Shot:
    """An example: a question about another image and its answer."""

    request: DocumentRequest
    answer: str


@runtime_checkable
class DocumentEngine(Engine, Protocol):
    """What the evaluation needs of an engine. `answer` gets DocumentRequests about one image.

    The class of an entry of ENGINES is called without arguments: read a model's folder from an environment variable, or
    add a kind of language model, which has options. An answer is scored as `metrics.soft_accuracy` says: for options
    give the letter and its text (`A.低钾血症`), several values with `;` between them, 无 for nothing.

    Attributes:
        tasks: supported tasks. Questions of other tasks are not sent.
        reads_pages: whether requests carry the restored page.
        asking: further settings, which `results.json` shows.
    """

    @property
    def tasks(self) -> frozenset[str]: ...

    @property
    def reads_pages(self) -> bool: ...

    @property
    def asking(self) -> Mapping[str, Any]: ...

    def asked_as(self, request: DocumentRequest) -> Mapping[str, Any]:
        """Return settings that the answer to `request` depends on besides `settings`, such as its prompt."""
        ...


class EsraRules:
    """Answers image-content questions from restored text by rules (`rules.py`), without a model or network."""

    name = esra_rules.NAME
    tasks = frozenset(CONTENT_TASKS)
    reads_pages = True
    in_flight = 1
    endpoint = None
    asking: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.settings = {"engine": self.name, "version": esra_rules.VERSION}

    def asked_as(self, request: DocumentRequest) -> Mapping[str, Any]:
        """Empty, since the rules have one version for all requests."""
        return {}

    async def answer(self, requests: Sequence[DocumentRequest]) -> list[Reply]:
        """See `Engine.answer`."""
        pages = [(r, r.page) for r in requests if r.page is not None]
        assert len(pages) == len(requests)  # since `reads_pages`
        return [Reply(esra_rules.answer(r.question, r.task, r.answer_type, page)) for r, page in pages]


ENGINES = {esra_rules.NAME: "rjua_meddqa.inference.engines:EsraRules"}  # name -> module and class
