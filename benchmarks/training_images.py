"""Training input, the images: from full-size films as before, from the same films as now, and from shrunk copies.

Images of 2544 x 3056 pixels and 1.5 MB, the size of an average MIMIC-CXR-JPG file, reach SwinVED's training tensors
(augmented, 384 x 384) through the trainer's own rows, collator and DataLoader:

- `before`: decoded in full and augmented at that size (`data.image_side: null`),
- `full_size`: decoded at a quarter by the JPEG's own scaling, shrunk to 512 (`data.image_side: 512`, the recipes'),
- `shrunk`: files of `medvqa-hub cxr shrink --size 512`.

Each way has one worker and takes its turn; the fastest round counts, since other work on the machine only adds time.
`cpu_ms` is the processor time of an image in a single process, which other work on the machine hardly touches.
`waiting` trains on nothing: a step takes STEP_MS and a batch of BATCH images, read by WORKERS workers; the share of
the time that the step waited for its batch, after two batches for the start. With fewer free cores they
take turns, so `cores` and the load stand beside it.

Run: python benchmarks/training_images.py [rounds]
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from datasets import Dataset, Features, List, Value
from datasets import Image as ImageFeature
from images import draw_film
from PIL import Image
from swin_ved import SwinVedConfig, SwinVedProcessor, train_tokenizer
from timing import write_result

from medvqa_hub.families.registry import find_family
from medvqa_hub.training.batch_loading import ShardSampler, load_batches
from medvqa_hub.training.study_batches import StudyBatches, StudyCollator
from medvqa_hub.training.study_questions import StudyQuestions
from mimic_cxr_vqa.shrinking import shrink_tree

FILMS, NOISE, QUALITY = 8, 2.0, 95
STUDIES, IMAGES = 4, 2  # a batch
BATCH = STUDIES * IMAGES
WORKERS, STEP_MS, STEPS = 4, 50, 40
TARGET = 10
QUESTION, ANSWER = "Is there an effusion?", "No effusion is seen."


def draw_films(folder: Path) -> None:
    """FILMS different films below `folder`."""
    (folder / "files").mkdir(parents=True)
    for number in range(FILMS):
        Image.fromarray(draw_film(NOISE, number)).save(folder / "files" / f"{number}.jpg", quality=QUALITY)


def study_rows(folder: Path, studies: int) -> Dataset:
    """`studies` rows with one question and IMAGES images each."""
    paths = [str(folder / "files" / f"{number % FILMS}.jpg") for number in range(studies * IMAGES)]
    question = {"qa_id": "q", "question": QUESTION, "answer": ANSWER}
    rows = {
        "study_id": list(range(studies)),
        "questions": [[question]] * studies,
        "images": [
            [{"path": path, "bytes": None} for path in paths[start : start + IMAGES]]
            for start in range(0, len(paths), IMAGES)
        ],
        "views": [["PA"] * IMAGES] * studies,
    }
    features = Features(
        study_id=Value("int64"),
        questions=List({name: Value("string") for name in question}),
        images=List(ImageFeature()),
        views=List(Value("string")),
    )
    return Dataset.from_dict(rows, features=features)


class Way:
    """One way of reading: the trainer's batches of a folder."""

    def __init__(self, folder: Path, image_side: int | None) -> None:
        tokenizer = train_tokenizer([QUESTION, ANSWER])
        processor = SwinVedProcessor.from_config(SwinVedConfig.base(vocab_size=len(tokenizer)), tokenizer)
        questions = StudyQuestions(study_rows(folder, STUDIES), "the films", image_side=image_side)
        collate = StudyCollator(processor, find_family("swin_ved"), augment=True)
        self.batches = StudyBatches(questions, collate, 10**6, STUDIES, STUDIES, 1)

    def images_per_second(self, batches: int = 4) -> float:
        """With one worker, its start left out."""
        times = []
        for _ in load_batches(self.batches, ShardSampler(0, 1, batches + 1), 1):
            times.append(time.perf_counter())
        return batches * BATCH / (times[-1] - times[0])

    def cpu_ms(self, batches: int = 3) -> float:
        """Processor milliseconds of an image, in this process; the least of `batches`."""
        times = []
        for number in range(batches):
            start = time.process_time()
            self.batches[number]
            times.append(time.process_time() - start)
        return 1000 * min(times) / BATCH

    def waiting(self) -> float:
        """Share of the time that a step of STEP_MS waits, with WORKERS workers."""
        waited = total = 0.0
        batches = iter(load_batches(self.batches, ShardSampler(0, 1, STEPS + 2), WORKERS))
        for number in range(STEPS + 2):
            start = time.perf_counter()
            next(batches)
            got = time.perf_counter()
            time.sleep(STEP_MS / 1000)
            if number >= 2:
                waited, total = waited + got - start, total + time.perf_counter() - start
        return waited / total


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as folder:
        full, small = Path(folder, "full"), Path(folder, "small")
        draw_films(full)
        shrink_tree(full, small, workers=1)
        ways = {"before": Way(full, None), "full_size": Way(full, 512), "shrunk": Way(small, 512)}
        rates = {name: 0.0 for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                rates[name] = max(rates[name], way.images_per_second())
        figures = {
            name: {
                "images_per_second": round(rates[name], 2),
                "ratio": round(rates[name] / rates["before"], 2),
                "cpu_ms": round(way.cpu_ms(), 1),
                "waiting": round(way.waiting(), 3),
            }
            for name, way in ways.items()
        }
        megabytes = np.mean([path.stat().st_size for path in full.rglob("*.jpg")]) / 1e6
    for name, found in figures.items():
        print(
            f"{name}: {found['images_per_second']} images/s ({found['ratio']}x), {found['cpu_ms']} ms of CPU an image, "
            f"a step of {STEP_MS} ms with {BATCH} images waits {found['waiting']:.1%} of the time"
        )
    ratio = figures["shrunk"]["ratio"]
    print(f"shrunk files against before: {ratio}x, target {TARGET}x: {'reached' if ratio >= TARGET else 'MISSED'}")
    settings = {"film_mb": round(float(megabytes), 2), "step_ms": STEP_MS, "batch_images": BATCH, "workers": WORKERS}
    cores = len(os.sched_getaffinity(0))
    result = {**settings, "cores": cores, "load": round(os.getloadavg()[0], 1), "rounds": rounds, "target": TARGET}
    write_result("training_images", {"ways": figures, "ratio": ratio, **result})


if __name__ == "__main__":
    main()
