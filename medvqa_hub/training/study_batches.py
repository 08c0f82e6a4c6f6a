"""Batches of studies: which studies and questions make batch number n, and the batch itself.

A batch has S studies x Q questions and depends on (seed, n) only. So a run that is resumed at step 700 gets the batches
that an uninterrupted run would have had, with any number of processes and workers.

Studies come from one shuffled epoch after another, cut into steps of `studies_per_step`. A step may include two epochs,
so no study is left out. A study's Q questions are drawn every epoch from (seed, epoch, study_id). Within a step,
studies with similar numbers and lengths of questions share a batch, which saves padding. The step as a whole remains a
plain random sample.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from medvqa_core.errors import ConfigError
from medvqa_hub.families.registry import ModelFamily
from medvqa_hub.training.cached_images import CachedImage, pair_images
from medvqa_hub.training.recipes import Recipe
from medvqa_hub.training.study_questions import StudyQuestions

Members = list[tuple[Any, np.ndarray]]  # studies (usable study, or its row) and places of their questions


class StudyBatches(Dataset):
    """The batches of a run, by number.

    Args:
        questions: the usable questions.
        collate: makes a batch of (row, places of its questions) and a seed for the augmentation.
        recipe: how many studies and questions, and the seed.
        steps: optimizer steps of the run.

    Raises:
        ConfigError: a study has too few questions and `data.questions_per_study_policy` is `error`.
    """

    def __init__(
        self, questions: StudyQuestions, collate: Callable[[Members, int], dict[str, Any]], recipe: Recipe, steps: int
    ) -> None:
        self.questions, self.collate, self.steps = questions, collate, steps
        self.seed, self.questions_per_study = recipe.training.seed, recipe.data.questions_per_study
        self.studies_per_step = recipe.training.studies_per_step
        self.studies_per_batch = recipe.training.studies_per_batch
        self.batches_per_step = recipe.batches_per_step
        wanted = self.questions_per_study
        self.short_studies = 0 if wanted is None else int((questions.counts < wanted).sum())
        if recipe.data.questions_per_study_policy == "error" and self.short_studies:
            raise ConfigError(
                f"{self.short_studies} studies have fewer than data.questions_per_study, {wanted} (the fewest is "
                f"{questions.counts.min()}). Lower it, or set data.questions_per_study_policy to take_all"
            )
        self._order: tuple[int, np.ndarray] | None = None
        self._step: tuple[int, list[Members]] | None = None

    def __len__(self) -> int:
        return self.steps * self.batches_per_step

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Batch `number` of the run, with its `number`."""
        members = [(self.questions.read_row(study), places) for study, places in self.plan(number)]
        return {**self.collate(members, derive_seed(self.seed, 2, number)), "number": number}

    def plan(self, number: int) -> Members:
        """Batch `number` as (usable study, places of its drawn questions in its row)."""
        step, batch = divmod(number, self.batches_per_step)
        if self._step is None or self._step[0] != step:
            self._step = (step, self._plan_step(step))
        return self._step[1][batch]

    def draw(self, epoch: int, study: int) -> np.ndarray:
        """Sorted indices of a study's questions in `epoch`, drawn without replacement."""
        count = int(self.questions.counts[study])
        if self.questions_per_study is None or count <= self.questions_per_study:
            return np.arange(count)
        rng = np.random.default_rng([self.seed, 1, epoch, int(self.questions.study_ids[study])])
        return np.sort(rng.choice(count, self.questions_per_study, replace=False))

    def _plan_step(self, step: int) -> list[Members]:
        drawn = []
        for place in range(step * self.studies_per_step, (step + 1) * self.studies_per_step):
            epoch, index = divmod(place, len(self.questions))
            study = int(self._shuffled(epoch)[index])
            chosen = self.draw(epoch, study)
            longest = int(self.questions.lengths(study)[chosen].max())
            drawn.append((len(chosen), longest, place, study, self.questions.places(study)[chosen]))
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
    """Batches of studies in the rows' order, for validation and for measuring losses.

    Args:
        questions: the usable questions.
        collate: makes a batch of (row, places of its questions).
        studies_per_batch: S of a batch. The last one may have fewer.
        studies: the first so many. None: all.
        questions_per_study: the first so many of each study. None: all.
    """

    def __init__(
        self,
        questions: StudyQuestions,
        collate: Callable[[Members], dict[str, Any]],
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
            (self.questions.read_row(study), self.questions.places(study)[: self.questions_per_study])
            for study in self.batches[number]
        ]
        return {**self.collate(members), "number": number}


class StudyCollator:
    """Turns study rows and places of their questions into a model's inputs, plus `rows`.

    Args:
        processor: of the model.
        family: of the model. See `ModelFamily.collate`.
        augment: draw the training augmentation.
        answers: False makes prompts for generation.
        targets: as in the recipe's `training.targets`.
    """

    def __init__(
        self, processor: Any, family: ModelFamily, augment: bool = False, answers: bool = True, targets: str = "answer"
    ) -> None:
        self.processor, self.family, self.augment, self.answers = processor, family, augment, answers
        self.targets = targets

    def __call__(self, members: Members, seed: int = 0) -> dict[str, Any]:
        images, views, rows, study_index = [], [], [], []
        for number, (study, places) in enumerate(members):
            seen, named = pair_images(study)
            images.append(seen)
            views.append(named)
            rows += [{**study["questions"][int(place)], "study_id": study["study_id"]} for place in places]
            study_index += [number] * len(places)
        text: dict[str, Any] = {"text": [row["question"] for row in rows], "study_index": study_index}
        if self.answers:
            text["answers"] = [row["answer"] for row in rows]
            if self.targets == "released":
                text["released_targets"] = True
        if isinstance(images[0][0], CachedImage):
            kept, inputs = self.family.arrange_images(self.processor, images, views)
            features = torch.stack([image.read() for image in kept])
            return {**self.processor(**text), **inputs, "image_features": features, "rows": rows}
        drawn = seed if self.augment else None
        return {**self.family.collate(self.processor, images, views, self.augment, drawn, **text), "rows": rows}


def derive_seed(*numbers: int) -> int:
    """A seed below 2**62 from several numbers. Neighbouring numbers give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(2))
