"""A report image becomes a page: opened, read, rectified, judged and restored; and a folder of them, in parallel.

What the engine read and where the page lies is kept in a store under the content of the image, the engine and its
settings, so that a second run, a killed one, or one with other ESRA parameters reads nothing twice.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.store import RecordStore, content_key
from rjua_meddqa.restoration.esra import RestoredText, restore
from rjua_meddqa.restoration.images import open_report
from rjua_meddqa.restoration.ocr import OcrEngine, boxes_from_json, boxes_to_json
from rjua_meddqa.restoration.quality import judge_quality
from rjua_meddqa.restoration.rectify import RECTIFY_VERSION, rectify
from rjua_meddqa.schema import Box

CACHE_KIND = "ocr"


@dataclass(frozen=True)
class Page:
    """A restored report image.

    Attributes:
        image: file name.
        width, height: of the original image, in pixels as a viewer shows it.
        boxes: what was read, in pixels of the rectified page; reading order of `restored` is found from these.
        original_boxes: the same boxes in the same order, in pixels of the original image.
        direction: degrees clockwise by which the image was turned to be upright: 0, 90, 180 or 270.
        angle: degrees of the page's skew that was taken away, clockwise positive.
        quality: high | low, with the reason (paper, Appendix B).
        restored: lines and text (ESRA).
    """

    image: str
    width: int
    height: int
    boxes: tuple[Box, ...]
    original_boxes: tuple[Box, ...]
    direction: int
    angle: float
    quality: str
    quality_reason: str
    restored: RestoredText


def open_cache(path: Path, governance: Governance = Governance.SHARE_ALIKE) -> RecordStore:
    """The store of readings at `path`, to be used as a context manager. Raises what RecordStore raises."""
    return RecordStore(path, CACHE_KIND, governance, {})


def restore_page(path: Path, engine: OcrEngine, cache: RecordStore | None = None, **esra: Any) -> Page:
    """Read, rectify, judge and restore one image.

    Args:
        cache: an open store of readings (`open_cache`); without one, nothing is kept.
        esra: parameters of `esra.restore`: r, l, layout.

    Raises:
        InputError: the image cannot be read.
    """
    key = reading_key(path, engine)
    record = cache.get(key) if cache is not None else None
    if record is None:
        record = {"key": key, **read_page(path, engine)}
        if cache is not None:
            cache.append([record])
    return page_of(path.name, record, **esra)


def reading_key(path: Path, engine: OcrEngine) -> str:
    """Content key of what `engine` reads in an image file. Raises InputError where the file cannot be opened."""
    try:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "blake2b").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}); check the path") from None
    return content_key(
        content=content, engine=engine.name, version=engine.version, settings=engine.settings, rectify=RECTIFY_VERSION
    )


def read_page(path: Path, engine: OcrEngine) -> dict[str, Any]:
    """Everything of a page that depends on the image and the engine, as JSON values. Raises InputError."""
    image = open_report(path)
    page = rectify(image.pixels, engine)
    quality, reason = judge_quality(page)
    factor = image.factor
    originals = [
        Box(tuple((x * factor, y * factor) for x, y in box.points), box.text, box.score) for box in page.original_boxes
    ]
    return {
        "width": image.width,
        "height": image.height,
        "direction": page.direction,
        "angle": round(page.angle, 2),
        "quality": quality,
        "quality_reason": reason,
        "boxes": boxes_to_json(page.boxes),
        "original_boxes": boxes_to_json(originals),
    }


def page_of(image: str, record: dict[str, Any], **esra: Any) -> Page:
    """The page of a record of `read_page`, restored with ESRA's parameters `esra`."""
    boxes = tuple(boxes_from_json(record["boxes"], image))
    originals = tuple(boxes_from_json(record["original_boxes"], image))
    names = ("width", "height", "direction", "angle", "quality", "quality_reason")
    return Page(
        image, boxes=boxes, original_boxes=originals, restored=restore(boxes, **esra), **{name: record[name] for name in names}
    )


def to_json(page: Page) -> dict[str, Any]:
    """A page as JSON values; `lines` are numbers into `boxes`."""
    numbers: dict[int, int] = {id(box): number for number, box in enumerate(page.boxes)}
    return {
        "image": page.image,
        "width": page.width,
        "height": page.height,
        "direction": page.direction,
        "angle": page.angle,
        "quality": page.quality,
        "quality_reason": page.quality_reason,
        "text": page.restored.text,
        "lines": [[numbers[id(box)] for box in line] for line in page.restored.lines],
        "boxes": boxes_to_json(page.boxes),
        "original_boxes": boxes_to_json(page.original_boxes),
    }


def from_json(values: dict[str, Any], where: str) -> Page:
    """The page that `to_json` wrote. Raises InputError where a field is missing or broken."""
    try:
        boxes = tuple(boxes_from_json(values["boxes"], where))
        lines = tuple(tuple(boxes[number] for number in line) for line in values["lines"])
        return Page(
            image=values["image"],
            width=values["width"],
            height=values["height"],
            boxes=boxes,
            original_boxes=tuple(boxes_from_json(values["original_boxes"], where)),
            direction=values["direction"],
            angle=values["angle"],
            quality=values["quality"],
            quality_reason=values["quality_reason"],
            restored=RestoredText(lines, values["text"]),
        )
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(f"{where}: not a restored page ({error!r}); make it anew: medvqa-hub meddqa esra") from None
