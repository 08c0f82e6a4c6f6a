"""What can be asked of which study: found once, without decoding an image, and counted.

A question counts when its answer has a word; a study counts when it has such a question and an image that the model can
use. The rest is left out and counted in `skipped`, never trained on.
"""

import copy
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import InputError
from medvqa_core.progress import track
from mimic_cxr_vqa.images import FILM_SIDE, read_film
from mimic_cxr_vqa.schema import LABEL_CONFLICT

ROWS_AT_ONCE = 1_000


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
