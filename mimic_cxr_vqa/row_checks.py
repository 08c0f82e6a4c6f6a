"""Checks over whole splits: repeated questions, and patients in two splits.

Ids are kept as integer arrays. 3.2 million rows take about 30 MB and less than a second.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import ConfigError, InputError
from mimic_cxr_vqa.question_list import QUESTION_SLUGS

DUPLICATES = ("error", "first")
_CODES_PER_STUDY = 128  # more than the 90 questions: study * 128 + question is one integer per question


class RowChecks:
    """Collects the rows of a split with `add`, and raises in `finish_split` if something is wrong.

    Each of several processes only checks the rows that it reads itself.

    Args:
        patients: split -> its patients, shared by several passes over the same dataset. Finished splits are added.
        duplicates: `error` if a question is repeated, or `first`, with which `add` drops all but its first row.

    Attributes:
        left_out: number of repeated rows that were dropped.
    """

    def __init__(self, patients: dict[str, np.ndarray] | None = None, duplicates: str = "error") -> None:
        self._keep_first = check_policy(duplicates) == "first"
        self.left_out = 0
        self._finished = {} if patients is None else patients
        self._reset()

    def _reset(self) -> None:
        self._questions: list[np.ndarray] = []
        self._places: dict[int, list[int]] = {}  # study -> entries of _questions that contain it (for `first`)
        self._others: set[str] = set()  # ids of questions that are not among the 90
        self._subjects: list[np.ndarray] = []

    def add(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Add a batch (any schema with qa_id, study_id and subject_id) and return the rows that are kept.

        Raises:
            InputError: a question that is not among the 90 is repeated. `finish_split` finds the others.
        """
        study = rows["study_id"].to_numpy()
        ids = rows["qa_id"]
        slug = pc.ascii_ltrim(pc.utf8_slice_codeunits(ids, 1), "0123456789-")  # s50414267-edema-1 -> edema-1
        code = pc.fill_null(pc.index_in(slug, QUESTION_SLUGS), -1).to_numpy()
        known = code >= 0
        questions = study * _CODES_PER_STUDY + code
        repeated = np.zeros(len(rows), bool)
        for position in np.flatnonzero(~known):
            qa_id = ids[position].as_py()
            repeated[position] = qa_id in self._others
            if repeated[position] and not self._keep_first:
                raise InputError(f"qa_id {qa_id!r} occurs twice. Remove the repeated row")
            self._others.add(qa_id)
        if self._keep_first:
            repeated |= known & self._find_repeated(study, questions, known)
        self._questions.append(questions[known & ~repeated])
        self._subjects.append(np.unique(rows["subject_id"].to_numpy()))
        self.left_out += int(repeated.sum())
        return rows.filter(pa.array(~repeated)) if repeated.any() else rows

    def _find_repeated(self, study: np.ndarray, questions: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Where a question occurs earlier in this batch, or in another batch that contains its study."""
        first = np.zeros(len(questions), bool)
        first[np.unique(np.where(known, questions, -1), return_index=True)[1]] = True
        earlier: set[int] = set()
        for name in np.unique(study).tolist():
            places = self._places.setdefault(name, [])
            earlier.update(places)
            places.append(len(self._questions))
        if not earlier:
            return ~first
        return ~first | np.isin(questions, np.concatenate([self._questions[place] for place in earlier]))

    def finish_split(self, split: str, where: str = "") -> None:
        """Check the rows that were added since the last split.

        Args:
            where: their files, for the message.

        Raises:
            InputError: a question is repeated, or a patient is also in an earlier split.
        """
        parts = [] if self._keep_first else self._questions
        questions = np.sort(np.concatenate(parts or [np.zeros(0, np.int64)]))
        twice = questions[1:][questions[1:] == questions[:-1]]
        if len(twice):
            study, code = divmod(int(twice[0]), _CODES_PER_STUDY)
            raise InputError(
                f"{where or split}: qa_id 's{study}-{QUESTION_SLUGS[code]}' occurs twice ({len(twice)} repeated rows). "
                "Remove the repeated rows"
            )
        subjects = np.unique(np.concatenate(self._subjects or [np.zeros(0, np.int64)]))
        for other, patients in self._finished.items():
            shared = np.intersect1d(subjects, patients)
            if len(shared) and other != split:
                raise make_leakage_error(shared[0], [other, split], len(shared), where)
        self._finished[split] = np.union1d(subjects, self._finished.get(split, subjects))
        self._reset()


def check_policy(duplicates: str) -> str:
    """Return `duplicates` if it is one of DUPLICATES. Raises ConfigError otherwise."""
    if duplicates not in DUPLICATES:
        raise ConfigError(f"duplicates={duplicates!r}: allowed are {' and '.join(DUPLICATES)}")
    return duplicates


def make_leakage_error(patient: int, splits: list[str], patients: int, where: str = "") -> InputError:
    """Return the error for a patient in two splits, of `patients` such patients in all."""
    return InputError(
        f"{where and where + ': '}patient {patient} is in the splits {' and '.join(splits)} ({patients} such "
        "patients), so test patients would leak into training. Give every patient one split"
    )
