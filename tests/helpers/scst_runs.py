"""Small self-critical runs for the tests: drawn studies, a recipe, and trainers with a reward of the test's own.

As a script it makes one such run, for launchers of several processes: python scst_runs.py OUT STUDIES_PER_BATCH
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset, Features, Image, List, Value
from PIL import Image as Pillow
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration, SwinVedProcessor, train_tokenizer

from medvqa_core.governance import Governance
from medvqa_hub.training.arguments import TrainingRun
from medvqa_hub.training.recipes import make_recipe
from medvqa_hub.training.scst import SCSTTrainer
from medvqa_hub.training.training_log import TrainingLog

QUESTIONS = ("Is there an effusion?", "Is the heart enlarged?", "Are the lungs clear?")
ANSWERS = ("no effusion is seen.", "the heart is enlarged.", "yes, clear lungs.", "a small left effusion.")


def studies(number: int = 8) -> Dataset:
    """Rows of the `studies` configuration: one noise image and two or three questions each."""
    rows = []
    for study in range(number):
        pixels = np.random.default_rng(study).integers(0, 255, (64, 64), dtype=np.uint8)
        questions = [
            {
                "qa_id": f"study{study}-{place}",
                "question": QUESTIONS[place],
                "answer": ANSWERS[(study + place) % 4],
                "category": "Edema",
                "label_value": "positive",
            }
            for place in range(2 + study % 2)
        ]
        image = Pillow.fromarray(pixels)
        rows.append({"study_id": 1000 + study, "questions": questions, "images": [image], "views": ["AP"]})
    question = {name: Value("string") for name in rows[0]["questions"][0]}
    features = {
        "study_id": Value("int64"), "questions": List(question), "images": List(Image()),
        "views": List(Value("string")),
    }  # fmt: skip
    return Dataset.from_list(rows, features=Features(features))


def answer_length(completions: list[str], **columns: list) -> list[float | None]:
    """A rigged reward: the number of words, in tens."""
    return [len(text.split()) / 10 for text in completions]


def make_trainer(out: Path, reward=answer_length, scst: dict | None = None, **training) -> SCSTTrainer:
    """A trainer of a tiny SwinVED, the same weights each time."""
    settings = {
        "max_steps": 2, "epochs": None, "studies_per_step": 8, "studies_per_batch": 8, "log_every": 1,
        "save_every": 100, "learning_rates": {"encoder": 1e-3, "decoder": 1e-3}, **training,
    }  # fmt: skip
    recipe = make_recipe(
        {
            "model": {"kind": "swin_ved", "size": "tiny"},
            "data": {"questions_per_study": 3, "validation_split": None},
            "training": settings,
            "scst": {"max_new_tokens": 8, **(scst or {})},
            "reward": {"name": "rouge_l"},
        }
    )
    tokenizer = train_tokenizer(QUESTIONS + ANSWERS)
    torch.manual_seed(0)
    config = SwinVedConfig.tiny(vocab_size=len(tokenizer))
    model, processor = SwinVedForConditionalGeneration(config), SwinVedProcessor.from_config(config, tokenizer)
    out.mkdir(parents=True, exist_ok=True)
    log = TrainingLog(out) if int(os.environ.get("RANK", "0")) == 0 else None
    run = TrainingRun(recipe, out, Governance.OPEN, log)
    return SCSTTrainer(model, processor, run, studies(), None, reward)


def weights(model: torch.nn.Module) -> torch.Tensor:
    """All weights, side by side."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


if __name__ == "__main__":
    folder, size = Path(sys.argv[1]), int(sys.argv[2])
    trainer = make_trainer(folder, studies_per_batch=size)
    trainer.train()
    # One write, newline included: several processes share this pipe, and print makes two of it.
    sys.stdout.write(f"{trainer.accelerator.process_index}/{trainer.accelerator.num_processes}\n")
    if trainer.args.process_index == 0:
        torch.save(weights(trainer.accelerator.unwrap_model(trainer.model)), folder / "weights.pt")
