"""Asking an engine about an image in the page, or about one that a person brings: rules, or the model that was named.

Models are connected when the explorer starts, checked against the class of what they will see; a request names engines
as the page lists them, never an address. Questions wait in gradio's queue, one at a time.

    studies    extractive: the report's own sentences      a model, a checkpoint of ours: the study's images
    reports    esra-rules: the restored page               a model: the report's image
    images     nothing is known but the image              a model; of radiographs a checkpoint of ours
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError, MedvqaError, one_line
from medvqa_core.governance import Governance, strictest
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.engines import Reply
from medvqa_hub.evaluation.cxr.engine_inference import ChatReader, StudyRequest
from medvqa_hub.evaluation.cxr.prompts import StudyPrompt
from medvqa_hub.evaluation.cxr.studies import Study
from medvqa_hub.explore.page_models import PageModels
from medvqa_hub.explore.reports import ReportView
from medvqa_hub.explore.studies import StudyView
from medvqa_hub.explore.uploads import MOST_BYTES, Uploads
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.schema import CATEGORIES
from rjua_meddqa.inference.engines import DocumentRequest, EsraRules
from rjua_meddqa.inference.language_model import DocumentModel
from rjua_meddqa.restoration.pages import Page
from rjua_meddqa.schema import ENTITY, TABLE, TABLE_NR

LONGEST = 2000  # characters of a question
STUDY, REPORT, IMAGE = "study", "report", "image"
TASKS = {ENTITY: "single_entity", TABLE: "single_span", TABLE_NR: "single_nr"}  # and how one answer of each is asked
BROUGHT = "brought"  # stands for the ids that a person's image does not have
VIEWS = {"radiograph": None, **{f"radiograph {view}": view for view in ("PA", "AP", "LAT")}}  # of a person's image
CUT_OFF = "cut off: the answer reached the checkpoint's longest"


@dataclass(frozen=True)
class Question:
    """What a person asks.

    Attributes:
        about: STUDY, REPORT or IMAGE; `subject` is its id, path, or the name that the upload got.
        kind: of a study's question its category, of a report's its task, of an image's what it shows.
    """

    engine: str
    about: str
    subject: str
    kind: str
    text: str


class ChatHandler:
    """The engines of a page.

    Args:
        governance: of what the page shows; with that of the models it is the page's.
    """

    def __init__(
        self,
        studies: StudyView | None,
        reports: ReportView | None,
        governance: Governance,
        models: PageModels | None = None,
    ) -> None:
        self._studies, self._reports, self._models = studies, reports, models or PageModels()
        self.governance = strictest([governance, self._models.governance])
        self.uploads = Uploads() if self._engines()[IMAGE] else None

    def _engines(self) -> dict[str, list[str]]:
        """Names of what answers about each."""
        models = self._models
        chat = [models.chat.model] if models.chat is not None else []
        chat_for_images = [models.chat_for_images.model] if models.chat_for_images is not None else []
        own = [models.own.name] if models.own is not None else []
        return {
            STUDY: [ExtractiveEngine.name, *chat, *own] if self._studies else [],
            REPORT: [EsraRules.name, *chat] if self._reports else [],
            IMAGE: [*chat_for_images, *own],
        }

    def describe(self) -> dict[str, Any]:
        """Which engines answer about what, and where texts and images go."""
        models, named = self._models, None
        if models.chat is not None:
            named = {"name": models.chat.model, "endpoint": models.chat.endpoint}
        elif models.own is not None:
            named = {"name": models.own.name, "endpoint": None}
        return {
            "engines": self._engines(),
            "model": named,
            "categories": list(CATEGORIES),
            "tasks": list(TASKS),
            "brought": {
                "kinds": [*VIEWS, *([] if models.own is not None else TASKS)],
                "governance": str(models.image_class),
                "most_bytes": MOST_BYTES,
                "refusal": models.refusal,
            },
        }

    async def ask(self, question: Question) -> dict[str, Any]:
        """The answer, or the reason why there is none; the seconds that it took, and what else is to be said of it."""
        started = time.monotonic()
        try:
            if not question.text.strip() or len(question.text) > LONGEST:
                raise InputError(f"a question has 1 to {LONGEST:,} characters, this one {len(question.text):,}")
            about = {STUDY: self._about_study, REPORT: self._about_report, IMAGE: self._about_image}.get(question.about)
            if about is None or question.engine not in self._engines()[question.about]:
                raise InputError(f"engine {question.engine!r} does not answer about a {question.about} here")
            reply = (await about(question))[0]
        except MedvqaError as error:
            reply = Reply(None, one_line(error))
        note = CUT_OFF if getattr(reply, "details", {}).get("truncated") else None
        seconds = round(time.monotonic() - started, 2)
        return {"answer": reply.answer, "error": reply.error, "seconds": seconds, "note": note}

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
        files = tuple(self._studies.images.file(path) for path in films.paths)
        study = Study(report["study_id"], report["subject_id"], report["split"], files, tuple(films.views), ())
        return await self._see(study, question, self._models.chat)

    async def _about_report(self, question: Question) -> Sequence[Reply]:
        assert self._reports is not None
        _refuse_unknown_task(question)
        file, page = self._reports.file(question.subject), self._reports.restored(question.subject)
        if question.engine == EsraRules.name and page is None:
            raise InputError(f"{question.subject}: no restored page; run medvqa-hub meddqa esra and name its folder")
        if question.engine != EsraRules.name and file is None:
            raise InputError(f"{question.subject}: its image is not found; name its folder with --report-images")
        if question.engine == EsraRules.name:
            return await EsraRules().answer([_document(file, question, page)])
        return await self._read(_document(file, question), self._models.chat)

    async def _about_image(self, question: Question) -> Sequence[Reply]:
        """A person's own image: as a radiograph of a view, or as a report's page."""
        assert self.uploads is not None
        with self.uploads.file(question.subject) as file:
            if question.kind in VIEWS:
                study = Study(BROUGHT, BROUGHT, BROUGHT, (file,), (VIEWS[question.kind],), ())
                return await self._see(study, question, self._models.chat_for_images)
            _refuse_unknown_task(question, tuple(VIEWS))
            if question.engine != _name_of(self._models.chat_for_images):
                raise InputError(f"engine {question.engine!r} answers about radiographs, not about reports")
            return await self._read(_document(file, question), self._models.chat_for_images)

    async def _see(self, study: Study, question: Question, chat: ChatModel | None) -> Sequence[Reply]:
        """The answer of a checkpoint of ours, or of `chat`, which is connected for the class of the images."""
        request = StudyRequest("asked", study, {"question": question.text})
        if self._models.own is not None and question.engine == self._models.own.name:
            return await self._models.own.answer([request])
        assert chat is not None
        async with ChatReader(chat, StudyPrompt()) as reader:
            return await reader.answer([request])

    async def _read(self, request: DocumentRequest, chat: ChatModel | None) -> Sequence[Reply]:
        assert chat is not None
        async with DocumentModel(chat) as model:
            return await model.answer([request])


def _name_of(chat: ChatModel | None) -> str | None:
    return chat.model if chat is not None else None


def _document(file: Path | None, question: Question, page: Page | None = None) -> DocumentRequest:
    return DocumentRequest("asked", file, question.text, question.kind, TASKS[question.kind], page=page)


def _refuse_unknown_task(question: Question, others: tuple[str, ...] = ()) -> None:
    if question.kind not in TASKS:
        raise InputError(f"task {question.kind!r}: allowed are {', '.join((*others, *TASKS))}")
