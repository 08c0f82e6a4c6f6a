"""Readings: the expensive results of a page as JSON values, cached by the content of the image.

A reading has the recognised boxes on the original and on the rectified page, and the quality. Its key is a hash of the
file, the engine with its version and settings, and the version of the rectification. Repeated or interrupted runs, and
runs with other ESRA parameters, read nothing twice.
"""

import multiprocessing
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError, MedvqaError, one_line
from medvqa_core.governance import Governance
from medvqa_core.progress import track
from medvqa_core.store import RecordStore, content_key
from rjua_meddqa.restoration.dewarping import mean_slope
from rjua_meddqa.restoration.images import open_report
from rjua_meddqa.restoration.ocr import OcrEngine, boxes_from_json, boxes_to_json
from rjua_meddqa.restoration.outline import load_cv2
from rjua_meddqa.restoration.pictures import boxes_on_pictures
from rjua_meddqa.restoration.quality import find_type, judge_quality, judge_readable
from rjua_meddqa.restoration.rectify import RECTIFY_VERSION, rectify

CACHE_KIND = "ocr"
AHEAD = 2  # images submitted per worker: none waits, and little is lost when a run is killed

Reading = dict[str, Any]


def open_cache(path: Path, governance: Governance = Governance.SHARE_ALIKE) -> RecordStore:
    """Return the store of readings at `path`, a context manager. Raises what RecordStore raises."""
    return RecordStore(path, CACHE_KIND, governance, {})


def reading_key(path: Path, engine: OcrEngine) -> str:
    """Return the content key of an image file read by `engine`. Raises InputError if it cannot be opened."""
    content = digest_file(path, "blake2b")
    return content_key(
        content=content, engine=engine.name, version=engine.version, settings=engine.settings, rectify=RECTIFY_VERSION
    )


def read_report(path: Path, engine: OcrEngine) -> Reading:
    """Open, read, rectify and judge one image. Raises InputError if that fails."""
    image = open_report(path)
    page = rectify(image.pixels, engine)
    originals = [
        replace(box, points=tuple((x * image.factor, y * image.factor) for x, y in box.points))
        for box in page.original_boxes
    ]
    written = {"boxes": boxes_to_json(page.boxes), "original_boxes": boxes_to_json(originals)}
    for boxes in written.values():  # an invalid box of an engine fails this image and is not cached
        boxes_from_json(boxes, f"{path} as {engine.name} reads it")
    quality, reason = judge_readable(image.pixels, page.original_boxes) or judge_quality(page)
    return {
        "width": image.width,
        "height": image.height,
        "direction": page.direction,
        "angle": round(page.angle, 2),
        "quality": quality,
        "quality_reason": reason,
        "image_type": find_type(image.pixels, mean_slope(page.original_boxes) if not page.direction else 1.0),
        "on_picture": boxes_on_pictures(image.pixels, page.original_boxes),
        **written,
    }


@dataclass(frozen=True)
class Readings:
    """The result of a run over many images: cache keys, failures, and the number of new readings."""

    keys: dict[Path, str]
    failed: dict[Path, str]
    read_now: int


def fill_cache(
    paths: Sequence[Path], engine: OcrEngine, cache: RecordStore, workers: int = 1, known: RecordStore | None = None
) -> Readings:
    """Read the images that are not in the cache. An image that cannot be read does not stop the run.

    Args:
        known: readings of an earlier run elsewhere, which are copied for the same images.

    Raises:
        InputError: no image can be read.
        ConfigError: two images have the same name, `workers` is below 1, the engine is missing, or a worker was killed.
    """
    _check_names(paths)
    keys: dict[Path, str] = {}
    failed: dict[Path, str] = {}
    for path in track(paths, "Looking up images"):
        try:
            keys[path] = reading_key(path, engine)
        except InputError as error:
            failed[path] = one_line(error)
    todo: dict[str, Path] = {}
    for path, key in keys.items():
        if key not in cache and known is not None and key in known:
            cache.append([{**known[key], "key": key}])
        elif key not in cache:
            todo.setdefault(key, path)  # equal images are read once
    broken: dict[str, str] = {}
    for key, reading in track(read_reports(todo, engine, workers), "Reading images", total=len(todo)):
        if isinstance(reading, str):
            broken[key] = reading
        else:
            cache.append([{"key": key, **reading}])
    for path, key in keys.items():
        if key in broken:
            failed[path] = broken[key] if todo[key] == path else f"{path}: the same content as {broken[key]}"
    if len(failed) == len(paths):
        raise InputError(f"none of {len(paths)} images can be read. The first: {next(iter(failed.values()), '')}")
    return Readings({path: key for path, key in keys.items() if key not in broken}, failed, len(todo) - len(broken))


def _check_names(paths: Sequence[Path]) -> None:
    seen: dict[str, Path] = {}
    for path in paths:
        if path.name in seen:
            raise ConfigError(f"{path} and {seen[path.name]} have the same name. Rename one of them")
        seen[path.name] = path


def read_reports(
    images: Mapping[str, Path], engine: OcrEngine, workers: int = 1
) -> Iterator[tuple[str, Reading | str]]:
    """Read images by key in `workers` processes.

    Yields:
        (key, reading or error message), in the order of completion.

    Raises:
        ConfigError: `workers` is below 1, cv2 cannot be loaded, or workers were killed on several images in a row. A
            single image that kills its worker is reported as damaged.
    """
    if workers < 1:
        raise ConfigError(f"workers is {workers}: must be at least 1")
    load_cv2()  # fails here with a message, not in a worker
    if workers == 1:
        for key, path in images.items():
            yield key, _read_or_explain(path, engine)
        return
    waiting = iter(images.items())
    while suspects := (yield from _read_until_killed(waiting, engine, workers)):
        killers = 0
        for key, path in suspects.items():  # each alone, to find the one that killed the worker
            try:
                with _open_pool(1) as pool:
                    yield key, pool.submit(_read_or_explain, path, engine).result()
            except BrokenProcessPool:
                killers += 1
                yield key, f"{path}: the process that read it was killed, most likely for lack of memory. Leave it out"
        if killers == len(suspects) > 1:
            names = ", ".join(sorted(path.name for path in suspects.values()))
            raise ConfigError(
                f"workers are killed, most likely for lack of memory, on each of {names}. What was read is kept: run "
                "the same command again with fewer workers"
            )


def _read_until_killed(
    waiting: Iterator[tuple[str, Path]], engine: OcrEngine, workers: int
) -> Generator[tuple[str, Reading | str], None, dict[str, Path]]:
    """Yield readings by key. Returns the images in progress if a worker was killed, else an empty dict."""
    handed_out: dict[str, Path] = {}
    running: dict[Future, str] = {}
    with _open_pool(workers) as pool:
        try:
            while True:
                while len(running) < AHEAD * workers and (following := next(waiting, None)):
                    key, path = following
                    handed_out[key] = path  # before a broken pool rejects it
                    running[pool.submit(_read_or_explain, path, engine)] = key
                if not running:
                    return {}
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    reading, key = done.result(), running.pop(done)
                    del handed_out[key]
                    yield key, reading
        except BrokenProcessPool:
            return handed_out
        finally:
            pool.shutdown(cancel_futures=True)


def _open_pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _use_one_thread)


def _read_or_explain(path: Path, engine: OcrEngine) -> Reading | str:
    try:
        return read_report(path, engine)
    except ConfigError:  # a fault of the installation, not of the image
        raise
    except MedvqaError as error:
        return one_line(error)


def _use_one_thread() -> None:
    """Limit cv2 to one thread, since the processes share the cores."""
    import cv2

    cv2.setNumThreads(1)
