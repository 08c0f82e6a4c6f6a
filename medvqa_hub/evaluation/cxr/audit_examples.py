"""Example pages of an audit: a question with own, covered, control and other images, and its answers to each."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medvqa_hub.evaluation.cxr.audit_conditions import AuditItem
from medvqa_hub.evaluation.cxr.examples import read_or_none
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.contact_sheet import draw_contact_sheet

SHOWN = ("own", "covered", "control", "opposite")  # conditions whose image is drawn
FAILED = "Failed: no answer"


def draw_audit_examples(
    items: Sequence[AuditItem],
    conditions: Mapping[str, Mapping[int, Study]],
    rows: Mapping[str, Mapping[str, Any]],
    path: Path,
    count: int = 6,
    seed: int = 0,
) -> None:
    """Draw a question of `count` random items, those with covered regions first. Only the owner can read the file.

    Args:
        conditions: from `make_conditions`.
        rows: by question id, with `answer` and `polarity` by condition.
    """
    rng = random.Random(seed)
    order = sorted(range(len(items)), key=lambda number: (number not in conditions.get("covered", {}), rng.random()))
    cards = [_make_card(number, items[number], conditions, rows) for number in order[:count]]
    draw_contact_sheet(cards, path, columns=2, questions=len(conditions))
    path.chmod(0o600)


def _make_card(
    number: int,
    item: AuditItem,
    conditions: Mapping[str, Mapping[int, Study]],
    rows: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    row = rows[item.study.rows[0]["qa_id"]]
    place = _find_changed(conditions.get("covered", {}).get(number), item.study)
    shown = {}
    for name in SHOWN:
        study = conditions.get(name, {}).get(number)
        images = study.images if study else ()
        path = images[min(place, len(images) - 1)] if images else None
        if path is not None and (image := read_or_none(path)) is not None:
            shown[name] = image
    answers = [
        {
            "category": name.replace("_", " "),
            "label_value": row["polarity"][name] or "failed",
            "question": "",
            "answer": FAILED if answer is None else answer,
        }
        for name, answer in row["answer"].items()
    ]
    return {
        "study_id": f"{item.study.study_id}: {row['question']} ({item.category}: {item.label})",
        "split": item.study.split,
        "images": list(shown.values()),
        "views": list(shown),
        "questions": answers,
    }


def _find_changed(covered: Study | None, own: Study) -> int:
    """The first image with a covered region, or 0."""
    if covered is None:
        return 0
    pairs = zip(covered.images, own.images, strict=True)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), 0)
