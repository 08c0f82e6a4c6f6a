"""The table of layouts: `evaluate cxr --layout NAME`. One more dataset is its file beside this one and a line here.

A reader gives, for a folder and a split, the studies with their questions. A row has `qa_id`, `category` (the
dataset's question type), `question`, `answer`, `answer_type` (open or closed, as the dataset says) and, for multiple
choice, `options` (letter -> text), whose answer is the letter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.digests import digest, digest_file
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import join_under
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_json
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.answer_types import CLOSED, OPEN

SPLITS = ("train", "validate", "test")


@dataclass(frozen=True)
class Layout:
    """A published dataset.

    Attributes:
        title: what people call it.
        governance: what its licence comes to here; `licence` says which one that is.
        style: of its answers, see `prompts.STYLES`.
        read: (folder, split, image root) -> studies, and the files that they were read from.
    """

    title: str
    governance: Governance
    licence: str
    style: str
    read: Callable[[Path, str, Path | None], tuple[list[Study], list[Path]]]


@dataclass(frozen=True)
class PublicSet:
    """The studies of one split of a public dataset; `fingerprint` is of the files with the questions."""

    layout: Layout
    studies: list[Study]
    fingerprint: str


def find_layout(name: str) -> Layout:
    """The layout called `name`. Raises ConfigError where there is none."""
    from medvqa_hub.evaluation.cxr.layouts import medical_diff_vqa, rexvqa, slake, vqa_rad

    layouts = {
        "vqa-rad": vqa_rad.LAYOUT,
        "slake": slake.LAYOUT,
        "medical-diff-vqa": medical_diff_vqa.LAYOUT,
        "rexvqa": rexvqa.LAYOUT,
    }
    if name not in layouts:
        raise ConfigError(f"layout {name!r} is unknown; allowed: {', '.join(layouts)}")
    return layouts[name]


def open_layout(
    name: str,
    folder: Path,
    split: str,
    image_root: Path | None = None,
    limit: int | None = None,
    missing_images: str = "error",
    needs_images: bool = True,
) -> PublicSet:
    """Read a split of a public dataset.

    Args:
        limit: the first so many studies only.
        missing_images: `error`, or `skip` studies that lack one.
        needs_images: whether images are looked for at all.

    Raises:
        ConfigError: no such layout, or `limit` is below one.
        InputError: a file or an image is missing or broken, there is no such split, an id occurs twice.
    """
    layout = find_layout(name)
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit is {limit}; allowed are 1 and more studies")
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name the one that {layout.title} was unpacked to")
    studies, files = layout.read(folder, split, image_root)
    if needs_images:
        studies = [study for study in studies if _has_images(study, missing_images)]
    studies = studies[:limit]
    if not studies:
        raise InputError(f"{folder}: no question of {layout.title} in its {split} split is left to ask")
    seen: set[str] = set()
    for study in studies:
        for row in study.rows:
            if row["qa_id"] in seen:
                raise InputError(f"{folder}: question {row['qa_id']} occurs twice; copy the dataset again")
            seen.add(row["qa_id"])
    whole = "\n".join(f"{path.name} {digest_file(path)}" for path in files)
    return PublicSet(layout, studies, digest(whole)[:16])


def _has_images(study: Study, missing_images: str) -> bool:
    absent = [path for path in study.images if path is None or not path.is_file()]
    if absent and missing_images == "error":
        raise InputError(
            f"study {study.study_id}: image {absent[0]} is absent; unpack the images, name them with --image-root, or "
            "leave such studies out with --missing-images skip"
        )
    return not absent


def records(path: Path, needed: Sequence[str]) -> list[dict[str, Any]]:
    """The objects of a JSON list. Raises InputError where the file is none or an object lacks a field."""
    found = read_json(path, "name the folder of the dataset as it was published")
    if not isinstance(found, list):
        raise InputError(f"{path}: expected a list of questions, found {type(found).__name__}")
    for number, record in enumerate(found):
        check_record(record, needed, f"{path}, question {number}")
    return found


def check_record(record: Any, needed: Sequence[str], where: str) -> None:
    """Raise an InputError where `record` is no object with the `needed` fields."""
    lacking = [name for name in needed if not isinstance(record, dict) or record.get(name) in (None, "")]
    if lacking:
        raise InputError(f"{where}: no {', '.join(lacking)}; copy the dataset again")


def parse_answer_type(stated: str, where: str) -> str:
    """`open` or `closed`, from OPEN or CLOSED in any case. Raises InputError."""
    said = str(stated).strip().lower()
    if said not in (OPEN, CLOSED):
        raise InputError(f"{where}: answer type {stated!r}; allowed are OPEN and CLOSED")
    return said


def group_by_image(rows: Sequence[tuple[str, dict]], split: str, root: Path, where: str) -> list[Study]:
    """A study per image, in the order of first mention, from (image path below `root`, row)."""
    of_image: dict[str, list[dict]] = {}
    for name, row in rows:
        of_image.setdefault(name, []).append(row)
    return [
        Study(name, name, split, (join_under(root, name, where),), (None,), tuple(found))
        for name, found in of_image.items()
    ]


def make_row_from_record(record: Mapping[str, Any], qa_id: str, category: str, where: str) -> dict[str, Any]:
    """A row of a record that calls question, answer and answer type as VQA-RAD and SLAKE do. Raises InputError."""
    answer = str(record["answer"])  # a few are numbers
    kind = parse_answer_type(record["answer_type"], where)
    return make_row(qa_id, str(record[category]).strip(), str(record["question"]), answer, kind)


def make_row(qa_id: str, category: str, question: str, answer: str, answer_type: str, **more: Any) -> dict[str, Any]:
    """A row as `Study.rows` holds it."""
    said: Mapping[str, Any] = {"qa_id": qa_id, "category": category, "label_value": None}
    return {**said, "question": question.strip(), "answer": answer.strip(), "answer_type": answer_type, **more}
