"""Does `train vlm` train? A tiny image-text model of random weights, both stages, on a few phantom studies.

This shows that the plumbing works, and is no result: the model is small, and it is asked about the studies that it was
trained on. What has to hold:

- supervised (all weights, the image encoder's too): the loss falls; finding accuracy on the training studies rises
  above the commoner label's share, and falls when each question is asked with the images of a study with the other
  label;
- by rewards (GRPO, an adapter on a supervised run that was stopped early): the reward rises.

The models that answer are loaded from their folders as anybody would load them.

Run: python benchmarks/train_vlm.py [--out out/train_vlm]
"""

import argparse
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from timing import write_result
from tiny_vlm import write_tiny_vlm

from medvqa_hub.demo.training import make_release
from medvqa_hub.evaluation.cxr.finding_accuracy import score_findings
from medvqa_hub.families.folders import BEST_FOLDER
from medvqa_hub.training.checkpoints import read_log
from medvqa_hub.training.recipes import DataSettings
from medvqa_hub.training.training_data import load_data
from medvqa_hub.training.vlm.recipe import load_vlm_recipe
from medvqa_hub.training.vlm.rows import load_rows
from medvqa_hub.training.vlm.run import train_vlm

STUDIES, SEED, FINDING = 30, 0, "Pleural Effusion"
ROWS = [f"data.categories=[{FINDING}]", "data.label_values=[positive, negative]"]
BATCH = 16
MAX_NEW_TOKENS = 24
EARLY_STEPS = 60  # of 150: it answers in whole sentences, and does not know yet what the images show


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/train_vlm"))
    out = parser.parse_args().out
    release, tree = make_release(out, STUDIES, SEED)
    data = load_data(release, None, DataSettings(validation_split=None), images=False)
    model = out / "tiny_vlm"
    if not (model / "governance.json").exists():
        write_tiny_vlm(model, data.texts(), data.governance)
    supervised = load_vlm_recipe("tiny-vlm-sft", ROWS)
    rows = load_rows(release, tree, supervised.data).train
    other = other_images(rows)

    def train(name: str, start: Path, recipe: str, *changes: str) -> tuple[Path, float]:
        begin = time.monotonic()
        train_vlm(load_vlm_recipe(recipe, [*ROWS, *changes]), str(start), release, out / name, tree)
        return out / name, round(time.monotonic() - begin, 1)

    untrained = measure(model, rows, other)
    full, seconds = train("sft", model, "tiny-vlm-sft")
    log = [line["loss"] for line in read_log(full) if "loss" in line]
    sft = {"seconds": seconds, "steps": supervised.training.max_steps, "loss": ends(log), **measure(full, rows, other)}
    show("untrained", untrained)
    show("sft", sft)
    early, _ = train("early", model, "tiny-vlm-sft", f"training.max_steps={EARLY_STEPS}")
    by_reward, seconds = train("grpo", early, "tiny-vlm-grpo")
    log = [line["reward"] for line in read_log(by_reward) if line.get("reward") is not None]
    before = measure(early, rows, other)
    grpo = {"seconds": seconds, "reward": ends(log), "before": before, **measure(by_reward, rows, other)}
    show("early", before)
    show("grpo", grpo)
    checks = {
        "the loss falls": sft["loss"]["last"] < sft["loss"]["first"],
        "finding accuracy above the commoner label": sft["accuracy"] > sft["majority"],
        "and lower with other images": sft["with_other_images"] < sft["accuracy"],
        "GRPO raises its reward": grpo["reward"]["last"] > grpo["reward"]["first"],
    }
    for name, holds in checks.items():
        print(f"{name}: {'yes' if holds else 'NO'}")
    write_result(
        "train_vlm",
        {"studies": len(set(rows["study_id"])), "rows": len(rows), "finding": FINDING, "seed": SEED,
         "untrained": untrained, "sft": sft, "grpo": grpo, "checks": checks},
    )  # fmt: skip


def ends(values: list[float], share: float = 0.2) -> dict[str, float]:
    """Means of the first and the last fifth."""
    count = max(1, round(share * len(values)))
    return {"first": round(fmean(values[:count]), 4), "last": round(fmean(values[-count:]), 4)}


def other_images(rows: Any) -> list[int]:
    """For each row the place of a row whose study has the other label: whose images it is asked with."""
    labels = np.array(rows["label_value"][:])
    generator = np.random.default_rng(SEED)
    return [int(generator.choice(np.flatnonzero(labels != label))) for label in labels]


def measure(model: Path, rows: Any, other: list[int]) -> dict[str, Any]:
    """Finding accuracy of greedy answers, with the studies' own images and with others."""
    described = [{name: row[name] for name in ("category", "label_value")} for row in rows]
    own = score_findings(answer(model, rows, range(len(rows))), described)
    return {
        **{name: round(own[name], 4) for name in ("accuracy", "majority")},
        "with_other_images": round(score_findings(answer(model, rows, other), described)["accuracy"], 4),
        "undecided": own["undecided"],
    }


def answer(model: Path, rows: Any, images: Any) -> list[str]:
    """Greedy answers; row i with the images of row `images[i]`. Loads the folder as anybody would."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    folder = model / BEST_FOLDER if (model / BEST_FOLDER).is_dir() else model
    network = AutoModelForImageTextToText.from_pretrained(folder).eval()
    processor = AutoProcessor.from_pretrained(folder, padding_side="left")
    answers: list[str] = []
    places = list(images)
    for start in range(0, len(rows), BATCH):
        batch = [rows[place] for place in range(start, min(start + BATCH, len(rows)))]
        films = [rows[place]["images"] for place in places[start : start + BATCH]]
        for row, own in zip(batch, films, strict=True):  # a study may have more images than the other
            row["prompt"][0]["content"] = [{"type": "image"}] * len(own) + row["prompt"][0]["content"][-1:]
        texts = [processor.apply_chat_template(row["prompt"], add_generation_prompt=True) for row in batch]
        inputs = processor(images=films, text=texts, padding=True, return_tensors="pt")
        with torch.inference_mode():
            written = network.generate(**inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=False)
        answers += processor.batch_decode(written[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return answers


def show(name: str, found: dict[str, Any]) -> None:
    print(f"{name}: " + ", ".join(f"{figure} {value}" for figure, value in found.items() if figure != "before"))


if __name__ == "__main__":
    main()
