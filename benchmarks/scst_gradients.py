"""How strongly stage 3's two terms pull: the reward's gradient against that of the references, at equal weights.

`scst.normalize: answer` takes log P of the whole sample (the paper's equation 1), `token` its mean over the tokens (the
released loop). alpha, gamma and the rate of one are therefore another balance in the other. Measured on one model, a
stage 2 of `learning.py`, and the tiny recipe's batches: the norms of both terms' mean gradients over BATCHES batches
of 64 questions, alpha = gamma = 1, BERTScore as the reward.

Run: python benchmarks/scst_gradients.py RUN DATA IMAGE_ROOT    (a stage 2, its release and the release's images)
"""

import sys
from pathlib import Path

import torch
from timing import write_result

from medvqa_core.governance import Governance
from medvqa_hub.training.recipes import load_recipe
from medvqa_hub.training.scst import SCSTTrainer
from medvqa_hub.training.scst_rollout import row_seed
from medvqa_hub.training.scst_step import self_critical_loss
from medvqa_hub.training.training_data import load_data

BATCHES = 6


def gradient(trainer: SCSTTrainer, alpha: float, gamma: float, normalize: str) -> tuple[float, float]:
    """Norm of the mean gradient over the first batches, and the mean length of the sampled answers."""
    from dataclasses import replace

    settings = replace(trainer.recipe.scst, alpha=alpha, gamma=gamma, normalize=normalize)
    trainer.model.zero_grad()
    tokens = samples = 0.0
    for number in range(BATCHES):
        batch = dict(trainer.batches[number])
        rows, _ = batch.pop("rows"), batch.pop("number")
        seeds = [row_seed(0, number, row["qa_id"]) for row in rows]
        loss, found = self_critical_loss(trainer.model, batch, rows, trainer.reward, trainer._decode, settings, seeds)
        (loss / BATCHES).backward()
        tokens, samples = tokens + found.sample_tokens, samples + found.samples
    parts = [parameter.grad.flatten() for parameter in trainer.model.parameters() if parameter.grad is not None]
    return torch.cat(parts).norm().item(), tokens / samples


def main() -> None:
    run, data, images = map(Path, sys.argv[1:4])
    recipe = load_recipe(
        "tiny-swin-ved-stage3", ["data.validation_split=null", "selection.metric=loss", "selection.metrics=[]"]
    )
    loaded = load_data(data, images, recipe.data)
    model, processor = recipe.open_model(run, loaded.texts())
    trainer = SCSTTrainer(model, processor, recipe, loaded.train, None, Path("out/gradients"), Governance.OPEN)
    norms = {"nll": gradient(trainer, 0.0, 1.0, "answer")[0]}
    for normalize in ("answer", "token"):
        norms[normalize], length = gradient(trainer, 1.0, 0.0, normalize)
    ratios = {name: round(norms[name] / norms["nll"], 3) for name in ("answer", "token")}
    print(f"reward term's gradient over the NLL term's: {ratios}, {length:.1f} tokens a sample")
    figures = {"ratios": ratios, "norms": {name: round(value, 4) for name, value in norms.items()}}
    write_result("scst_gradients", {**figures, "tokens_a_sample": round(length, 1), "batches": BATCHES})


if __name__ == "__main__":
    main()
