"""Qualitative examples: a PNG with randomly drawn studies, references and answers."""

import random
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from medvqa_core.errors import InputError
from medvqa_core.runs.predictions import Prediction
from medvqa_hub.evaluation.cxr.model_inference import read_image
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.contact_sheet import draw_contact_sheet
from mimic_cxr_vqa.schema import CATEGORIES

IMAGES_SHOWN = 3


def draw_examples(
    studies: Sequence[Study],
    predictions: Sequence[Sequence[Prediction]],
    path: Path,
    count: int = 4,
    questions: int = 5,
    seed: int = 0,
) -> None:
    """Draw `count` of `studies` with `questions` of their questions each. Only the owner can read the file.

    Args:
        predictions: aligned with the studies and their rows.

    Raises:
        OutputError: `path` cannot be written.
    """
    rng = random.Random(seed)
    chosen = sorted(rng.sample(range(len(studies)), min(count, len(studies))))
    cards = [_card(studies[index], predictions[index], rng) for index in chosen]
    draw_contact_sheet(cards, path, columns=2, questions=questions)
    path.chmod(0o600)


def _card(study: Study, predictions: Sequence[Prediction], rng: random.Random) -> dict:
    """A study for the contact sheet, with its categories in random order."""
    order = rng.sample(CATEGORIES, len(CATEGORIES))
    order += sorted({row["category"] for row in study.rows} - set(CATEGORIES))  # of public datasets
    pairs = sorted(zip(study.rows, predictions, strict=True), key=lambda pair: order.index(pair[0]["category"]))
    shown = list(zip(study.images, study.views, strict=True))[:IMAGES_SHOWN]
    readable = [(image, view) for path, view in shown if (image := read_or_none(path)) is not None]
    return {
        "study_id": study.study_id,
        "split": study.split,
        "images": [image for image, _ in readable],
        "views": [view for _, view in readable],
        "questions": [_question(row, found) for row, found in pairs],
    }


def read_or_none(path: Path | None) -> Image.Image | None:
    """The image, or None if it cannot be decoded."""
    try:
        return read_image(path)
    except InputError:
        return None


def _question(row: dict, prediction: Prediction) -> dict:
    return {
        **row,
        "label_value": row["label_value"] or row["answer_type"],
        "question": f"{row['question']} Reference: {row['answer'] or '(none)'}",
        "answer": f"Model: {prediction.answer or '(nothing)'}" if prediction.error is None else "Failed: no answer",
    }
