"""SwinVED's stage 1 with cached features against encoding the images in every step.

The full-size model with random weights (Swin-B 384, three decoder layers) trains on synthetic studies by the recipe
`swin-ved-stage1` without augmentation, with 1 and with 8 questions a study and 2 studies a batch. Reported are the
median questions a second of the steps after the first, and the seconds in which the cache was filled. The images are
small, so hardly any of the difference is decoding.

Run: python benchmarks/feature_cache.py [--out out/feature_cache] [--steps 6]
"""

import argparse
import shutil
import statistics
import time
from pathlib import Path

from timing import write_result

from medvqa_hub.demo.training import make_release
from medvqa_hub.training.recipes import load_recipe
from medvqa_hub.training.run import train
from medvqa_hub.training.training_log import read_log

STUDIES, SEED = 24, 0
SETTINGS = [
    "model.pretrained_encoder=null", "model.vocab_size=2000", "data.augment=false", "data.validation_split=null",
    "data.workers=0", "training.epochs=null", "training.studies_per_step=2", "training.studies_per_batch=2",
    "training.scheduler=constant", "training.scheduler_arguments={}", "training.hard_negatives=false",
    "training.log_every=1", "selection.metric=loss", "selection.metrics=[]",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/feature_cache"))
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    release, tree = make_release(options.out, STUDIES, SEED)
    figures = {}
    for questions in (1, 8):
        speeds = {}
        for dtype in ("null", "bfloat16"):
            out = options.out / f"run-{questions}-{dtype}"
            shutil.rmtree(out, ignore_errors=True)
            recipe = load_recipe(
                "swin-ved-stage1",
                [
                    *SETTINGS,
                    f"training.max_steps={options.steps}",
                    f"data.questions_per_study={questions}",
                    f"data.cache_features={dtype}",
                ],
            )
            start = time.monotonic()
            train(recipe, release, out, tree, log=lambda line: None)
            lines = [line for line in read_log(out) if "loss" in line]
            seconds = time.monotonic() - start
            speeds[dtype] = statistics.median(line["questions_per_second"] for line in lines[1:])
            print(f"{questions} questions a study, cache {dtype}: {speeds[dtype]} questions/s, {seconds:.0f} s in all")
        ratio = round(speeds["bfloat16"] / speeds["null"], 2)
        figures[f"{questions}_a_study"] = {
            "questions_per_second": speeds["null"],
            "questions_per_second_cached": speeds["bfloat16"],
            "ratio": ratio,
        }
        print(f"{questions} questions a study: {ratio} times as fast with the cache")
    write_result("feature_cache", {"steps": options.steps, **figures})


if __name__ == "__main__":
    main()
