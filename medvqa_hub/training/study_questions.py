"""The usable questions of every study, found once without decoding an image.

A question is usable if it has a text and an answer. A study is usable if it has such a question and an image that the
model supports. The others are counted in `skipped`.
"""

import copy
import os
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
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
        what: its name in errors, such as "split train".
        view_is_known: whether the model supports an image of a view. None: all.
        only: qa_ids to keep. None: all.
        image_side: shorter side to which images are shrunk while they are decoded. None: not at all.
        label_conflicts: `leave_out` or `keep` questions whose answer contradicts their label.

    Attributes:
        studies: (studies,) row of each usable study.
        study_ids: (studies,) its study_id.
        counts: (studies,) number of its usable questions.
        skipped: counts of `questions_without_answer`, `studies_without_questions`, `studies_without_image`,
            `studies_with_damaged_image`.

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
        self.grouped = self  # by study, if these are `one_by_one`
        self.open_image: Callable[[Path | bytes], Any] = self.read_film
        self._leave_out_conflicts = label_conflicts == "leave_out"
        self._stored = rows.with_format("arrow")  # images are not decoded
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
        whole = np.concatenate(counts) if counts else np.zeros(0, int)
        self.skipped["studies_without_questions"] = int((whole == 0).sum()) - self.skipped["studies_without_image"]
        self.studies = np.flatnonzero(whole)
        if not len(self.studies):
            raise InputError(
                f"{what}: none of its {len(whole)} studies has both a question with an answer and an image "
                f"({dict(self.skipped)}). Build the release again, or check image_root"
            )
        self.study_ids = np.concatenate(ids)[self.studies]
        self._positions, self._lengths = np.concatenate(positions), np.concatenate(lengths)
        self.counts = whole[self.studies]
        self._starts = np.concatenate([[0], np.cumsum(self.counts)])

    def one_by_one(self) -> "StudyQuestions":
        """The same questions, each as a study of its own. An epoch then shows every question once."""
        single = copy.copy(self)
        single.studies, single.study_ids = np.repeat(self.studies, self.counts), np.repeat(self.study_ids, self.counts)
        single.counts = np.ones(len(single.studies), int)
        single._starts = np.arange(len(single.studies) + 1)
        return single

    def find_damaged(self) -> dict[int, str]:
        """Decode all images, in one thread per core. Returns study_id -> problem of studies with a damaged image."""

        def check(study: int) -> str | None:
            try:
                self.read_row(study)
            except InputError as error:
                return str(error)
            return None

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = track(pool.map(check, range(len(self))), "checking images", total=len(self))
            return {int(self.study_ids[study]): problem for study, problem in enumerate(found) if problem}

    def leave_out(self, study_ids: Collection[int]) -> None:
        """Leave out studies with a damaged image. Raises InputError if none is left."""
        keep = ~np.isin(self.study_ids, list(study_ids))
        if not keep.any():
            raise InputError(f"all {len(self)} studies have a damaged image. Check image_root")
        questions = np.repeat(keep, self.counts)
        self._positions, self._lengths = self._positions[questions], self._lengths[questions]
        self.studies, self.study_ids, self.counts = self.studies[keep], self.study_ids[keep], self.counts[keep]
        self._starts = np.concatenate([[0], np.cumsum(self.counts)])
        self.skipped["studies_with_damaged_image"] += int((~keep).sum())

    def __len__(self) -> int:
        return len(self.studies)

    def read_film(self, source: Path | bytes) -> Any:
        """An image decoded to grey. Raises InputError if it is damaged or missing."""
        return read_film(source, self.image_side)

    def read_row(self, study: int, open_image: Callable[[Path | bytes], Any] | None = None) -> dict[str, Any]:
        """The row of usable study `study`, with its images as `open_image` (by default the attribute) returns them.

        Raises:
            InputError: an image is damaged or missing.
        """
        (row,) = self._stored[int(self.studies[study])].to_pylist()
        read = open_image or self.open_image
        try:
            row["images"] = [image and read(image["bytes"] or Path(image["path"])) for image in row["images"]]
        except InputError as error:
            raise InputError(
                f"an image of study {self.study_ids[study]} cannot be read ({error}). Run the same command afterwards"
            ) from error
        return row

    def count_images(self) -> int:
        """Images of all usable studies."""
        images = self._stored.select_columns(["images"]).data["images"].combine_chunks().take(pa.array(self.studies))
        return int(pc.sum(pc.is_valid(images.flatten())).as_py() or 0)

    def places(self, study: int) -> np.ndarray:
        """Places of the usable questions of usable study `study` in its row's list."""
        return self._positions[self._starts[study] : self._starts[study + 1]]

    def lengths(self, study: int) -> np.ndarray:
        """Characters of question and answer, aligned with `places(study)`."""
        return self._lengths[self._starts[study] : self._starts[study + 1]]

    def _questions(
        self, lists: pa.ListArray, only: Collection[str] | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places in their lists and lengths of the usable questions, and their number per study."""
        size = _to_numpy(pc.fill_null(pc.list_value_length(lists), 0))
        questions = lists.flatten()
        answer = pc.utf8_trim_whitespace(pc.fill_null(pc.struct_field(questions, "answer"), ""))
        question = pc.fill_null(pc.struct_field(questions, "question"), "")
        texts = (answer, pc.utf8_trim_whitespace(question))
        usable = np.logical_and(*(_to_numpy(pc.greater(pc.utf8_length(text), 0)) for text in texts))
        self.skipped["questions_without_answer"] += int((~usable).sum())
        names = [questions.type.field(i).name for i in range(questions.type.num_fields)]
        if self._leave_out_conflicts and LABEL_CONFLICT in names:
            conflict = _to_numpy(pc.fill_null(pc.struct_field(questions, LABEL_CONFLICT), False))
            self.skipped["questions_with_label_conflict"] += int((usable & conflict).sum())
            usable &= ~conflict
        if only is not None:
            ids = pc.struct_field(questions, "qa_id").to_pylist()
            usable &= np.fromiter((qa_id in only for qa_id in ids), bool, len(ids))
        length = _to_numpy(pc.add(pc.utf8_length(answer), pc.utf8_length(question)))
        starts = np.cumsum(size) - size
        place = np.arange(len(usable)) - np.repeat(starts, size)
        study = np.repeat(np.arange(len(size)), size)
        return place[usable], length[usable], np.bincount(study[usable], minlength=len(size))


def _to_numpy(array: Any) -> np.ndarray:
    return array.to_numpy(zero_copy_only=False)


def _tables(rows: Any) -> Any:
    columns = ["study_id", "questions", "images", "views"]
    missing = [name for name in columns if name not in rows.column_names]
    if missing:
        raise InputError(
            f"the rows have no column {', '.join(missing)}. Training needs the configuration 'studies', "
            "load_dataset('mimic_cxr_vqa', 'studies', …)"
        )
    return rows.select_columns(columns).with_format("arrow").iter(batch_size=ROWS_AT_ONCE)


def _has_image(table: pa.Table, view_is_known: Callable[[str | None], bool] | None) -> np.ndarray:
    """(studies,) whether it has an image of a view that the model supports."""
    images, views = table["images"].combine_chunks(), table["views"].combine_chunks()
    if not pa.types.is_struct(images.type.value_type):
        raise InputError("the images are paths. Pass image_root, the folder that they start from")
    count, named = (_to_numpy(pc.fill_null(pc.list_value_length(lists), 0)) for lists in (images, views))
    uneven = np.flatnonzero(count != named)
    if len(uneven):
        raise InputError(
            f"study {table['study_id'][int(uneven[0])]} has different numbers of views and images. Build the release "
            "again"
        )
    usable = _to_numpy(pc.is_valid(images.flatten()))
    if view_is_known is not None:
        names = views.flatten().dictionary_encode()
        known = np.array([*(view_is_known(name) for name in names.dictionary.to_pylist()), view_is_known(None)])
        usable = usable & known[_to_numpy(pc.fill_null(names.indices, len(known) - 1))]
    study = np.repeat(np.arange(len(images)), count)
    return np.bincount(study[usable], minlength=len(images)) > 0
