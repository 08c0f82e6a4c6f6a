"""The second pass over hard questions: those whose loss lies within half a standard deviation of the mean.

It leaves out what the model knows already, and what no model could know (`mean - std / 2 <= loss <= mean + std / 2`).
Losses are measured with the trained model as in evaluation, each the mean over the answer's tokens. They are stored as
they are measured; a stopped measurement goes on.

What differs from the release: there such a pass follows every epoch, and what it chooses from is a loss for each
batch, as it was in training (dropout on, padding included), under the first question of the batch. Here one pass
follows the training, and every question has a loss of its own.
"""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from medvqa_core.governance import Governance
from medvqa_core.progress import track
from medvqa_core.store import RecordStore, content_key
from medvqa_hub.families.table import is_decoder_only
from medvqa_hub.training.recipes import Recipe
from medvqa_hub.training.study_batches import (
    EveryNth,
    StudiesInOrder,
    StudyCollator,
    StudyQuestions,
    choose_workers,
    load_batches,
)

KIND = "question-losses"


def near_mean(losses: Mapping[str, float]) -> set[str]:
    """The qa_ids whose loss is within half a (population) standard deviation of the mean, limits included."""
    values = np.array(list(losses.values()))
    low, high = values.mean() - values.std() / 2, values.mean() + values.std() / 2
    return {qa_id for qa_id, loss in losses.items() if low <= loss <= high}


def second_pass_recipe(recipe: Recipe, questions: StudyQuestions) -> Recipe:
    """`recipe` for as many steps as show each of the chosen `questions` once, on average."""
    wanted = recipe.data.questions_per_study
    per_study = float(questions.counts.mean() if wanted is None else np.minimum(questions.counts, wanted).mean())
    steps = max(1, math.ceil(questions.counts.sum() / (per_study * recipe.training.studies_per_step)))
    policy = dataclasses.replace(recipe.data, questions_per_study_policy="take_all")
    training = dataclasses.replace(recipe.training, epochs=None, max_steps=steps, hard_negatives=False)
    return dataclasses.replace(recipe, data=policy, training=training)


def question_losses(logits: torch.Tensor, labels: torch.Tensor, shifted: bool) -> torch.Tensor:
    """(questions,) mean negative log-likelihood of each answer's tokens.

    Args:
        logits: (questions, tokens, vocabulary).
        labels: (questions, tokens), -100 where nothing is learnt.
        shifted: whether the logits at a token predict the next one (a decoder-only model).
    """
    if shifted:
        logits, labels = logits[:, :-1], labels[:, 1:]
    losses = torch.nn.functional.cross_entropy(logits.float().transpose(1, 2), labels, reduction="none")
    answered = labels != -100
    return (losses * answered).sum(1) / answered.sum(1)


@torch.no_grad()
def measure_losses(
    model: Any,
    processor: Any,
    questions: StudyQuestions,
    recipe: Recipe,
    accelerator: Any,
    folder: Path,
    checkpoint: str,
    governance: Governance,
) -> dict[str, float]:
    """The loss of every question, by qa_id; the same on every process.

    Args:
        folder: where losses are stored, a file per process.
        checkpoint: fingerprint of the model; losses of another one are refused.
    """
    model.eval()
    size = recipe.training.studies_per_batch
    batches = StudiesInOrder(questions, StudyCollator(processor, recipe.family), size)
    processes, settings = accelerator.num_processes, {"checkpoint": checkpoint}
    path = folder / f"losses-{accelerator.process_index}-of-{processes}.jsonl"
    with RecordStore(path, KIND, governance, settings) as store:
        share = EveryNth(accelerator.process_index, processes, len(batches))
        left = [[number] for (number,) in share if content_key(batch=number, size=size) not in store]
        loader = load_batches(batches, left, choose_workers(recipe.data.workers))
        for batch in track(loader, "measuring losses", total=len(left)):
            rows, number = batch.pop("rows"), batch.pop("number")
            batch = {name: value.to(accelerator.device) for name, value in batch.items()}
            with accelerator.autocast():
                logits = model(**batch).logits
            losses = question_losses(logits, batch["labels"], is_decoder_only(model)).tolist()
            found = {row["qa_id"]: loss for row, loss in zip(rows, losses, strict=True)}
            store.append([{"key": content_key(batch=number, size=size), "losses": found}])
    accelerator.wait_for_everyone()
    losses = {}
    for number in range(processes):
        path = folder / f"losses-{number}-of-{processes}.jsonl"
        with RecordStore(path, KIND, governance, settings, read_only=True) as store:
            for record in store.records():
                losses |= record["losses"]
    return losses
