"""From studies to batches: what can be asked, which studies and questions make batch number n, and the batch itself.

What can be asked is found once, without decoding an image, and counted. A question counts when its answer has a word; a
study counts when it has such a question and an image that the model can use. The rest is left out and counted in
`skipped`, never trained on.

A batch is S studies x Q questions, and a pure function of (seed, n): no state, no order of calls, no number of
processes or workers changes it. So a run that goes on at step 700 asks for the batches of step 700 and gets those that
an uninterrupted run would have had, and two processes that take every second batch work through what one would.

The stream of studies is one shuffled epoch after another, cut into steps of `studies_per_step`; a step may straddle two
epochs, so no study is left out. A study's Q questions are drawn again every epoch from (seed, epoch, study_id). Within
a step, studies with similar numbers and lengths of questions are put into the same batch, which saves padding. The step
as a whole, whose gradient is what counts, stays a plain random sample.
"""

import copy
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch.utils.data import DataLoader, Dataset

from medvqa_core.errors import ConfigError, InputError, MedvqaError
from medvqa_core.progress import track
from medvqa_hub.families.table import ModelFamily
from mimic_cxr_vqa.images import FILM_SIDE, read_film
from mimic_cxr_vqa.schema import LABEL_CONFLICT

ROWS_AT_ONCE = 1_000
MOST_WORKERS = 16  # that read images; more only cost memory


