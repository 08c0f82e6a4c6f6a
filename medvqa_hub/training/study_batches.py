"""From studies to batches: which studies and questions make batch number n, and the batch itself.

A batch is S studies x Q questions, and a pure function of (seed, n): no state, no order of calls, no number of
processes or workers changes it. So a run that goes on at step 700 asks for the batches of step 700 and gets those that
an uninterrupted run would have had, and two processes that take every second batch work through what one would.

The stream of studies is one shuffled epoch after another, cut into steps of `studies_per_step`; a step may straddle two
epochs, so no study is left out. A study's Q questions are drawn again every epoch from (seed, epoch, study_id). Within
a step, studies with similar numbers and lengths of questions are put into the same batch, which saves padding. The step
as a whole, whose gradient is what counts, stays a plain random sample.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from medvqa_core.errors import ConfigError
from medvqa_hub.families.registry import ModelFamily
from medvqa_hub.training.study_questions import StudyQuestions


class StudyBatches(Dataset):
    """The batches of a run, by number.

    Args:
        questions: what can be asked.
        collate: makes a batch of a list of (row, places of its questions) and a seed for the augmentation.
        steps: optimizer steps of the run.
        studies_per_step: S of a whole step.
        studies_per_batch: S of a batch.
        questions_per_study: Q; None: all questions of a study.
        policy: for a study with fewer than Q: `take_all` gives what it has, `error` refuses.
        seed: of the shuffling and the draws.

    Raises:
        ConfigError: a study has fewer questions than asked for and the policy is `error`.
    """

    def __init__(
        self,
        questions: StudyQuestions,
        collate: Callable[[list[tuple[dict, np.ndarray]], int], dict[str, Any]],
        steps: int,
        studies_per_step: int,
        studies_per_batch: int,
        questions_per_study: int | None,
        policy: str = "take_all",
        seed: int = 0,
    ) -> None:
        self.questions, self.collate, self.steps, self.seed = questions, collate, steps, seed
        self.studies_per_step, self.studies_per_batch = studies_per_step, studies_per_batch
        self.questions_per_study = questions_per_study
        self.batches_per_step = studies_per_step // studies_per_batch
        self.short_studies = 0 if questions_per_study is None else int((questions.counts < questions_per_study).sum())
        if policy == "error" and self.short_studies:
            fewest = int(questions.counts.min())
            raise ConfigError(
                f"{self.short_studies} studies have fewer than data.questions_per_study, {questions_per_study} (the "
                f"fewest is {fewest}): lower it, or set data.questions_per_study_policy to take_all"
            )
        self._order: tuple[int, np.ndarray] | None = None
        self._step: tuple[int, list[list[tuple[int, np.ndarray]]]] | None = None

    def __len__(self) -> int:
        return self.steps * self.batches_per_step

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Batch `number` of the run, with its `number`."""
        members = [(self.questions.row(study), places) for study, places in self.plan(number)]
        return {**self.collate(members, derive_seed(self.seed, 2, number)), "number": number}

    def plan(self, number: int) -> list[tuple[int, np.ndarray]]:
        """Batch `number` as (usable study, places of its drawn questions in its row)."""
        step, batch = divmod(number, self.batches_per_step)
        if self._step is None or self._step[0] != step:
            self._step = (step, self._plan_step(step))
        return self._step[1][batch]

    def draw(self, epoch: int, study: int) -> np.ndarray:
        """Indices of a study's questions in `epoch`, drawn without repetition, in their order."""
        count = int(self.questions.counts[study])
        if self.questions_per_study is None or count <= self.questions_per_study:
            return np.arange(count)
        rng = np.random.default_rng([self.seed, 1, epoch, int(self.questions.study_ids[study])])
        return np.sort(rng.choice(count, self.questions_per_study, replace=False))

    def _plan_step(self, step: int) -> list[list[tuple[int, np.ndarray]]]:
        drawn = []
        for place in range(step * self.studies_per_step, (step + 1) * self.studies_per_step):
            epoch, index = divmod(place, len(self.questions))
            study = int(self._shuffled(epoch)[index])
            chosen = self.draw(epoch, study)
            longest = int(self.questions.lengths_of(study)[chosen].max())
            drawn.append((len(chosen), longest, place, study, self.questions.of(study)[chosen]))
        drawn.sort(key=lambda member: member[:3])
        size = self.studies_per_batch
        return [
            [member[3:] for member in drawn[start : start + size]] for start in range(0, self.studies_per_step, size)
        ]

    def _shuffled(self, epoch: int) -> np.ndarray:
        if self._order is None or self._order[0] != epoch:
            rng = np.random.default_rng([self.seed, 0, epoch])
            self._order = (epoch, rng.permutation(len(self.questions)))
        return self._order[1]


class StudiesInOrder(Dataset):
    """Batches of studies in the rows' order: for validation, and for measuring.

    Args:
        questions: what can be asked.
        collate: makes a batch of a list of (row, places of its questions).
        studies_per_batch: S of a batch; the last one may have fewer.
        studies: the first so many; None: all.
        questions_per_study: the first so many of each; None: all.
    """

    def __init__(
        self,
        questions: StudyQuestions,
        collate: Callable[[list[tuple[dict, np.ndarray]]], dict[str, Any]],
        studies_per_batch: int,
        studies: int | None = None,
        questions_per_study: int | None = None,
    ) -> None:
        self.questions, self.collate, self.questions_per_study = questions, collate, questions_per_study
        total = min(len(questions), studies or len(questions))
        starts = range(0, total, studies_per_batch)
        self.batches = [range(start, min(start + studies_per_batch, total)) for start in starts]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Batch `number`, with its `number`."""
        members = [
            (self.questions.row(study), self.questions.of(study)[: self.questions_per_study])
            for study in self.batches[number]
        ]
        return {**self.collate(members), "number": number}


class StudyCollator:
    """Study rows and the places of their questions -> what a model's forward takes, plus `rows`.

    Args:
        processor: of the model.
        family: of the model; see `ModelFamily.collate`.
        augment: draw the training augmentation.
        answers: False leaves them out: prompts for generation.
    """

    def __init__(self, processor: Any, family: ModelFamily, augment: bool = False, answers: bool = True) -> None:
        self.processor, self.family, self.augment, self.answers = processor, family, augment, answers

    def __call__(self, members: list[tuple[dict, np.ndarray]], seed: int = 0) -> dict[str, Any]:
        images, views, rows, study_index = [], [], [], []
        for number, (study, places) in enumerate(members):
            pairs = [
                (image, view) for image, view in zip(study["images"], study["views"], strict=True) if image is not None
            ]
            images.append([image for image, _ in pairs])
            views.append([view for _, view in pairs])
            for place in places:
                rows.append({**study["questions"][int(place)], "study_id": study["study_id"]})
                study_index.append(number)
        words = {"text": [row["question"] for row in rows], "study_index": study_index}
        if self.answers:
            words["answers"] = [row["answer"] for row in rows]
        seed = seed if self.augment else None
        return {**self.family.collate(self.processor, images, views, self.augment, seed, **words), "rows": rows}


def derive_seed(*numbers: int) -> int:
    """A seed below 2**62 from several numbers; close ones give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(2))
