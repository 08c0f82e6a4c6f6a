"""Layout of a public dataset, and helpers for its reader.

A reader returns the studies of a split with their questions. A row has `qa_id`, `category` (the dataset's question
type), `question`, `answer`, `answer_type` (open or closed) and, for multiple choice, `options` (letter -> text), whose
answer is the letter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import join_under
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_json
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.answer_types import CLOSED, OPEN


@dataclass(frozen=True)
class Layout:
    """A published dataset.

    Attributes:
        title: its usual name.
        governance: class that follows from `licence`.
        style: of its answers, see `prompts.STYLES`.
        read: (folder, split, image root) -> studies, and the files that they were read from.
    """

    title: str
    governance: Governance
    licence: str
    style: str
    read: Callable[[Path, str, Path | None], tuple[list[Study], list[Path]]]


def records(path: Path, needed: Sequence[str]) -> list[dict[str, Any]]:
    """Read the objects of a JSON list. Raises InputError if a field is missing."""
    found = read_json(path, "name the folder of the published dataset")
    if not isinstance(found, list):
        raise InputError(f"{path} contains a {type(found).__name__}. Expected a list of questions.")
    for number, record in enumerate(found):
        check_record(record, needed, f"{path}, question {number}")
    return found


def check_record(record: Any, needed: Sequence[str], where: str) -> None:
    """Raise InputError if `record` is not an object with the `needed` fields."""
    lacking = [name for name in needed if not isinstance(record, dict) or record.get(name) in (None, "")]
    if lacking:
        raise InputError(f"{where} lacks {', '.join(lacking)}. Copy the dataset again.")


def parse_answer_type(stated: str, where: str) -> str:
    """Parse OPEN or CLOSED in any case. Raises InputError."""
    answer_type = str(stated).strip().lower()
    if answer_type not in (OPEN, CLOSED):
        raise InputError(f"{where} has the answer type {stated!r}. Expected OPEN or CLOSED.")
    return answer_type


def group_by_image(rows: Sequence[tuple[str, dict]], split: str, root: Path, where: str) -> list[Study]:
    """A study per image, in the order of first occurrence, from pairs of image path below `root` and row."""
    by_image: dict[str, list[dict]] = {}
    for name, row in rows:
        by_image.setdefault(name, []).append(row)
    return [
        Study(name, name, split, (join_under(root, name, where),), (None,), tuple(found))
        for name, found in by_image.items()
    ]


def make_row_from_record(record: Mapping[str, Any], qa_id: str, category: str, where: str) -> dict[str, Any]:
    """A row of a record with the field names of VQA-RAD and SLAKE. Raises InputError."""
    answer = str(record["answer"])  # some are numbers
    kind = parse_answer_type(record["answer_type"], where)
    return make_row(qa_id, str(record[category]).strip(), str(record["question"]), answer, kind)


def make_row(qa_id: str, category: str, question: str, answer: str, answer_type: str, **more: Any) -> dict[str, Any]:
    """A row as `Study.rows` holds it."""
    texts = {"question": question.strip(), "answer": answer.strip(), "answer_type": answer_type}
    return {"qa_id": qa_id, "category": category, "label_value": None, **texts, **more}
