"""Does it learn? The tiny SwinVED through the three stages on phantom studies, and a BLIP-2-MultiView that overfits.

Patients of the train, validate and test splits are different. On a CPU, with fixed seeds:

- `stages`: stage 0 (the encoder learns the labels of the training studies, see `medvqa_hub/demo/encoder.py`), then the
  paper's stages 1 to 3 by the shipped tiny recipes. Each stage's best model answers 300 studies of the test split
  greedily, with their own images and with another patient's, and 300 of the validation split, on which stage 3 is
  compared with stage 2.
- `blip2`: see `learning_blip2.py`.

Finding accuracy is `medvqa_hub/evaluation/cxr/finding_accuracy.py`'s, BERTScore that of all-MiniLM-L6-v2, not rescaled.

A part that is done is kept in `OUT/parts`, and inside a part training and answering go on where they stopped. Seconds
are of this run's share of the work. On two cores all parts take about half an hour.

Run: python benchmarks/learning.py [--out out/learning]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from learning_blip2 import overfit_blip2
from timing import write_result

from medvqa_core.json_files import read_json, write_json
from medvqa_hub.demo.encoder import EncoderSettings
from medvqa_hub.demo.training import STAGES, DemoContext, evaluate_stage, make_release, train_encoder, train_stage

STUDIES, SEED = 6_000, 0
STUDIES_EVALUATED = 300  # the first ones of each split, some 6,500 questions
TEXT_SCORES = ("bleu_1", "bleu_4", "rouge_l", "cider", "bertscore")
FINDING_FIGURES = ("accuracy", "balanced_accuracy", "majority", "rows", "uncertain", "undecided")
TARGETS = {"accuracy": 0.85, "fall_when_shuffled": 0.20, "bertscore_rise": 0.01, "bleu_4_fall_allowed": 0.01}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/learning"))
    out = parser.parse_args().out
    release, tree = make_release(out, STUDIES, SEED)
    context = DemoContext(release, tree, out, EncoderSettings(epochs=8), studies=STUDIES_EVALUATED)
    parts: dict[str, Any] = {"encoder": _part(out, "encoder", lambda: train_encoder(context))}
    for stage in STAGES:
        name = f"stage{stage}"
        parts[name] = _part(out, name, lambda stage=stage: _run_stage(context, stage))
        _show_stage(name, parts[name])
    parts["blip2"] = _part(out, "blip2", lambda: overfit_blip2(release, tree, out / "blip2"))
    checks = _check(parts)
    for name, check in checks.items():
        print(f"{name}: {check['value']}, target {check['target']}: {'reached' if check['reached'] else 'MISSED'}")
    write_result(
        "learning",
        {"studies": STUDIES, "studies_evaluated": STUDIES_EVALUATED, "seed": SEED, "parts": parts, "checks": checks},
    )


def _part(out: Path, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The figures of a part: those that an earlier run kept, or made now."""
    path = out / "parts" / f"{name}.json"
    if not path.exists():
        start = time.monotonic()
        figures = {**work(), "seconds": round(time.monotonic() - start)}
        write_json(path, figures)
    return read_json(path, "delete it")


def _run_stage(context: DemoContext, stage: int) -> dict[str, Any]:
    start = time.monotonic()
    train_stage(context, stage)
    seconds = round(time.monotonic() - start)
    own, shuffled = evaluate_stage(context, stage, shuffle=True)
    (validation,) = evaluate_stage(context, stage, split="validate")
    return {
        "training_seconds": seconds,
        "test": _figures(own),
        "test_by_category": {name: found["recall"] for name, found in own["findings"]["by_category"].items()},
        "test_ceiling": round(own["ceiling"]["accuracy"], 4),
        "test_shuffled": _figures(shuffled),
        "validation": _figures(validation),
    }


def _figures(result: dict[str, Any]) -> dict[str, Any]:
    figures = {name: result["table_4"].get(name) for name in TEXT_SCORES}
    figures |= {name: result["findings"][name] for name in FINDING_FIGURES}
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}


def _show_stage(name: str, part: dict[str, Any]) -> None:
    for condition in ("test", "test_shuffled", "validation"):
        found = part[condition]
        print(
            f"{name} {condition}: finding accuracy {found['accuracy']} (balanced {found['balanced_accuracy']}, "
            f"commoner label {found['majority']}), BERTScore {found['bertscore']}, BLEU-4 {found['bleu_4']}"
        )


def _check(parts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each figure that has a target, with the target and whether it is reached."""
    second, third = parts["stage2"], parts["stage3"]
    accuracy = second["test"]["accuracy"]
    fall = round(accuracy - second["test_shuffled"]["accuracy"], 4)
    rise = round(third["validation"]["bertscore"] - second["validation"]["bertscore"], 4)
    lost = round(second["validation"]["bleu_4"] - third["validation"]["bleu_4"], 4)
    blip2 = parts["blip2"]
    figures = {
        "finding accuracy of stage 2 on the test split": (accuracy, ">=", TARGETS["accuracy"]),
        "its fall with another patient's images": (fall, ">=", TARGETS["fall_when_shuffled"]),
        "BERTScore of stage 3 over stage 2, validation": (rise, ">=", TARGETS["bertscore_rise"]),
        "BLEU-4 lost by that": (lost, "<=", TARGETS["bleu_4_fall_allowed"]),
        "BLIP-2-MultiView: loss per token on its own studies": (blip2["loss"], "<=", blip2["target_loss"]),
        "BLIP-2-MultiView: least rise of the loss without a view": (blip2["least_rise"], ">", 0.0),
    }
    compare = {">=": float.__ge__, "<=": float.__le__, ">": float.__gt__}
    return {
        name: {"value": value, "target": f"{sign} {target}", "reached": compare[sign](float(value), target)}
        for name, (value, sign, target) in figures.items()
    }


if __name__ == "__main__":
    main()
