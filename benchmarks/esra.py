"""From report images to structured text: ESRA alone, and the whole pipeline on the real sample images.

ESRA is timed on drawn pages of 100 boxes, a table of two halves with headings above it, in one process. The pipeline
(open, read, rectify, judge, restore) runs in fresh processes on the sample reports if their folder exists: seconds a
page and peak memory, one worker against two, a first run against a second one over the cached readings, and how many
rows of the annotated tables have item and result on one line. No page's text goes into the result file.

Run: python benchmarks/esra.py [folder of the samples]
"""

import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from timing import measure_in_child, write_result

from rjua_meddqa.restoration.esra import restore
from rjua_meddqa.restoration.page_layout import lay_out
from rjua_meddqa.schema import Box, RestoredText

BOXES, PAGES, ROUNDS = 100, 50, 9
TARGETS = {"pages_per_second": 200, "cached_ratio": 20, "rows_on_one_line": 49}
REAL_DATA = Path(os.environ.get("MEDVQA_REAL_DATA", Path(__file__).parents[2] / "shared" / "data"))
SAMPLES = REAL_DATA / "rjua_samples"
ANNOTATIONS = "sampled_image_content_kv_table_annotation.csv"
COPIES = 2  # of each sample in the run with several workers. A trailing byte makes them different images
WORKERS = 2


def draw_page(seed: int) -> list[Box]:
    """BOXES boxes: rows of six cells, shaken a little, in random order."""
    draw = random.Random(seed)
    boxes = []
    for number in range(BOXES):
        row, column = divmod(number, 6)
        text = "".join(chr(draw.randrange(0x4E00, 0x9FA5)) for _ in range(draw.randint(2, 10)))
        left, top = 40 + 190 * column + draw.uniform(-8, 8), 60 + 34 * row + draw.uniform(-4, 4)
        right, bottom = left + 18 * len(text), top + draw.uniform(22, 27)
        boxes.append(Box(((left, top), (right, top), (right, bottom), (left, bottom)), text, 0.9))
    draw.shuffle(boxes)
    return boxes


def time_esra(layout: Callable[[list[Box]], RestoredText]) -> float:
    """Pages a second of one core, by processor time, in the fastest round: a shared machine can only lengthen it."""
    pages = [draw_page(seed) for seed in range(PAGES)]
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for page in pages:
            layout(page)
        seconds.append(time.process_time() - start)
    return PAGES / min(seconds)


def read_one_by_one(images: Path) -> list[float]:
    """Seconds of each image, models loaded before."""
    from PIL import Image

    from rjua_meddqa.restoration.ocr import RapidOcrEngine
    from rjua_meddqa.restoration.pages import restore_page

    engine = RapidOcrEngine()
    engine.read(Image.new("RGB", (640, 480), "white"))
    seconds = []
    for path in sorted(images.iterdir()):
        start = time.perf_counter()
        restore_page(path, engine)
        seconds.append(time.perf_counter() - start)
    return seconds


def run_folder(images: Path, out: Path, workers: int) -> int:
    """Images that were read, not taken from the cache."""
    from rjua_meddqa.restoration.ocr import RapidOcrEngine
    from rjua_meddqa.restoration.pages import restore_folder

    return restore_folder(images, out, RapidOcrEngine(), workers).read_now


def count_rows(samples: Path, out: Path) -> dict[str, int]:
    """Annotated table rows, and how many of them have item and result on one line of the restored text."""
    from row_check import check_rows

    from rjua_meddqa.released import read_annotations
    from rjua_meddqa.restoration.pages import read_pages

    tables = {annotation.img_path: annotation.table for annotation in read_annotations(samples / ANNOTATIONS)}
    checks = [check for page in read_pages(out) for check in check_rows(page.restored.lines, tables[page.image])]
    return {
        "rows": len(checks),
        "on_one_line": sum(check.found is not None for check in checks),
        "of_these_result_exact": sum(check.found == "exact" for check in checks),
    }


def compare_runs(samples: Path, folder: Path) -> dict:
    """Figures of the pipeline on the sample images."""
    seconds, _, memory = measure_in_child(read_one_by_one, samples / "images")
    _, first, _ = measure_in_child(run_folder, samples / "images", folder / "out", 1)
    read_again, second, _ = measure_in_child(run_folder, samples / "images", folder / "out", 1)
    copies = folder / "copies"
    copies.mkdir()
    for path in (samples / "images").iterdir():
        for copy in range(COPIES):
            target = copies / f"{path.stem}-{copy}{path.suffix}"
            shutil.copyfile(path, target)
            with target.open("ab") as file:
                file.write(bytes(copy))
    wall = {n: measure_in_child(run_folder, copies, folder / f"workers{n}", n)[1] for n in (1, WORKERS)}
    return {
        "images": len(seconds),
        "seconds_per_page": [round(value, 2) for value in seconds],
        "median_seconds_per_page": round(statistics.median(seconds), 2),
        "peak_memory_mib": round(memory / 2**20),
        "first_run_seconds": round(first, 2),
        "second_run_seconds": round(second, 3),
        "second_run_read": read_again,
        "cached_ratio": round(first / second, 1),
        "batch_images": len(list(copies.iterdir())),
        "batch_seconds": {f"{n} workers": round(value, 1) for n, value in wall.items()},
        "batch_ratio": round(wall[1] / wall[WORKERS], 2),
        "table_rows": count_rows(samples, folder / "out"),
    }


def main() -> None:
    samples = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    figures = {"boxes": BOXES, "pages_per_second": round(time_esra(restore)), "targets": TARGETS}
    figures["pages_per_second_with_joined_wraps"] = round(time_esra(lay_out))
    print(f"ESRA without OCR: {figures['pages_per_second']} pages a second, target {TARGETS['pages_per_second']}")
    if (samples / "images").is_dir():
        with tempfile.TemporaryDirectory() as folder:
            pipeline = figures["pipeline"] = compare_runs(samples, Path(folder))
        for name, value in pipeline.items():
            print(f"{name}: {value}")
    else:
        print(f"no sample reports at {samples}: the pipeline is left out")
    write_result("esra", figures)


if __name__ == "__main__":
    main()
