"""SCSTTrainer: the self-critical stage.

`scst_step` computes one batch's loss and `rewards` has the rewards. This file adds the counts that make a step's loss
independent of its division into batches and processes, the seeds of the samples, and the log.

Log lines contain the loss and these means since the last line: sample_reward, greedy_reward, zero_advantage_share,
sample_length and greedy_length (tokens), sample_entropy (nats per token), reward_loss and nll_loss. They also contain
the number of unscorable samples.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from accelerate.utils import DistributedType

from medvqa_core.errors import ConfigError
from medvqa_hub.training.arguments import TrainingRun
from medvqa_hub.training.rewards import Reward, make_reward
from medvqa_hub.training.scst_rollout import row_seed, switch_off_dropout
from medvqa_hub.training.scst_step import SUMS, SelfCriticalLoss, mean_metrics
from medvqa_hub.training.study_questions import ROWS_AT_ONCE, StudyQuestions
from medvqa_hub.training.trainer import SupervisedTrainer


class SCSTTrainer(SupervisedTrainer):
    """Trains on alpha * L_reward + gamma * L_nll (paper, Section 5.1).

    A sample's random numbers come from (seed, step, qa_id). So a resumed run, and one with other batches or processes,
    samples the same answers. Dropout and drop-path are off in the whole stage, so that log P(sample) belongs to the
    distribution that was sampled from.

    Args:
        model, processor, run, train_rows, validation_rows: see SupervisedTrainer. The recipe has `scst`.
        reward: see `rewards`. None makes the recipe's.

    Raises:
        ConfigError: as in SupervisedTrainer; also if the recipe has no `scst`, its reward cannot be made, or generation
            does not support how the model is distributed.
        InputError: no study can be used.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        run: TrainingRun,
        train_rows: Any,
        validation_rows: Any,
        reward: Reward | None = None,
    ) -> None:
        if run.recipe.scst is None:
            raise ConfigError("the recipe has no section scst. Use a recipe of stage 3, or add scst: {alpha: 0.6}")
        super().__init__(model, processor, run, train_rows, validation_rows)
        if self.accelerator.distributed_type == DistributedType.FSDP or self.args.n_gpu > 1:
            kind = "DataParallel" if self.args.n_gpu > 1 else self.accelerator.distributed_type.value
            raise ConfigError(
                f"self-critical training does not support {kind}. It encodes images and generates answers outside of "
                f"the model's forward pass, and {kind} makes whole weights, and collects their gradients, in that pass "
                "only. Start one process per GPU with --launch '--multi_gpu --num_processes N'"
            )
        switch_off_dropout(model)
        if reward is None:
            references = training_references(self.train_questions)
            reward = make_reward(self.recipe.reward, references, str(self.args.device))
        self.self_critical_loss = SelfCriticalLoss(reward, self._decode, self.recipe.scst)
        self._sums: Counter[str] = Counter()
        self._questions_in_step: torch.Tensor | None = None

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list, Any]:
        """As in Trainer, which counts the step's reference tokens. Also counts its questions over all processes."""
        batches, num_tokens = super().get_batch_samples(*args, **kwargs)
        questions = torch.tensor(sum(len(batch["rows"]) for batch in batches), device=self.args.device)
        self._questions_in_step = self.accelerator.gather(questions).sum()
        return batches, num_tokens

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The batch's share of the step's self-critical loss.

        Raises:
            InputError: the reward returned a value that is not a finite number.
            TrainingError: the loss is not finite.
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
            loss, sums = self.self_critical_loss(model, batch, rows, seeds, num_items_in_batch, self._questions_in_step)
        self.check_finite(loss, rows)
        self._sums.update(sums)
        # The counts include all processes, but DistributedDataParallel averages their gradients.
        loss = loss * self.accelerator.num_processes
        return (loss, {"loss": loss}) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As in SupervisedTrainer, with the step's metrics over all processes."""
        if "loss" in logs:
            sums = torch.tensor([[float(self._sums[name]) for name in SUMS]], device=self.args.device)
            logs |= mean_metrics(dict(zip(SUMS, self.accelerator.gather(sums).sum(0).tolist(), strict=True)))
            self._sums.clear()
        super().log(logs, start_time)

    def _decode(self, answers: list[list[int]]) -> list[str]:
        return self.processing_class.tokenizer.batch_decode(answers, skip_special_tokens=True)


def training_references(questions: StudyQuestions) -> Iterator[str]:
    """All answers of the training split, without decoding an image."""
    rows = questions.rows.select_columns(["questions"]).with_format("arrow")
    for table in rows.iter(batch_size=ROWS_AT_ONCE):
        for study in table["questions"].to_pylist():
            yield from (question["answer"] for question in study or [] if question["answer"])