class StudyQuestions:
    """The usable questions of every usable study, as positions in the rows.

    Args:
        rows: split of the `studies` configuration.
        what: how errors call it, such as "split train".
        view_is_known: tells whether the model can use an image of a view name; None: all.
        only: qa_ids to keep; None: all.
        image_side: what the shorter side of images is shrunk to while they are decoded; None: nothing.
        label_conflicts: `leave_out` the questions whose answer contradicts their label, or `keep` them.

    Attributes:
        rows, view_is_known: as given.
        studies: (studies,) row of each usable study.
        study_ids: (studies,) its study_id.
        counts: (studies,) how many usable questions it has.
        skipped: counts of `questions_without_answer`, `studies_without_questions`, `studies_without_image`.

    Raises:
        InputError: no study is left.
    """

    def __init__(
        self,
        rows: Any,
        what: str,
        view_is_known: Callable[[str | None], bool] | None = None,
        only: Collection[str] | None = None,
        image_side: int | None = FILM_SIDE,
        label_conflicts: str = "keep",
    ) -> None:
        self.rows, self.view_is_known, self.image_side = rows, view_is_known, image_side
        self.grouped = self  # by study, where these are `one_by_one`
        self._leave_out_conflicts = label_conflicts == "leave_out"
        self._stored = rows.with_format("arrow")  # rows as they are stored: images not decoded
        self.skipped: Counter[str] = Counter()
        positions, lengths, counts, ids = [], [], [], []
        for table in track(_tables(rows), f"reading {what}", total=-(-len(rows) // ROWS_AT_ONCE)):
            usable, length, count = self._questions(table["questions"].combine_chunks(), only)
            seen = _has_image(table, view_is_known)
            self.skipped["studies_without_image"] += int((~seen & (count > 0)).sum())
            keep = np.repeat(seen, count)
            positions.append(usable[keep])
            lengths.append(length[keep])
            counts.append(np.where(seen, count, 0))
            ids.append(table["study_id"].to_numpy())
        counts = np.concatenate(counts) if counts else np.zeros(0, int)
        self.skipped["studies_without_questions"] = int((counts == 0).sum()) - self.skipped["studies_without_image"]
        self.studies = np.flatnonzero(counts)
        if not len(self.studies):
            raise InputError(
                f"{what}: none of its {len(counts)} studies has both a question with an answer and an image "
                f"({dict(self.skipped)}); build the release again, or check image_root"
            )
        self.study_ids = np.concatenate(ids)[self.studies]
        self._positions, self._lengths = np.concatenate(positions), np.concatenate(lengths)
        self.counts = counts[self.studies]
        self._starts = np.concatenate([[0], np.cumsum(self.counts)])

    def one_by_one(self) -> "StudyQuestions":
        """The same questions, each as a study of its own with its study's images: an epoch shows every one once."""
        single = copy.copy(self)
        single.studies, single.study_ids = np.repeat(self.studies, self.counts), np.repeat(self.study_ids, self.counts)
        single.counts = np.ones(len(single.studies), int)
        single._starts = np.arange(len(single.studies) + 1)
        return single

    def __len__(self) -> int:
        return len(self.studies)

    def row(self, study: int) -> dict[str, Any]:
        """The row of usable study `study`, its images decoded to grey.

        Raises:
            InputError: an image's file is damaged or has gone.
        """
        (row,) = self._stored[int(self.studies[study])].to_pylist()
        try:
            row["images"] = [
                image and read_film(image["bytes"] or Path(image["path"]), self.image_side) for image in row["images"]
            ]
        except InputError as error:
            raise InputError(
                f"an image of study {self.study_ids[study]} cannot be read ({error}); run the same command afterwards"
            ) from error
        return row

    def of(self, study: int) -> np.ndarray:
        """Places of the usable questions of usable study `study` in its row's list."""
        return self._positions[self._starts[study] : self._starts[study + 1]]

    def lengths_of(self, study: int) -> np.ndarray:
        """Characters of question and answer, aligned with `of(study)`."""
        return self._lengths[self._starts[study] : self._starts[study + 1]]

    def _questions(
        self, lists: pa.ListArray, only: Collection[str] | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places in their lists and lengths of the usable questions, and how many each study has."""
        size = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        questions = lists.flatten()
        answer = pc.utf8_trim_whitespace(pc.fill_null(pc.struct_field(questions, "answer"), ""))
        question = pc.fill_null(pc.struct_field(questions, "question"), "")
        said = pc.greater(pc.utf8_length(answer), 0).to_numpy(zero_copy_only=False)
        asked = pc.greater(pc.utf8_length(pc.utf8_trim_whitespace(question)), 0).to_numpy(zero_copy_only=False)
        usable = said & asked
        self.skipped["questions_without_answer"] += int((~usable).sum())
        names = [questions.type.field(i).name for i in range(questions.type.num_fields)]
        if self._leave_out_conflicts and LABEL_CONFLICT in names:
            conflict = pc.fill_null(pc.struct_field(questions, LABEL_CONFLICT), False).to_numpy(zero_copy_only=False)
            self.skipped["questions_with_label_conflict"] += int((usable & conflict).sum())
            usable &= ~conflict
        if only is not None:
            ids = pc.struct_field(questions, "qa_id").to_pylist()
            usable &= np.fromiter((qa_id in only for qa_id in ids), bool, len(ids))
        length = pc.add(pc.utf8_length(answer), pc.utf8_length(question)).to_numpy(zero_copy_only=False)
        starts = np.cumsum(size) - size
        place = np.arange(len(usable)) - np.repeat(starts, size)
        study = np.repeat(np.arange(len(size)), size)
        return place[usable], length[usable], np.bincount(study[usable], minlength=len(size))


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


def choose_workers(wanted: int | None) -> int:
    """Processes that read images for each training process: `wanted`, or all of its cores but one."""
    if wanted is not None:
        return wanted
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # set by torchrun and accelerate
    return max(1, min(cores // processes - 1, MOST_WORKERS))


def load_batches(batches: Dataset, numbers: Iterable[list[int]], workers: int) -> DataLoader:
    """The batches of `numbers` (each in a list of its own) in their order; `workers` processes decode their images."""
    return DataLoader(
        batches,
        batch_sampler=numbers,
        collate_fn=take_only,
        num_workers=workers,
        pin_memory=torch.cuda.is_available(),
    )


@contextmanager
def without_worker_traceback() -> Iterator[None]:
    """Give an error of ours from a worker its own text again; DataLoader puts the worker's whole traceback there."""
    try:
        yield
    except MedvqaError as error:
        name = f"{type(error).__module__}.{type(error).__qualname__}: "
        if "in DataLoader worker process" not in str(error) or name not in str(error):
            raise
        raise type(error)(str(error).rpartition(name)[2].strip()) from error


class EveryNth:
    """Batch sampler of one process: batches `first`, `first + every`, … of `total`, each a list of its number."""

    def __init__(self, first: int, every: int, total: int) -> None:
        self.numbers = range(first, total, every)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[list[int]]:
        return ([number] for number in self.numbers)


def take_only(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Collate function for a sampler of single, ready batches."""
    (batch,) = items
    return batch


def derive_seed(*numbers: int) -> int:
    """A seed below 2**62 from several numbers; close ones give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(2))


def _tables(rows: Any):
    columns = ["study_id", "questions", "images", "views"]
    missing = [name for name in columns if name not in rows.column_names]
    if missing:
        raise InputError(
            f"the rows have no column {', '.join(missing)}: training reads the configuration 'studies', "
            "load_dataset('mimic_cxr_vqa', 'studies', …)"
        )
    return rows.select_columns(columns).with_format("arrow").iter(batch_size=ROWS_AT_ONCE)


def _has_image(table: pa.Table, view_is_known: Callable[[str | None], bool] | None) -> np.ndarray:
    """(studies,) whether an image is there, of a view that the model knows."""
    images, views = table["images"].combine_chunks(), table["views"].combine_chunks()
    if not pa.types.is_struct(images.type.value_type):
        raise InputError("images are paths only: pass image_root, the folder that they start from")
    count = pc.fill_null(pc.list_value_length(images), 0).to_numpy(zero_copy_only=False)
    uneven = np.flatnonzero(count != pc.fill_null(pc.list_value_length(views), 0).to_numpy(zero_copy_only=False))
    if len(uneven):
        raise InputError(
            f"study {table['study_id'][int(uneven[0])]} has another number of views than of images; build the release "
            "again"
        )
    there = pc.is_valid(images.flatten()).to_numpy(zero_copy_only=False)
    if view_is_known is not None:
        names = views.flatten().dictionary_encode()
        known = np.array([*(view_is_known(name) for name in names.dictionary.to_pylist()), view_is_known(None)])
        there = there & known[pc.fill_null(names.indices, len(known) - 1).to_numpy(zero_copy_only=False)]
    study = np.repeat(np.arange(len(images)), count)
    return np.bincount(study[there], minlength=len(images)) > 0
