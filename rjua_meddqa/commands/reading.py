"""What the commands ocr, esra and quality do, and the lines they print."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import atomic_folder, make_folder
from medvqa_core.governance import Governance
from medvqa_core.json_files import write_manifest
from rjua_meddqa.restoration.images import find_images
from rjua_meddqa.restoration.ocr import RapidOcrEngine, read_boxes, write_boxes
from rjua_meddqa.restoration.page_layout import lay_out
from rjua_meddqa.restoration.pages import PAGES, READINGS, Page, make_page, restore_folder, restore_page
from rjua_meddqa.restoration.quality import UNREADABLE, judge_type
from rjua_meddqa.restoration.readings import Readings, fill_cache, open_cache

BOXES, BOXES_KIND = "boxes", "meddqa-boxes"


def read_images(images: Path, out: Path, workers: int, governance: Governance) -> Iterator[str]:
    """Read images, and write the boxes of each as `boxes/IMAGE.json`. Raises what `fill_cache` raises."""
    empty = []
    private = governance.private
    with (
        _read(images, out, workers, governance) as (pages, readings),
        atomic_folder(out / BOXES, BOXES_KIND, private) as folder,
    ):
        for page in pages:
            write_boxes(folder / f"{page.image}.json", page.original_boxes)
            if not page.boxes:
                empty.append(page.image)
        manifest = {"kind": BOXES_KIND, "governance": str(governance)}
        write_manifest(folder, manifest, indent=2, end="")
    yield f"boxes: {out / BOXES}"
    yield from _summary(images, len(readings.keys), readings.read_now, empty, readings.failed.values())


def restore_images(
    images: Path, out: Path, workers: int, governance: Governance, parameters: dict[str, Any]
) -> Iterator[str]:
    """Restore images to `pages.jsonl`. Raises what `restore_folder` raises."""
    result = restore_folder(_find(images), out, RapidOcrEngine(), workers, governance=governance, **parameters)
    yield f"pages: {out / PAGES}"
    yield from _summary(images, result.pages, result.read_now, result.empty, [reason for _, reason in result.failed])


def print_image(image: Path, parameters: dict[str, Any]) -> str:
    """Text of one image. Raises InputError where it is a folder or cannot be read."""
    if image.is_dir():
        raise InputError(f"{image} is a folder; name one for the pages with --out")
    return restore_page(image, RapidOcrEngine(), **parameters).restored.text


def print_boxes(boxes: Path, parameters: dict[str, Any]) -> str:
    """Text of a JSON file of boxes. Raises InputError where it cannot be read."""
    return lay_out(read_boxes(boxes), **parameters).text


def judge_images(
    images: Path, out: Path, workers: int, governance: Governance, annotations: Path | None
) -> Iterator[str]:
    """Quality of each image, and how often it is that of the annotations. Raises what `fill_cache` raises."""
    known = _read_annotations(annotations)
    agreed = compared = 0
    empty = []
    with _read(images, out, workers, governance) as (pages, readings):
        for page in pages:
            annotation = known.get(page.image)
            quality, reason = page.quality, page.quality_reason
            if annotation:
                by_type = judge_type(annotation.image_type) if quality != UNREADABLE else None
                quality, reason = by_type or (quality, reason)
                compared += 1
                agreed += quality == annotation.image_quality
            differs = annotation is not None and quality != annotation.image_quality
            note = f"; annotated as {annotation.image_quality}" if differs else ""
            yield f"{page.image}: {quality} ({reason}){note}"
            if not page.boxes:
                empty.append(page.image)
    if compared:
        yield f"same as annotated: {agreed} of {compared}"
    yield from _summary(images, len(readings.keys), readings.read_now, empty, readings.failed.values())


def _find(images: Path) -> list[Path]:
    return find_images(images) if images.is_dir() or not images.exists() else [images]


@contextmanager
def _read(images: Path, out: Path, workers: int, governance: Governance) -> Iterator[tuple[Iterator[Page], Readings]]:
    """The pages one by one, never all in memory, and what the run did."""
    make_folder(out)
    with open_cache(out / READINGS, governance) as cache:
        readings = fill_cache(_find(images), RapidOcrEngine(), cache, workers)
        yield (make_page(path.name, cache.get(key)) for path, key in readings.keys.items()), readings


def _read_annotations(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    from rjua_meddqa.released import read_annotations

    return {annotation.img_path: annotation for annotation in read_annotations(path)}


def _summary(images: Path, pages: int, read_now: int, empty: Collection[str], failed: Collection[str]) -> Iterator[str]:
    """Counts, then all that is missing by name: a run that left something out says so at the end."""
    yield f"pages: {pages:,}, read now: {read_now:,}, without text: {len(empty):,}, left out: {len(failed):,}"
    if pages and not read_now:
        yield "every image had been read before"
    for image in empty:
        yield f"no text in {image}"
    for reason in failed:
        yield f"left out: {reason}"
    if images.is_dir() and (folders := sorted(path.name for path in images.iterdir() if path.is_dir())):
        yield f"not searched: folders in {images} ({', '.join(folders)}); give each in a run of its own"
