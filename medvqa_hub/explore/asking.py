"""Asking an engine about an image in the page: rules, or the language model that the start line named.

The model is connected when the explorer starts, checked against the class of all that the page shows; a request names
engines by their place in this list, never an address. Questions wait in gradio's queue, one at a time.

    studies    extractive: the report's own sentences      a model: the study's images
    reports    esra-rules: the restored page               a model: the report's image
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medvqa_core.errors import InputError, MedvqaError, one_line
from medvqa_core.governance import Governance
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.engines import Reply
from medvqa_hub.evaluation.cxr.asking import ChatReader, StudyRequest
from medvqa_hub.evaluation.cxr.prompts import StudyPrompt
from medvqa_hub.evaluation.cxr.studies import Study
from medvqa_hub.explore.reports import ReportView
from medvqa_hub.explore.studies import StudyView
from mimic_cxr_vqa.generation.engines import AnswerRequest
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.schema import CATEGORIES
from rjua_meddqa.answering.engines import DocumentRequest, EsraRules
from rjua_meddqa.answering.language_model import DocumentModel
from rjua_meddqa.schema import ENTITY, TABLE, TABLE_NR

LONGEST = 2000  # characters of a question
STUDY, REPORT = "study", "report"
TASKS = {ENTITY: "single_entity", TABLE: "single_span", TABLE_NR: "single_nr"}  # and how one answer of each is asked


@dataclass(frozen=True)
class Question:
    """What a person asks.

    Attributes:
        about: STUDY or REPORT; `subject` is its id or path.
        kind: of a study's question its category, of a report's its task.
    """

    engine: str
    about: str
    subject: str
    kind: str
    text: str


class Asker:
    """The engines of a page.

    Args:
        model: connected for `governance`; None: rules alone.
    """

    def __init__(
        self, studies: StudyView | None, reports: ReportView | None, governance: Governance, model: ChatModel | None
    ) -> None:
        self._studies, self._reports, self.governance, self._model = studies, reports, governance, model

    def describe(self) -> dict[str, Any]:
        """Which engines answer about what, and where texts go."""
        model = [] if self._model is None else [self._model.model]
        place = self._model.endpoint if self._model is not None else None
        return {
            "engines": {
                STUDY: [ExtractiveEngine.name, *model] if self._studies else [],
                REPORT: [EsraRules.name, *model] if self._reports else [],
            },
            "model": {"name": self._model.model, "endpoint": place} if self._model is not None else None,
            "categories": list(CATEGORIES),
            "tasks": list(TASKS),
        }

    async def ask(self, question: Question) -> dict[str, Any]:
        """The answer, or the reason why there is none; and the seconds that it took."""
        started = time.monotonic()
        try:
            if not question.text.strip() or len(question.text) > LONGEST:
                raise InputError(f"a question has 1 to {LONGEST:,} characters, this one {len(question.text):,}")
            about = {STUDY: self._about_study, REPORT: self._about_report}.get(question.about)
            if about is None or question.engine not in self.describe()["engines"][question.about]:
                raise InputError(f"engine {question.engine!r} does not answer about a {question.about} here")
            reply = (await about(question))[0]
        except MedvqaError as error:
            reply = Reply(None, one_line(error))
        return {"answer": reply.answer, "error": reply.error, "seconds": round(time.monotonic() - started, 2)}

    async def _about_study(self, question: Question) -> Sequence[Reply]:
        assert self._studies is not None
        if not question.subject.isdecimal():
            raise InputError(f"study {question.subject!r}: its number is needed")
        report, films = self._studies.report(int(question.subject))
        if question.engine == ExtractiveEngine.name:
            if question.kind not in CATEGORIES:
                raise InputError(f"category {question.kind!r}: allowed are {', '.join(CATEGORIES)}")
            sections = {name: report[name] for name in ("indication", "findings", "impression")}
            request = AnswerRequest(
                f"s{question.subject}-asked", int(question.subject), question.kind, question.text, **sections
            )
            return await ExtractiveEngine().answer([request])
        assert self._model is not None
        files = tuple(self._studies.images.file(path) for path in films.paths)
        study = Study(report["study_id"], report["subject_id"], report["split"], files, tuple(films.views), ())
        async with ChatReader(self._model, StudyPrompt()) as reader:
            return await reader.answer([StudyRequest("asked", study, {"question": question.text})])

    async def _about_report(self, question: Question) -> Sequence[Reply]:
        assert self._reports is not None
        if question.kind not in TASKS:
            raise InputError(f"task {question.kind!r}: allowed are {', '.join(TASKS)}")
        file, page = self._reports.file(question.subject), self._reports.restored(question.subject)
        if question.engine == EsraRules.name and page is None:
            raise InputError(f"{question.subject}: no restored page; run medvqa-hub meddqa esra and name its folder")
        if question.engine != EsraRules.name and file is None:
            raise InputError(f"{question.subject}: its image is not found; name its folder with --report-images")
        request = DocumentRequest("asked", file, question.text, question.kind, TASKS[question.kind], page=page)
        if question.engine == EsraRules.name:
            return await EsraRules().answer([request])
        async with DocumentModel(self._model) as model:
            return await model.answer([request])
