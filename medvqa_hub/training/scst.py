"""SCSTTrainer: the self-critical stage, everything else as in SupervisedTrainer.

`scst_step` is one batch's loss, `rewards` what is rewarded. Here: the counts that make the loss of a step independent
of how its questions are split into batches and processes, the seeds of the samples, and the log.

Log lines have, besides the loss, means since the last line: sample_reward, greedy_reward, zero_advantage_share,
sample_length and greedy_length (tokens), sample_entropy (nats per token), reward_loss, nll_loss; and the number of
unscorable samples.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import DistributedType

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_hub.training.checkpoints import TrainingLog
from medvqa_hub.training.recipes import Recipe
from medvqa_hub.training.rewards import Reward, make_reward
from medvqa_hub.training.scst_rollout import row_seed, switch_off_dropout
from medvqa_hub.training.scst_step import StepMetrics, self_critical_loss
from medvqa_hub.training.study_questions import ROWS_AT_ONCE, StudyQuestions
from medvqa_hub.training.trainer import SupervisedTrainer

# Images are encoded and answers generated outside of the wrapped forward, which these could not follow.
UNSUPPORTED = (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)


class SCSTTrainer(SupervisedTrainer):
    """Trains on alpha * L_reward + gamma * L_nll (paper, Section 5.1).

    A sample's random numbers come from (seed, step, qa_id): a run that goes on, and one split among more batches or
    processes, samples the same answers. Dropout and drop-path are off in the whole stage, also in the pass with
    gradient, so that log P(sample) is of the distribution that was sampled from.

    Args:
        model: see SupervisedTrainer.
        processor: see SupervisedTrainer.
        recipe: resolved, with `scst`.
        train_rows: see SupervisedTrainer.
        validation_rows: see SupervisedTrainer.
        out: see SupervisedTrainer.
        governance: see SupervisedTrainer.
        log: see SupervisedTrainer.
        reward: see `rewards`; None makes the recipe's.

    Raises:
        ConfigError: as in SupervisedTrainer; the recipe has no `scst`, its reward cannot be made, or the model is
            spread over devices in a way that generation does not work with.
        InputError: no study can be used.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        recipe: Recipe,
        train_rows: Any,
        validation_rows: Any,
        out: Path,
        governance: Governance = Governance.CREDENTIALED,
        log: TrainingLog | None = None,
        reward: Reward | None = None,
    ) -> None:
        if recipe.scst is None:
            raise ConfigError(
                "the recipe has no section scst; take a recipe of stage 3, or add such as scst: {alpha: 0.6}"
            )
        super().__init__(model, processor, recipe, train_rows, validation_rows, out, governance, log)
        if self.accelerator.distributed_type in UNSUPPORTED or self.args.n_gpu > 1:
            kind = "DataParallel" if self.args.n_gpu > 1 else self.accelerator.distributed_type.value
            raise ConfigError(
                f"self-critical training does not run under {kind}; start one process per GPU with "
                "accelerate launch --multi_gpu (--launch)"
            )
        switch_off_dropout(model)
        if reward is None:
            reward = make_reward(recipe.reward, training_references(self.train_questions), str(self.args.device))
        self.reward = reward
        self._metrics = StepMetrics()
        self._questions_in_step: torch.Tensor | None = None

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list, Any]:
        """As Trainer, which counts the step's reference tokens; here its questions too, over all processes."""
        batches, num_tokens = super().get_batch_samples(*args, **kwargs)
        questions = torch.tensor(sum(len(batch["rows"]) for batch in batches), device=self.args.device)
        self._questions_in_step = self.accelerator.gather(questions).sum()
        return batches, num_tokens

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The batch's share of the step's self-critical loss.

        Raises:
            InputError: the reward gave something that is no number.
            TrainingError: the loss is no number.
        """
        batch = dict(inputs)
        rows = batch.pop("rows")
        self.set_frozen_eval()
        seeds = [
            row_seed(self.args.seed, self.state.global_step, row["qa_id"], sample)
            for sample in range(self.recipe.scst.samples)
            for row in rows
        ]
        with self.accelerator.autocast():
            loss, metrics = self_critical_loss(
                model, batch, rows, self.reward, self._decode, self.recipe.scst, seeds,
                num_items_in_batch, self._questions_in_step,
            )  # fmt: skip
        self.check_number(loss, rows)
        self._metrics += metrics
        # The counts are of all processes, and DistributedDataParallel is about to average their gradients.
        loss = loss * self.accelerator.num_processes
        return (loss, {"loss": loss}) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As SupervisedTrainer, with the step's metrics over all processes."""
        if "loss" in logs:
            sums = torch.tensor([self._metrics.values()], device=self.args.device)
            logs |= StepMetrics(*self.accelerator.gather(sums).sum(0).tolist()).logs()
            self._metrics = StepMetrics()
        super().log(logs, start_time)

    def _decode(self, answers: list[list[int]]) -> list[str]:
        tokenizer = self.processing_class.tokenizer
        return tokenizer.batch_decode(answers, skip_special_tokens=True)


def training_references(questions: StudyQuestions) -> Iterator[str]:
    """All answers of the training split, without decoding an image; read only by rewards that need them."""
    rows = questions.rows.select_columns(["questions"]).with_format("arrow")
    for table in rows.iter(batch_size=ROWS_AT_ONCE):
        for study in table["questions"].to_pylist():
            yield from (question["answer"] for question in study or [] if question["answer"])
