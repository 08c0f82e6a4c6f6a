"""Wrong answers of a run by cause, each with a crop of the page around the text that was asked for."""

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from rjua_meddqa.annotation.report_words import fold
from rjua_meddqa.inference.causes import CAUSES, parts_asked
from rjua_meddqa.inference.questions import QuestionSet
from rjua_meddqa.restoration.images import open_report
from rjua_meddqa.restoration.pages import Page
from rjua_meddqa.schema import Annotation, Box

CASES = 10  # of a cause
WIDTH = 640  # pixels of a crop
MARGIN_LINES = 2.5  # line heights above and below the text
QUALITY = 80


@dataclass(frozen=True)
class Case:
    """One wrong answer. `picture` is a JPEG, or None if the image cannot be read."""

    cause: str
    question: str
    answer: str
    prediction: str
    image: str
    picture: bytes | None
    is_whole_page: bool


def read_scored(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a `scored.jsonl`. Raises InputError."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines if line]
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}. Evaluate again, which keeps existing answers.") from None


def choose_cases(
    scored: Iterable[Mapping[str, Any]], questions: QuestionSet, pages: Mapping[str, Page], limit: int = CASES
) -> dict[str, list[Case]]:
    """Up to `limit` cases of each cause, from as many images as possible, in the order of the rows.

    Args:
        pages: restored pages by image name. Without one the whole page is shown.
    """
    by_cause: dict[str, list[Mapping[str, Any]]] = {cause: [] for cause in CAUSES}
    for row in scored:
        if row.get("cause") in by_cause:
            by_cause[row["cause"]].append(row)
    files = {row.img_path: row.image for row in questions.rows}
    return {
        cause: [_case(row, questions.annotations, files, pages) for row in _spread(rows, limit)]
        for cause, rows in by_cause.items()
        if rows
    }


def _spread(rows: list[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """`limit` rows, first one of every image, then a second one of every image, and so on."""
    turns: dict[str, int] = {}
    order = []
    for place, row in enumerate(rows):
        turn = turns[row["img_path"]] = turns.get(row["img_path"], 0) + 1
        order.append((turn, place))
    return [rows[place] for place in sorted(place for _, place in sorted(order)[:limit])]


def _case(
    row: Mapping[str, Any],
    annotations: Mapping[str, Annotation],
    files: Mapping[str, Path | None],
    pages: Mapping[str, Page],
) -> Case:
    path = files.get(row["img_path"])
    page = pages.get(path.name) if path is not None else None
    boxes = list(_find_boxes(row, annotations[row["img_path"]], page)) if page is not None else []
    picture = _crop(path, boxes) if path is not None else None
    return Case(row["cause"], row["question"], row["answer"], row["prediction"], row["img_path"], picture, not boxes)


def _find_boxes(row: Mapping[str, Any], annotation: Annotation, page: Page) -> Iterator[Box]:
    """Boxes on the original image whose text contains a name or the beginning of a value asked for."""
    parts = parts_asked(row["question"], row["task"], row["answer_type"], annotation)
    texts = [fold(text)[:12] for part in parts for text in (part.label, part.value)]
    wanted = [text for text in texts if len(text) > 1]
    for box, original in zip(page.boxes, page.original_boxes, strict=True):
        held = fold(box.text)
        if held and any(text in held or (len(held) > 3 and held in text) for text in wanted):
            yield original


def _crop(path: Path, boxes: list[Box]) -> bytes | None:
    """The image around `boxes` in full width, or the whole image without boxes, as JPEG."""
    try:
        image = open_report(path)
    except InputError:
        return None
    pixels = image.pixels
    if boxes:
        scale = pixels.width / image.width
        around = MARGIN_LINES * max(box.height for box in boxes)
        top = max(0, int((min(box.top for box in boxes) - around) * scale))
        bottom = min(pixels.height, int((max(box.bottom for box in boxes) + around) * scale) + 1)
        pixels = pixels.crop((0, top, pixels.width, max(bottom, top + 1)))
    pixels.thumbnail((WIDTH, 2 * WIDTH))
    written = io.BytesIO()
    pixels.save(written, "JPEG", quality=QUALITY)
    return written.getvalue()


def as_data_uri(picture: bytes, media_type: str = "image/jpeg") -> str:
    """A picture as a data URI."""
    return f"data:{media_type};base64,{base64.b64encode(picture).decode('ascii')}"
