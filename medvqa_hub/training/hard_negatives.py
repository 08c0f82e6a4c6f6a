"""The second pass over hard questions: those whose loss lies within half a standard deviation of the mean.

It leaves out what the model knows already, and what no model could know (`mean - std / 2 <= loss <= mean + std / 2`).
Losses are measured with the trained model as in evaluation, each the mean over the answer's tokens. They are stored as
they are measured; a stopped measurement goes on.

The pass goes on with the optimizer's moments and the learning rate that training ended with, as the release does.

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

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.progress import track
from medvqa_core.store import RecordStore, content_key
from medvqa_hub.families.registry import is_decoder_only
from medvqa_hub.training.batch_loading import ShardSampler, choose_workers, load_batches
from medvqa_hub.training.recipes import Recipe
from medvqa_hub.training.scst_loss import answer_log_probability, token_log_probabilities
from medvqa_hub.training.scst_rollout import answer_logits, encode_images, read_prompts, read_references
from medvqa_hub.training.study_batches import StudiesInOrder, StudyCollator
from medvqa_hub.training.study_questions import StudyQuestions

KIND = "question-losses"
MOST_AT_ONCE = 16  # questions of a study in one pass, where the recipe takes all


def select_by_loss(losses: Mapping[str, float]) -> set[str]:
    """The qa_ids whose loss is within half a (population) standard deviation of the mean, limits included."""
    values = np.array(list(losses.values()))
    low, high = values.mean() - values.std() / 2, values.mean() + values.std() / 2
    return {qa_id for qa_id, loss in losses.items() if low <= loss <= high}


def second_pass_recipe(recipe: Recipe, questions: StudyQuestions) -> Recipe:
    """`recipe` for as many steps as show each of the chosen `questions` about once, at the rate reached."""
    wanted = recipe.data.questions_per_study
    per_study = float(questions.counts.mean() if wanted is None else np.minimum(questions.counts, wanted).mean())
    steps = max(1, math.ceil(questions.counts.sum() / (per_study * recipe.training.studies_per_step)))
    policy = dataclasses.replace(recipe.data, questions_per_study_policy="take_all")
    training = dataclasses.replace(
        recipe.training, epochs=None, max_steps=steps, hard_negatives=False,
        scheduler="constant", scheduler_arguments={}, warmup_steps=0,
    )  # fmt: skip
    return dataclasses.replace(recipe, data=policy, training=training)


@torch.no_grad()
def question_losses(model: Any, batch: Mapping[str, Any], at_once: int) -> list[float]:
    """Mean negative log-likelihood of each answer's tokens, in the order of the batch's questions.

    Images are encoded once. Of the questions, sorted by length, `at_once` go through the model together, and logits are
    made for their answers alone: memory is that of a training batch, however many questions the studies have.

    Args:
        model: in evaluation mode, not wrapped for distributed training.
        batch: what the processor made of images, questions and answers.
        at_once: most questions of one pass.
    """
    encoded = encode_images(model, batch)
    prompts, answers = read_prompts(batch, is_decoder_only(model)), read_references(batch["labels"])
    lengths = prompts.attention_mask.sum(1) + answers.mask.sum(1)
    losses = torch.zeros(len(lengths))
    for chosen in lengths.argsort().split(at_once):
        asked, said = prompts.chosen(chosen), answers.chosen(chosen)
        logits = answer_logits(model, asked, said, encoded)
        losses[chosen.cpu()] = -answer_log_probability(
            token_log_probabilities(logits, said.tokens), said.mask, "token"
        ).cpu()
    return losses.tolist()


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

    Raises:
        ConfigError: the GPU's memory does not suffice.
    """
    model.eval()
    size = recipe.training.studies_per_batch
    at_once = size * (recipe.data.questions_per_study or MOST_AT_ONCE)
    batches = StudiesInOrder(questions, StudyCollator(processor, recipe.family), size)
    processes, settings = accelerator.num_processes, {"checkpoint": checkpoint}
    path = folder / f"losses-{accelerator.process_index}-of-{processes}.jsonl"
    with RecordStore(path, KIND, governance, settings) as store:
        share = ShardSampler(accelerator.process_index, processes, len(batches))
        left = [[number] for (number,) in share if content_key(batch=number, size=size) not in store]
        loader = load_batches(batches, left, choose_workers(recipe.data.workers))
        for batch in track(loader, "measuring losses", total=len(left)):
            rows, number = batch.pop("rows"), batch.pop("number")
            batch = {name: value.to(accelerator.device) for name, value in batch.items()}
            try:
                with accelerator.autocast():
                    losses = question_losses(model, batch, at_once)
            except torch.OutOfMemoryError as error:
                raise ConfigError(
                    f"measuring losses for the second pass does not fit into the GPU's memory, {at_once} questions at "
                    "once: lower training.studies_per_batch (a step stays as large) and run the same command again"
                ) from error
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
