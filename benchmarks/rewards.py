"""Stage 3 under other rewards, normalisations, rates and lengths: which of them gains likeness and keeps the findings?

Every configuration starts from the same stage 2 of its seed (`learning.py`'s recipes; stage 0, the labels, is shared)
and is trained without validation, so that nothing is selected on the way: what counts is the last step's model.
Choices are made on the first CHOICE studies of the validation split; the first TEST studies of the test split are
looked at with --confirm, for configurations that were chosen already. `nll` is the control: the same model, trained on
with the references alone. BERTScore is of MiniLM's layer 5, not rescaled; the reward uses layer 6.

Run: python benchmarks/rewards.py --seed 0 --name NAME … [--confirm] [--out out/rewards]
A run that is there already is evaluated only; results are added to `results/rewards.json`.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from timing import RESULTS, write_result

from medvqa_hub.demo.encoder import EncoderSettings
from medvqa_hub.demo.training import Story, make_release, train_encoder, train_stage
from medvqa_hub.evaluation.cxr.evaluating import CxrOptions, evaluate_cxr
from medvqa_hub.evaluation.cxr.model_inference import GenerationSettings
from medvqa_hub.training.recipes import load_recipe
from medvqa_hub.training.run import train

STUDIES, DATA_SEED, CHOICE, TEST = 6_000, 0, 150, 300
ALONE = [
    "data.validation_split=null", "selection.metric=loss", "selection.metrics=[]", "selection.every=null",
]  # fmt: skip


def rates(encoder: float, decoder: float) -> list[str]:
    return [f"training.learning_rates.encoder={encoder}", f"training.learning_rates.decoder={decoder}"]


def reward(bert_score: float, finding: float) -> list[str]:
    return [f"reward.name=bert_score:{bert_score}+finding:{finding}"]


TOKEN, TWICE, COSINE = "scst.normalize=token", "scst.samples=2", "training.scheduler=cosine"
CONFIGURATIONS = {
    "stage2": [],
    "paper": ["training.max_steps=40"],
    "b5f5-answer-2e-4-80": [*reward(0.5, 0.5), "training.learning_rates.decoder=2e-4", "training.max_steps=80"],
    "nll-enc-1e-4-150": [
        *rates(1e-4, 1e-4), "training.epochs=null", "training.max_steps=150", "training.scheduler=constant_with_warmup",
        "training.warmup_steps=10",
    ],
    "b5f5-token-enc-1e-4-150-s2": [*reward(0.5, 0.5), *rates(1e-4, 1e-4), "training.max_steps=150", TOKEN, TWICE],
    "b8f2-answer-enc-1e-4-100-s2": [*reward(0.8, 0.2), *rates(1e-4, 1e-4), "training.max_steps=100", TWICE],
    "b7f3-token-enc-2e-4-200-s1": [*reward(0.7, 0.3), *rates(1e-4, 2e-4), "training.max_steps=200", TOKEN],
    "b7f3-token-a8g2-cos-1e-4-150-s2": [
        *reward(0.7, 0.3), *rates(1e-4, 1e-4), "training.max_steps=150", TOKEN, TWICE, COSINE, "scst.alpha=0.8",
        "scst.gamma=0.2",
    ],
    "b3f7-answer-enc-cos-1e-4-100-s2": [
        *reward(0.3, 0.7), *rates(1e-4, 1e-4), "training.max_steps=100", TWICE, COSINE,
    ],
    "b8f2-answer-enc-cos-1e-4-100-s2": [
        *reward(0.8, 0.2), *rates(1e-4, 1e-4), "training.max_steps=100", TWICE, COSINE,
    ],
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/rewards"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", choices=CONFIGURATIONS, action="append", required=True)
    parser.add_argument("--confirm", action="store_true", help="on the test split")
    given = parser.parse_args()
    release, tree = make_release(given.out, STUDIES, DATA_SEED)
    folder = prepare(given.out, release, tree, given.seed)
    for name in given.name:
        start = time.monotonic()
        model = folder / "stage2" / "best"
        if name != "stage2":
            shipped = "tiny-swin-ved-stage2" if name.startswith("nll") else "tiny-swin-ved-stage3"
            recipe = load_recipe(shipped, [*ALONE, f"training.seed={given.seed}", *CONFIGURATIONS[name]])
            model = train(recipe, release, folder / "stage3" / name, tree, folder / "stage2") / "best"
        split = "test" if given.confirm else "validate"
        found = evaluate(model, folder / "scores" / f"{name}-{split}", release, tree, split)
        row = {"seed": given.seed, "name": name, "split": split, "seconds": round(time.monotonic() - start), **found}
        print(row)
        keep(row)


def prepare(out: Path, release: Path, tree: Path, seed: int) -> Path:
    """Stages 0 to 2 of a seed; its folder."""
    train_encoder(Story(release, tree, out, EncoderSettings(epochs=8)))
    folder = out / f"seed{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "encoder").exists():
        (folder / "encoder").symlink_to(Path("..") / "encoder")
    changes = {stage: [f"training.seed={seed}"] for stage in (1, 2)}
    story = Story(release, tree, folder, EncoderSettings(epochs=8), changes)
    for stage in changes:
        train_stage(story, stage)
    return folder


def evaluate(model: Path, out: Path, release: Path, tree: Path, split: str) -> dict[str, Any]:
    """Figures of greedy answers."""
    options = CxrOptions(
        model=str(model), data=release, out=out, split=split, image_root=tree, encoder="minilm",
        limit=TEST if split == "test" else CHOICE, generation=GenerationSettings(1, 48, "float32"),
        questions_per_batch=384,
    )  # fmt: skip
    (result,) = evaluate_cxr(options)
    figures = {name: result["table_4"][name] for name in ("bleu_4", "rouge_l", "cider", "bertscore")}
    figures |= {name: result["findings"][name] for name in ("accuracy", "balanced_accuracy")}
    return {name: round(value, 4) for name, value in figures.items()}


def keep(row: dict[str, Any]) -> None:
    """Add a row to the result file, in the place of an earlier one of the same run."""
    path = RESULTS / "rewards.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    same = ("seed", "name", "split")
    rows = [other for other in rows if any(other[key] != row[key] for key in same)]
    write_result("rewards", {"rows": [*rows, row], "studies": {"validate": CHOICE, "test": TEST}})


if __name__ == "__main__":
    main()
