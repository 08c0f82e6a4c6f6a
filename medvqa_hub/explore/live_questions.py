"""Ask an engine about a study, a report page or an uploaded image.

Models are connected when the explorer starts and are checked against the class of the data. Requests name an engine
from the list on the page, never an address. Questions wait in gradio's queue and are answered one at a time.

    studies    the engine `extractive` (sentences of the report), a model or a checkpoint (the images)
    reports    the engine `esra-rules` (the restored page) or a model (the image)
    uploads    a model, or a checkpoint for radiographs
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
from medvqa_hub.explore.guarding import MOST_UPLOAD
from medvqa_hub.explore.page_models import PageModels
from medvqa_hub.explore.reports import ReportView
from medvqa_hub.explore.studies import StudyView
from medvqa_hub.explore.uploads import Uploads
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.schema import CATEGORIES
from rjua_meddqa.inference.engines import DocumentRequest, EsraRules
from rjua_meddqa.inference.language_model import DocumentModel
from rjua_meddqa.restoration.pages import Page
from rjua_meddqa.schema import ENTITY, TABLE, TABLE_NR

LONGEST = 2000  # characters of a question
STUDY, REPORT, IMAGE = "study", "report", "image"
TASKS = {ENTITY: "single_entity", TABLE: "single_span", TABLE_NR: "single_nr"}  # task -> question form
UPLOADED = "brought"  # in place of the ids of a study
VIEWS = {"radiograph": None, **{f"radiograph {view}": view for view in ("PA", "AP", "LAT")}}  # of an uploaded image
TRUNCATED = "The answer was cut off at the checkpoint's limit."


@dataclass(frozen=True)
class Question:
    """A question from the page.

    Attributes:
        about: STUDY, REPORT or IMAGE.
        subject: id of the study, path of the report, or name of the upload.
        kind: category (study), task (report) or content of the image (upload).
    """

    engine: str
    about: str
    subject: str
    kind: str
    text: str


class ChatHandler:
    """Answers questions with the engines of a page.

    Args:
        governance: class of the data on the page.
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
        """Names of the engines for each kind of subject."""
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
        """The engines, and where texts and images are sent."""
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
                "most_bytes": MOST_UPLOAD,
                "refusal": models.refusal,
            },
        }

    async def ask(self, question: Question) -> dict[str, Any]:
        """The answer or the error, with the seconds that it took and a note."""
        started = time.monotonic()
        try:
            if not question.text.strip() or len(question.text) > LONGEST:
                raise InputError(f"the question has {len(question.text):,} characters. Expected 1 to {LONGEST:,}.")
            about = {STUDY: self._about_study, REPORT: self._about_report, IMAGE: self._about_image}.get(question.about)
            if about is None or question.engine not in self._engines()[question.about]:
                raise InputError(f"engine {question.engine!r} cannot answer questions about this {question.about}")
            reply = (await about(question))[0]
        except MedvqaError as error:
            reply = Reply(None, one_line(error))
        note = TRUNCATED if getattr(reply, "details", {}).get("truncated") else None
        seconds = round(time.monotonic() - started, 2)
        return {"answer": reply.answer, "error": reply.error, "seconds": seconds, "note": note}

    async def _about_study(self, question: Question) -> Sequence[Reply]:
        assert self._studies is not None
        if not question.subject.isdecimal():
            raise InputError(f"study {question.subject!r} is not a number")
        report, films = self._studies.report(int(question.subject))
        if question.engine == ExtractiveEngine.name:
            if question.kind not in CATEGORIES:
                raise InputError(f"category {question.kind!r} is unknown. Expected {', '.join(CATEGORIES)}.")
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
        _check_task(question)
        file, page = self._reports.file(question.subject), self._reports.restored(question.subject)
        if question.engine == EsraRules.name and page is None:
            raise InputError(
                f"{question.subject} has no restored page. Run medvqa-hub meddqa esra and pass its folder."
            )
        if question.engine != EsraRules.name and file is None:
            raise InputError(f"the image of {question.subject} was not found. Pass its folder with --report-images.")
        if question.engine == EsraRules.name:
            return await EsraRules().answer([_document(file, question, page)])
        return await self._read(_document(file, question), self._models.chat)

    async def _about_image(self, question: Question) -> Sequence[Reply]:
        """An uploaded image, as a radiograph with a view or as a report page."""
        assert self.uploads is not None
        with self.uploads.file(question.subject) as file:
            if question.kind in VIEWS:
                study = Study(UPLOADED, UPLOADED, UPLOADED, (file,), (VIEWS[question.kind],), ())
                return await self._see(study, question, self._models.chat_for_images)
            _check_task(question, tuple(VIEWS))
            chat = self._models.chat_for_images
            if chat is None or question.engine != chat.model:
                raise InputError(f"engine {question.engine!r} only answers questions about radiographs")
            return await self._read(_document(file, question), chat)

    async def _see(self, study: Study, question: Question, chat: ChatModel | None) -> Sequence[Reply]:
        """The answer of the checkpoint, or of `chat`, which is connected for the class of the images."""
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


def _document(file: Path | None, question: Question, page: Page | None = None) -> DocumentRequest:
    return DocumentRequest("asked", file or Path(), question.text, question.kind, TASKS[question.kind], page=page)


def _check_task(question: Question, others: tuple[str, ...] = ()) -> None:
    if question.kind not in TASKS:
        raise InputError(f"task {question.kind!r} is unknown. Expected {', '.join((*others, *TASKS))}.")
