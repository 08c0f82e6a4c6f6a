"""Loads the image-content and clinical-reasoning questions of a data folder as one list of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from rjua_meddqa import data_folder as folders
from rjua_meddqa.released import read_annotations, read_questions, read_reasoning
from rjua_meddqa.schema import IMAGE_QUALITIES, LABORATORY, Annotation


@dataclass(frozen=True)
class DocumentQuestion:
    """One question with the data needed to score it.

    Attributes:
        id: `img_path` and the number of the question in its file.
        image: file of the image, or None if it is missing.
        quality: high | low, from the annotation or else the question, or None.
        absent: how the missing item was chosen, for questions made to be unanswerable ("nearest").
        is_laboratory: whether the report has a table (the paper's Table 7 splits by it).
    """

    id: str
    img_path: str
    image: Path | None
    question: str
    answer: str
    task: str
    answer_type: str
    quality: str | None
    is_laboratory: bool
    context: str = ""
    unanswerable: bool = False
    absent: str = ""


@dataclass(frozen=True)
class QuestionSet:
    """All questions of a folder, its properties, and its annotations by `img_path`."""

    rows: tuple[DocumentQuestion, ...]
    governance: Governance
    fingerprint: str
    source: str
    annotations: Mapping[str, Annotation] = field(default_factory=dict)


def load_questions(data: Path, image_root: Path | None = None) -> QuestionSet:
    """Read the questions of a folder, including its reasoning file. Images are looked up but not opened.

    Raises:
        InputError: the folder or both files are missing, or a file is broken.
    """
    folder = folders.open_folder(data)
    if folders.QUESTIONS not in folder.files and folders.REASONING not in folder.files:
        folder.file(folders.QUESTIONS)  # raises with the expected file names
    annotations = {}
    if folders.ANNOTATIONS in folder.files:
        annotations = {a.img_path: a for a in read_annotations(folder.file(folders.ANNOTATIONS))}
    asked: list[tuple[Any, str, bool]] = []
    if folders.QUESTIONS in folder.files:
        asked += [(q, "", q.extra.get("unanswerable") is True) for q in read_questions(folder.file(folders.QUESTIONS))]
    if folders.REASONING in folder.files:
        asked += [(q, q.context, False) for q in read_reasoning(folder.file(folders.REASONING))]
    if not asked:
        raise InputError(f"{data}: its question files are empty. Make questions: medvqa-hub meddqa generate")
    roots = folders.image_roots(folder.root, image_root)
    images = {path: folders.find_image(roots, path, f"{data}, image") for path in {q.img_path for q, _, _ in asked}}
    rows = []
    for number, (question, context, unanswerable) in enumerate(asked, start=1):
        annotation = annotations.get(question.img_path)
        rows.append(
            DocumentQuestion(
                id=f"{question.img_path}-{number}",
                img_path=question.img_path,
                image=images[question.img_path],
                question=question.question,
                answer=question.answer,
                task=question.task,
                answer_type=question.answer_type,
                quality=_read_quality((annotation or question).image_quality),
                is_laboratory=annotation.report_type.strip() == LABORATORY if annotation else bool(_is_table(question)),
                context=context,
                unanswerable=unanswerable,
                absent=str(getattr(question, "extra", {}).get("absent", "")) if unanswerable else "",
            )
        )
    source = folder.manifest.get("source", "the authors' release")
    return QuestionSet(tuple(rows), folder.governance, folder.fingerprint(), source, annotations)


def by_image(rows: Sequence[DocumentQuestion]) -> dict[str, list[DocumentQuestion]]:
    """Group rows by `img_path`, in order."""
    groups: dict[str, list[DocumentQuestion]] = {}
    for row in rows:
        groups.setdefault(row.img_path, []).append(row)
    return groups


def _read_quality(written: str) -> str | None:
    quality = written.strip().lower()
    return quality if quality in IMAGE_QUALITIES else None


def _is_table(question: object) -> int:
    return getattr(question, "is_table", 0)
