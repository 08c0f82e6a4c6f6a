"""Pages: restores one report image or a folder of them to text.

A run over a folder writes `readings.jsonl` (the cache, see readings), and finally `pages.jsonl` (a page per line, in
the order of the images) and `manifest.json`, which lists images that cannot be read.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import atomic_file, make_folder
from medvqa_core.governance import Governance
from medvqa_core.json_files import find_manifest, write_manifest
from medvqa_core.store import RecordStore
from rjua_meddqa.restoration.images import find_images
from rjua_meddqa.restoration.ocr import OcrEngine, RapidOcrEngine, boxes_from_json, boxes_to_json
from rjua_meddqa.restoration.page_layout import lay_out
from rjua_meddqa.restoration.quality import UNREADABLE, judge_type
from rjua_meddqa.restoration.readings import CACHE_KIND, Reading, fill_cache, open_cache, read_report, reading_key
from rjua_meddqa.schema import Box, Page, RestoredText

KIND = "meddqa-pages"
READINGS, PAGES = "readings.jsonl", "pages.jsonl"
_PLAIN_FIELDS = ("width", "height", "direction", "angle", "quality", "quality_reason", "image_type")


@dataclass(frozen=True)
class FolderResult:
    """Counts of a run over many images. `failed` lists (image, reason), `empty` the images without text."""

    pages: int
    read_now: int
    empty: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


def restore_page(
    path: Path, engine: OcrEngine, cache: RecordStore | None = None, *, image_type: str | None = None, **esra: Any
) -> Page:
    """Read, rectify, judge and restore one image.

    Args:
        cache: an open store of readings (`readings.open_cache`). Without one, nothing is stored.
        image_type: photo | pdf | screenshot, None: estimated. Only photos can be of low quality.
        esra: parameters of `page_layout.lay_out`: r, l, layout, join_wraps.

    Raises:
        InputError: the image cannot be read.
        ConfigError: the engine is not installed, or a parameter is out of range.
    """
    key = reading_key(path, engine)
    reading = cache.get(key) if cache is not None else None
    if reading is None:
        reading = read_report(path, engine)
        if cache is not None:
            cache.append([{"key": key, **reading}])
    return make_page(path.name, reading, image_type=image_type, **esra)


def make_page(image: str, reading: Reading, *, image_type: str | None = None, **esra: Any) -> Page:
    """Return the page of a reading, with the parameters of `restore_page`."""
    boxes = tuple(boxes_from_json(reading["boxes"], image))
    originals = tuple(boxes_from_json(reading["original_boxes"], image))
    fields = {name: reading[name] for name in _PLAIN_FIELDS}
    if image_type is not None:
        fields["image_type"] = image_type
        if (judged := judge_type(image_type)) is not None and fields["quality"] != UNREADABLE:
            fields["quality"], fields["quality_reason"] = judged
    return Page(
        image, boxes=boxes, original_boxes=originals, restored=lay_out(boxes, reading["on_picture"], **esra), **fields
    )


def restore_folder(
    images: Path | Sequence[Path],
    out: Path,
    engine: OcrEngine,
    workers: int = 1,
    *,
    governance: Governance = Governance.SHARE_ALIKE,
    known: Path | None = None,
    **esra: Any,
) -> FolderResult:
    """Restore every image of a folder or list. Safe to interrupt: the next run resumes.

    Args:
        images: a folder, or image files with different names.
        out: folder for the cache, the pages and the manifest.
        workers: number of processes.
        governance: class of the images.
        known: folder of an earlier run. Images with the same content are not read again.
        esra: parameters of `page_layout.lay_out`: r, l, layout, join_wraps.

    Returns:
        Counts, and every image that lacks text or cannot be read.

    Raises:
        InputError: the image is missing, or no image can be read.
        ConfigError: the engine is not installed, a worker was killed, or a parameter is out of range.
    """
    lay_out((), **esra)  # checks the parameters before the work starts
    paths = find_images(images) if isinstance(images, Path) else list(images)
    make_folder(out)
    empty = []
    with open_cache(out / READINGS, governance) as cache:
        with _known_readings(known, governance) as earlier:
            readings = fill_cache(paths, engine, cache, workers, earlier)
        with atomic_file(out / PAGES, "w", private=governance.private) as file:
            for path, key in readings.keys.items():
                page = make_page(path.name, cache[key], **esra)
                if not page.boxes:
                    empty.append(page.image)
                file.write(json.dumps(to_json(page), ensure_ascii=False) + "\n")
    failed = tuple((path.name, reason) for path, reason in readings.failed.items())
    result = FolderResult(len(readings.keys), readings.read_now, tuple(empty), failed)
    _write_manifest(out, engine, governance, result, esra)
    return result


@dataclass(frozen=True)
class RecordedOcr:
    """Stands for an OCR that cannot be called here. Only images that it has read are known."""

    name: str
    version: str
    settings: dict[str, Any]

    def read(self, image: Any) -> list[Box]:
        """Raises InputError: there is no reading."""
        raise InputError(f"{self.name} has not read this image. Read it with {self.name} first (examples/own_ocr.py)")


def engine_of_pages(folder: Path | None) -> OcrEngine:
    """The OCR that read the pages in `folder`: RapidOCR, or a `RecordedOcr`. RapidOCR without a folder."""
    used = find_manifest(folder, "make the pages again").get("engine", {}) if folder is not None else {}
    if used.get("name", RapidOcrEngine.name) == RapidOcrEngine.name:
        return RapidOcrEngine()
    return RecordedOcr(used["name"], used["version"], used["settings"])


@contextmanager
def _known_readings(folder: Path | None, governance: Governance) -> Iterator[RecordStore | None]:
    """Open the readings of an earlier run."""
    if folder is None:
        yield None
        return
    if not (folder / READINGS).is_file():
        raise InputError(f"{folder / READINGS}: no such file. Run: medvqa-hub meddqa esra --images … --out {folder}")
    with RecordStore(folder / READINGS, CACHE_KIND, governance, None, read_only=True) as store:
        yield store


def read_pages(out: Path) -> Iterator[Page]:
    """Yield the pages that `restore_folder` wrote to `out`. Raises InputError if they are missing or damaged."""
    path = out / PAGES
    if not path.exists():
        raise InputError(f"{path}: no such file. Run: medvqa-hub meddqa esra --images … --out {out}")
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                values = json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}, line {number}: not valid JSON ({error}). Make it again") from None
            yield from_json(values, f"{path}, line {number}")


def to_json(page: Page) -> dict[str, Any]:
    """Return a page as JSON values. `lines` holds indices of `boxes`, `beside` the number of lines beside the text."""
    numbers = {id(box): number for number, box in enumerate(page.boxes)}
    return {
        "image": page.image,
        **{name: getattr(page, name) for name in _PLAIN_FIELDS},
        "text": page.restored.text,
        "lines": [[numbers[id(box)] for box in line] for line in page.restored.lines],
        "beside": page.restored.beside,
        "boxes": boxes_to_json(page.boxes),
        "original_boxes": boxes_to_json(page.original_boxes),
    }


def from_json(values: dict[str, Any], where: str) -> Page:
    """Return the page that `to_json` wrote. Raises InputError if a field is missing or damaged."""
    try:
        boxes = tuple(boxes_from_json(values["boxes"], where))
        lines = tuple(tuple(boxes[number] for number in line) for line in values["lines"])
        return Page(
            image=values["image"],
            boxes=boxes,
            original_boxes=tuple(boxes_from_json(values["original_boxes"], where)),
            restored=RestoredText(lines, values["text"], values["beside"]),
            **{name: values[name] for name in _PLAIN_FIELDS},
        )
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(f"{where}: not a restored page ({error!r}). Make it again: medvqa-hub meddqa esra") from None


def _write_manifest(
    out: Path, engine: OcrEngine, governance: Governance, result: FolderResult, esra: dict[str, Any]
) -> None:
    manifest = {
        "kind": KIND,
        "governance": str(governance),
        "engine": {"name": engine.name, "version": engine.version, "settings": engine.settings},
        "esra": esra,
        "counts": {"pages": result.pages, "empty": len(result.empty), "failed": len(result.failed)},
        "empty": list(result.empty),
        "failed": [{"image": image, "reason": reason} for image, reason in result.failed],
    }
    write_manifest(out, manifest, private=governance.private, indent=2)
