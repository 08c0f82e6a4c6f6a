"""Does bfloat16 learn what float32 learns? The tiny SwinVED's stages 1 to 3 in both precisions, three seeds each.

A seed is a seed of the training (order, questions, dropout, samples). The synthetic studies and the encoder of stage 0,
trained in float32, are the same in all runs. Each stage starts from the best model of the previous stage in the same
precision. Reported are the mean training loss of the last tenth of the steps and the validation figures of the best
model, for each seed, with mean and standard deviation. Stage 3's training loss has both signs, so that its rewards are
reported instead.

`differs` is the difference of the means over the larger standard deviation of the two.

Run: python benchmarks/precision.py [--out out/precision] [--studies 1000] [--seeds 3]
"""

import argparse
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from timing import write_result

from medvqa_hub.demo.encoder import EncoderSettings
from medvqa_hub.demo.training import STAGES, DemoContext, make_release, stage_recipe, train_encoder
from medvqa_hub.training.run import train
from medvqa_hub.training.training_log import read_log

PRECISIONS = ("float32", "bfloat16")
DATA_SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/precision"))
    parser.add_argument("--studies", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    out = options.out
    release, tree = make_release(out, options.studies, DATA_SEED)
    context = DemoContext(release, tree, out, EncoderSettings(epochs=8))
    train_encoder(context)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for seed in range(options.seeds):
        for precision in PRECISIONS:
            for stage, figures in _train(context, precision, seed):
                found.setdefault(stage, {}).setdefault(precision, []).append(figures)
                print(f"{stage} {precision} seed {seed}: {figures}", flush=True)
    stages = {stage: _compare(figures) for stage, figures in found.items()}
    for stage, rows in stages.items():
        for name, row in rows.items():
            cells = ", ".join(f"{p} {row[p]['mean']:.4f} ± {row[p]['deviation']:.4f}" for p in PRECISIONS)
            print(f"{stage} {name}: {cells}, differs by {row['differs']} deviations")
    write_result("precision", {"studies": options.studies, "seeds": options.seeds, "stages": stages})


def _train(context: DemoContext, precision: str, seed: int) -> Iterable[tuple[str, dict[str, float]]]:
    """The three stages of one run. Yields the figures of each."""
    init = None
    for stage in STAGES:
        out = context.out / f"{precision}-{seed}" / f"stage{stage}"
        recipe = stage_recipe(context, stage)
        changes = {"precision": precision, "seed": seed, "log_every": 5}
        recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update=changes)})
        init = train(recipe, context.data, out, context.image_root, init, log=lambda line: None)
        yield f"stage{stage}", _figures(read_log(out))


def _figures(log: list[dict[str, Any]]) -> dict[str, float]:
    losses = [line for line in log if "loss" in line]
    last = losses[-max(1, len(losses) // 10) :]
    names = ("sample_reward", "greedy_reward") if "sample_reward" in last[0] else ("loss",)
    figures = {f"training_{name}": statistics.mean(line[name] for line in last) for name in names}
    validated = [line for line in log if "eval_loss" in line]
    best = max(validated, key=lambda line: line.get("eval_bert_score", -line["eval_loss"]))
    return figures | {name: value for name, value in best.items() if name.startswith("eval_")}


def _compare(runs: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for name in runs[PRECISIONS[0]][0]:
        row: dict[str, Any] = {}
        for precision in PRECISIONS:
            values = [figures[name] for figures in runs[precision]]
            deviation = statistics.stdev(values) if len(values) > 1 else 0.0
            row[precision] = {"values": values, "mean": statistics.mean(values), "deviation": deviation}
        spread = max(row[precision]["deviation"] for precision in PRECISIONS)
        gap = row[PRECISIONS[1]]["mean"] - row[PRECISIONS[0]]["mean"]
        row["differs"] = round(gap / spread, 2) if spread else None
        rows[name] = row
    return rows


if __name__ == "__main__":
    main()
