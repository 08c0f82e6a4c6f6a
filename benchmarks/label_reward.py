"""Stage 3 with labels in its reward: does it gain likeness to the references and findings at once?

From the same stage 2 of a seed, ways on, none of which selects anything while it trains (the last step's model counts):

- `paper`: the tiny recipe of stage 3, BERTScore alone, the decoder alone, 40 steps;
- `references`: the control, as many steps, studies and rates as the next, on the references alone;
- `label`: the recipe tiny-swin-ved-stage3-label, 0.6 BERTScore + 0.4 label, two samples a question, 300 steps;
- `then-paper`: `label`, and from there `paper`.

Stages 0 to 2 are the demo's sizes with stage 1 for half an epoch. Weights, rates, and what to do after `label` were
chosen on the first STUDIES studies of the validation split, with seed 0. The figures are of STUDIES other studies,
drawn with a seed of their own, of which no stage has seen any. BERTScore is of MiniLM's layer 5, the reward's of 6.

Run: python benchmarks/label_reward.py --seed 0 [--out out/label_reward]
Seeds may run side by side once the studies are drawn; what is there already is not made again. Results are added to
`results/label_reward.json`.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from timing import RESULTS, write_result

from medvqa_hub.demo.encoder import EncoderSettings
from medvqa_hub.demo.learning import QUICK
from medvqa_hub.demo.training import Story, make_release, train_encoder, train_stage
from medvqa_hub.evaluation.cxr.evaluating import CxrOptions, evaluate_cxr
from medvqa_hub.evaluation.cxr.model_inference import GenerationSettings
from medvqa_hub.training.recipes import load_recipe
from medvqa_hub.training.run import train

DRAWN = {"data": (3_000, 0), "fresh": (220, 1)}  # studies and seed; of the second, the training split is looked at
STUDIES = 150
ALONE = ("data.validation_split=null", "selection.metric=loss", "selection.metrics=[]", "selection.every=null")
CONTROL = (
    *QUICK, "training.epochs=null", "training.max_steps=300", "training.warmup_steps=10",
    "training.learning_rates.encoder=3e-4", "training.learning_rates.decoder=5e-4",
)  # fmt: skip
WAYS = {  # recipe, changes, what it starts from
    "paper": ("tiny-swin-ved-stage3", (), "stage2"),
    "references": ("tiny-swin-ved-stage2", CONTROL, "stage2"),
    "label": ("tiny-swin-ved-stage3-label", (), "stage2"),
    "then-paper": ("tiny-swin-ved-stage3", (), "label"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/label_reward"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name, (studies, seed) in DRAWN.items():
        if not release_of(given.out / name).exists():
            make_release(given.out / name, studies, seed)
    data, folder = given.out / "data", given.out / f"seed{given.seed}"
    train_to_stage_2(folder, data, given.seed)
    for way in ("stage2", *WAYS):
        if way != "stage2":
            shipped, changes, first = WAYS[way]
            recipe = load_recipe(shipped, [*ALONE, *changes, f"training.seed={given.seed}"])
            train(recipe, release_of(data), folder / way, data / "phantom", folder / first, log=lambda line: None)
        row = {"seed": given.seed, "way": way} | evaluate(
            folder / way / "best", folder / "scores" / f"{way}-fresh", given.out / "fresh"
        )
        print(row, flush=True)
        keep(row)


def release_of(drawn: Path) -> Path:
    """Where `make_release` puts the release."""
    return drawn / "cxr" / "release"


def train_to_stage_2(folder: Path, data: Path, seed: int) -> None:
    """Stages 0 to 2 below `folder`."""
    rate = "training.learning_rates.decoder=1.5e-3"
    changes = {
        stage: [f"training.epochs={epochs}", rate, *QUICK, f"training.seed={seed}"]
        for stage, epochs in {1: 0.5, 2: 1.5}.items()
    }
    story = Story(release_of(data), data / "phantom", folder, EncoderSettings(epochs=6, seed=seed), changes)
    train_encoder(story)
    for stage in changes:
        train_stage(story, stage, log=lambda line: None)


def evaluate(model: Path, out: Path, drawn: Path) -> dict[str, float]:
    """Figures of greedy answers about the first STUDIES studies of a drawn release's training split."""
    options = CxrOptions(
        model=str(model), data=release_of(drawn), out=out, split="train", image_root=drawn / "phantom", limit=STUDIES,
        encoder="minilm", generation=GenerationSettings(1, 48, "float32"), questions_per_batch=384,
    )  # fmt: skip
    (result,) = evaluate_cxr(options)
    figures = {name: result["table_4"][name] for name in ("bleu_4", "rouge_l", "cider", "bertscore")}
    figures |= {name: result["findings"][name] for name in ("accuracy", "balanced_accuracy", "majority")}
    return {name: round(value, 4) for name, value in figures.items()}


def keep(row: dict[str, Any]) -> None:
    """Add a row to the result file, in the place of an earlier one of the same run."""
    path = RESULTS / "label_reward.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [other for other in rows if any(other[key] != row[key] for key in ("seed", "way"))]
    write_result("label_reward", {"rows": [*rows, row], "studies": STUDIES})


if __name__ == "__main__":
    main()
