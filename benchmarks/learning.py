"""Does it learn? The tiny SwinVED through its stages on phantom studies, three seeds, and a BLIP-2 that overfits.

Patients of the train, validate and test splits are different. On a CPU:

- `encoder`: stage 0, in which the encoder learns the labels of the training studies (`medvqa_hub/demo/encoder.py`).
- `stage1`, `stage2`: the paper's, by the shipped tiny recipes.
- `stage3`: the recipe for synthetic studies, whose reward counts findings too. `stage3-paper`: the paper's reward.
- `blip2`: see `learning_blip2.py`.

A seed is a seed of the training: order, questions, samples. Data and encoder are the same. Each stage's best model
answers 300 studies of the test split greedily, with their own images and with another patient's, and 300 of the
validation split, on which stage 3 is compared with stage 2. Finding accuracy is
`medvqa_hub/evaluation/cxr/finding_accuracy.py`'s, BERTScore that of all-MiniLM-L6-v2, not rescaled.

A part that is done is kept in `OUT/seedN/parts`, and inside a part training and answering resume. On two cores all
parts take about an hour.

Run: python benchmarks/learning.py [--out out/learning]
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from learning_blip2 import overfit_blip2
from timing import write_result

from medvqa_core.json_files import read_json, write_json
from medvqa_hub.demo.encoder import EncoderSettings
from medvqa_hub.demo.training import START, DemoContext, evaluate_stage, make_release, train_encoder, train_stage
from mimic_cxr_vqa.generation.extractive import PROMPT_VERSION

STUDIES, SEEDS = 6_000, (0, 1, 2)
STUDIES_EVALUATED = 300  # the first ones of each split, some 6,500 questions
TEXT_SCORES = ("bleu_1", "bleu_4", "rouge_l", "cider", "bertscore")
FINDING_FIGURES = ("accuracy", "balanced_accuracy", "majority", "rows", "uncertain", "undecided")
CONDITIONS = ("test", "test_shuffled", "validation")
TARGETS = {"accuracy": 0.85, "fall_when_shuffled": 0.20, "bertscore_rise": 0.01, "findings_rise": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/learning"))
    out = parser.parse_args().out
    release, tree = make_release(out, STUDIES, 0)
    encoder = train_encoder(DemoContext(release, tree, out, EncoderSettings(epochs=8)))
    stages: dict[str, dict[str, Any]] = {}
    for seed in SEEDS:
        folder, start = out / f"seed{seed}", [f"model.pretrained_encoder={out / 'encoder'}"]
        overrides = {stage: [f"training.seed={seed}", *(start if stage == 1 else [])] for stage in START}
        context = DemoContext(release, tree, folder, overrides=overrides, studies=STUDIES_EVALUATED)
        for stage in START:
            name = f"stage{stage}"
            part = _part(folder, name, lambda stage=stage, context=context: _run_stage(context, stage))
            _show_stage(f"{name}, seed {seed}", part)
            for condition in CONDITIONS:
                stages.setdefault(name, {}).setdefault(condition, []).append(part[condition])
    blip2 = _part(out, "blip2", lambda: overfit_blip2(release, tree, out / "blip2"))
    checks = _check(stages, blip2)
    for name, check in checks.items():
        print(f"{name}: {check['values']}, target {check['target']}: {'reached' if check['reached'] else 'MISSED'}")
    write_result(
        "learning",
        {
            "studies": STUDIES,
            "studies_evaluated": STUDIES_EVALUATED,
            "seeds": SEEDS,
            "answers": PROMPT_VERSION,
            "encoder": encoder,
            "stages": {name: _summarise(runs) for name, runs in stages.items()},
            "blip2": blip2,
            "checks": checks,
        },
    )


def _part(out: Path, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The figures of a part: those that an earlier run kept, or made now."""
    path = out / "parts" / f"{name}.json"
    if not path.exists():
        write_json(path, work())
    return read_json(path, "delete it")


def _run_stage(context: DemoContext, stage: int | str) -> dict[str, Any]:
    train_stage(context, stage)
    own, shuffled = evaluate_stage(context, stage, shuffle=True)
    (validation,) = evaluate_stage(context, stage, split="validate")
    return {name: _figures(found) for name, found in zip(CONDITIONS, (own, shuffled, validation), strict=True)}


def _figures(result: dict[str, Any]) -> dict[str, Any]:
    figures = {name: result["table_4"].get(name) for name in TEXT_SCORES}
    return figures | {name: result["findings"][name] for name in FINDING_FIGURES}


def _summarise(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Mean, standard deviation and values over the seeds: condition -> figure -> these."""
    return {
        condition: {
            name: {
                "mean": round(statistics.mean(values), 4),
                "deviation": round(statistics.stdev(values), 4),
                "values": [round(value, 4) for value in values],
            }
            for name in found[0]
            for values in [[figures[name] for figures in found]]
        }
        for condition, found in runs.items()
    }


def _show_stage(name: str, part: dict[str, Any]) -> None:
    for condition in CONDITIONS:
        found = part[condition]
        scores = ", ".join(
            f"{figure} {found[figure]:.4f}" for figure in ("accuracy", "majority", "bertscore", "bleu_4")
        )
        print(f"{name}, {condition}: {scores}", flush=True)


def _check(stages: dict[str, dict[str, Any]], blip2: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each figure that has a target, with one value per seed. All of them must reach it."""

    def rise(later: str, earlier: str, condition: str, figure: str) -> list[float]:
        pairs = zip(stages[later][condition], stages[earlier][condition], strict=True)
        return [after[figure] - before[figure] for after, before in pairs]

    second = stages["stage2"]
    falls = zip(second["test"], second["test_shuffled"], strict=True)
    figures: dict[str, tuple[Sequence[float], str, float]] = {
        "finding accuracy of stage 2": ([found["accuracy"] for found in second["test"]], ">=", TARGETS["accuracy"]),
        "its fall with another patient's images": (
            [own["accuracy"] - other["accuracy"] for own, other in falls], ">=", TARGETS["fall_when_shuffled"]
        ),
        "BERTScore of stage 3 over stage 2": (
            rise("stage3", "stage2", "test", "bertscore"), ">=", TARGETS["bertscore_rise"]
        ),
        "finding accuracy of stage 3 over stage 2": (
            rise("stage3", "stage2", "test", "accuracy"), ">=", TARGETS["findings_rise"]
        ),
        "BLIP-2-MultiView: loss per token on its own studies": ([blip2["loss"]], "<=", blip2["target_loss"]),
        "BLIP-2-MultiView: least rise of the loss without a view": ([blip2["least_rise"]], ">", 0.0),
    }  # fmt: skip
    compare = {">=": float.__ge__, "<=": float.__le__, ">": float.__gt__}
    return {
        name: {
            "values": [round(value, 4) for value in values],
            "target": f"{sign} {target}",
            "reached": all(compare[sign](float(value), target) for value in values),
        }
        for name, (values, sign, target) in figures.items()
    }


if __name__ == "__main__":
    main()
