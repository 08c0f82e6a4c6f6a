"""The commands ocr, esra and quality. They yield the lines to print."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import atomic_folder, make_folder
from medvqa_core.governance import Governance
from medvqa_core.json_files import write_manifest
from rjua_meddqa.released import read_annotations
from rjua_meddqa.restoration.images import find_images
from rjua_meddqa.restoration.ocr import RapidOcrEngine, read_boxes, write_boxes
from rjua_meddqa.restoration.page_layout import lay_out
from rjua_meddqa.restoration.pages import PAGES, READINGS, Page, make_page, restore_folder, restore_page
from rjua_meddqa.restoration.quality import UNREADABLE, judge_type
from rjua_meddqa.restoration.readings import Readings, fill_cache, open_cache

BOXES, BOXES_KIND = "boxes", "meddqa-boxes"


def read_images(images: Path, out: Path, workers: int, governance: Governance) -> Iterator[str]:
    """Read images and write their boxes as `boxes/IMAGE.json`. Raises like `fill_cache`."""
    empty = []
    with (
        _read(images, out, workers, governance) as (pages, readings),
        atomic_folder(out / BOXES, BOXES_KIND, governance.private) as folder,
    ):
        for page in pages:
            write_boxes(folder / f"{page.image}.json", page.original_boxes)
            empty += [] if page.boxes else [page.image]
        write_manifest(folder, {"kind": BOXES_KIND, "governance": str(governance)}, indent=2, end="")
    yield f"boxes: {out / BOXES}"
    yield from _summary(images, len(readings.keys), readings.read_now, empty, readings.failed.values())


def restore_images(
    images: Path, out: Path, workers: int, governance: Governance, parameters: dict[str, Any]
) -> Iterator[str]:
    """Restore images to `pages.jsonl`. Raises like `restore_folder`."""
    result = restore_folder(_find(images), out, RapidOcrEngine(), workers, governance=governance, **parameters)
    yield f"pages: {out / PAGES}"
    yield from _summary(images, result.pages, result.read_now, result.empty, [reason for _, reason in result.failed])


def print_image(image: Path, parameters: dict[str, Any]) -> str:
    """Restore one image. Raises InputError if it is a folder or cannot be read."""
    if image.is_dir():
        raise InputError(f"{image} is a folder. Pass a folder for its pages as --out.")
    return restore_page(image, RapidOcrEngine(), **parameters).restored.text


def print_boxes(boxes: Path, parameters: dict[str, Any]) -> str:
    """Restore boxes from a JSON file. Raises InputError if it cannot be read."""
    return lay_out(read_boxes(boxes), **parameters).text


def judge_images(
    images: Path, out: Path, workers: int, governance: Governance, annotations: Path | None
) -> Iterator[str]:
    """Judge the quality of images and compare it with annotations. Raises like `fill_cache`."""
    known = {annotation.img_path: annotation for annotation in read_annotations(annotations)} if annotations else {}
    agreed = compared = 0
    empty = []
    with _read(images, out, workers, governance) as (pages, readings):
        for page in pages:
            quality, reason, note = page.quality, page.quality_reason, ""
            if annotation := known.get(page.image):
                by_type = judge_type(annotation.image_type) if quality != UNREADABLE else None
                quality, reason = by_type or (quality, reason)
                compared += 1
                agreed += quality == annotation.image_quality
                note = "" if quality == annotation.image_quality else f"; annotated as {annotation.image_quality}"
            yield f"{page.image}: {quality} ({reason}){note}"
            empty += [] if page.boxes else [page.image]
    if compared:
        yield f"same as annotated: {agreed} of {compared}"
    yield from _summary(images, len(readings.keys), readings.read_now, empty, readings.failed.values())


def _find(images: Path) -> list[Path]:
    return find_images(images) if images.is_dir() or not images.exists() else [images]


@contextmanager
def _read(images: Path, out: Path, workers: int, governance: Governance) -> Iterator[tuple[Iterator[Page], Readings]]:
    """Read images. Returns an iterator over the pages, and the counts of the run."""
    make_folder(out)
    with open_cache(out / READINGS, governance) as cache:
        readings = fill_cache(_find(images), RapidOcrEngine(), cache, workers)
        yield (make_page(path.name, cache[key]) for path, key in readings.keys.items()), readings


def _summary(images: Path, pages: int, read_now: int, empty: Collection[str], failed: Collection[str]) -> Iterator[str]:
    """Counts, then the names of everything that was left out."""
    yield f"pages: {pages:,}, read now: {read_now:,}, without text: {len(empty):,}, left out: {len(failed):,}"
    if pages and not read_now:
        yield "all images had been read before"
    for image in empty:
        yield f"no text in {image}"
    for reason in failed:
        yield f"left out: {reason}"
    if images.is_dir() and (folders := sorted(path.name for path in images.iterdir() if path.is_dir())):
        yield f"not searched: folders in {images} ({', '.join(folders)}). Pass them one by one."
