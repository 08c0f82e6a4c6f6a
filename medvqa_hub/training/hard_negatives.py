"""The second pass over hard questions, whose loss is within half a standard deviation of the mean.

It leaves out questions that the model can answer already, and questions that no model could answer. Losses are measured
with the trained model in evaluation mode, each as a mean over the answer's tokens. They are stored at once, so an
interrupted measurement resumes. The pass continues with the optimizer's state and the last learning rate.

In the release such a pass follows every epoch, and each loss is that of a whole training batch (with dropout and
padding), assigned to the batch's first question. Here one pass follows the training, and every question has its own
loss.
"""

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from medvqa_core.errors import ConfigError
from medvqa_core.progress import track
from medvqa_core.store import RecordStore, content_key
from medvqa_hub.families.registry import is_decoder_only
from medvqa_hub.training.batch_loading import choose_workers, load_batches
from medvqa_hub.training.checkpoints import fingerprint_model_folder
from medvqa_hub.training.recipes import Recipe
from medvqa_hub.training.scst_loss import answer_log_probability, token_log_probabilities
from medvqa_hub.training.scst_rollout import answer_logits, encode_images, read_prompts, read_references
from medvqa_hub.training.sharding import whole_weights
from medvqa_hub.training.study_batches import StudiesInOrder, StudyCollator
from medvqa_hub.training.study_questions import StudyQuestions

KIND = "question-losses"
MAX_QUESTIONS = 16  # of a study in one forward pass, if the recipe takes all questions


def select_by_loss(losses: Mapping[str, float]) -> set[str]:
    """The qa_ids with a loss within half a (population) standard deviation of the mean, limits included."""
    values = np.array(list(losses.values()))
    low, high = values.mean() - values.std() / 2, values.mean() + values.std() / 2
    return {qa_id for qa_id, loss in losses.items() if low <= loss <= high}


def choose_questions(questions: StudyQuestions, chosen: Collection[str], one_by_one: bool) -> StudyQuestions:
    """The questions with a `chosen` qa_id."""
    found = StudyQuestions(questions.rows, "the hard questions", questions.view_is_known, chosen, questions.image_side)
    return found.one_by_one() if one_by_one else found


def second_pass_recipe(recipe: Recipe, questions: StudyQuestions) -> Recipe:
    """`recipe` with as many steps as show each of the chosen `questions` about once, at a constant rate."""
    wanted = recipe.data.questions_per_study
    per_study = float(questions.counts.mean() if wanted is None else np.minimum(questions.counts, wanted).mean())
    steps = max(1, math.ceil(questions.counts.sum() / (per_study * recipe.training.studies_per_step)))
    changes = {
        "epochs": None, "max_steps": steps, "hard_negatives": False, "scheduler": "constant",
        "scheduler_arguments": {}, "warmup_steps": 0,
    }  # fmt: skip
    data = recipe.data.model_copy(update={"questions_per_study_policy": "take_all"})
    return recipe.model_copy(update={"data": data, "training": recipe.training.model_copy(update=changes)})


@torch.no_grad()
def question_losses(model: Any, batch: Mapping[str, Any], at_once: int) -> list[float]:
    """Mean negative log-likelihood of each answer's tokens, in the order of the batch's questions.

    Images are encoded once. The questions, sorted by length, pass through the model `at_once` at a time, with logits of
    their answers only. So the memory is that of a training batch, however many questions the studies have.

    Args:
        model: in evaluation mode, not wrapped for distributed training.
        batch: the processor's output for images, questions and answers.
        at_once: largest number of questions in a forward pass.
    """
    encoded = encode_images(model, batch)
    if "position_ids" in batch:  # released targets: padding counts too
        text = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids", "study_index")}
        logits, labels = model(**text, encoder_outputs=encoded).logits[:, :-1], batch["labels"][:, 1:]
        losses = torch.nn.functional.cross_entropy(logits.float().transpose(1, 2), labels, reduction="none")
        return (losses.sum(1) / (labels != -100).sum(1)).tolist()
    prompts, answers = read_prompts(batch, is_decoder_only(model)), read_references(batch["labels"])
    lengths = prompts.attention_mask.sum(1) + answers.mask.sum(1)
    losses = torch.zeros(len(lengths))
    for rows in lengths.argsort().split(at_once):
        chosen = answers.select(rows)
        logits = answer_logits(model, prompts.select(rows), chosen, encoded)
        log_probs = token_log_probabilities(logits, chosen.tokens)
        losses[rows.cpu()] = -answer_log_probability(log_probs, chosen.mask, "token").cpu()
    return losses.tolist()


@torch.no_grad()
def measure_losses(trainer: Any, questions: StudyQuestions, folder: Path, checkpoint: Path) -> dict[str, float]:
    """The loss of every question by qa_id, the same on every process.

    Args:
        trainer: with the trained model.
        folder: in which losses are stored, one file per process.
        checkpoint: of the trained model. Stored losses of another model are rejected.

    Raises:
        ConfigError: the GPU's memory does not suffice.
    """
    model, recipe, accelerator = trainer.model, trainer.recipe, trainer.accelerator
    model.eval()
    size = recipe.training.studies_per_batch
    at_once = size * (recipe.data.questions_per_study or MAX_QUESTIONS)
    collate = StudyCollator(trainer.processing_class, recipe.family, targets=recipe.training.targets)
    batches = StudiesInOrder(questions, collate, size)
    processes, settings = accelerator.num_processes, {"checkpoint": fingerprint_model_folder(checkpoint)}
    paths = [folder / f"losses-{number}-of-{processes}.jsonl" for number in range(processes)]
    own = RecordStore(paths[accelerator.process_index], KIND, trainer.governance, settings)
    with own as store, whole_weights(model):
        share = range(accelerator.process_index, len(batches), processes)
        left = [number for number in share if content_key(batch=number, size=size) not in store]
        loader = load_batches(batches, left, choose_workers(recipe.data.workers))
        for batch in track(loader, "measuring losses", total=len(left)):
            rows, number = batch.pop("rows"), batch.pop("number")
            batch = {name: value.to(accelerator.device) for name, value in batch.items()}
            try:
                with accelerator.autocast():
                    losses = question_losses(model, batch, at_once)
            except torch.OutOfMemoryError as error:
                raise ConfigError(
                    f"measuring the losses of {at_once} questions at once does not fit into the GPU's memory. Lower "
                    "training.studies_per_batch (the questions per step do not change) and run the same command again"
                ) from error
            found = {row["qa_id"]: loss for row, loss in zip(rows, losses, strict=True)}
            store.append([{"key": content_key(batch=number, size=size), "losses": found}])
    accelerator.wait_for_everyone()
    losses = {}
    for path in paths:
        with RecordStore(path, KIND, trainer.governance, settings, read_only=True) as store:
            for record in store.records():
                losses |= record["losses"]
    return losses
