"""`StudySet`, the checked result of every source."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from mimic_cxr_vqa.row_checks import make_leakage_error
from mimic_cxr_vqa.schema import SPLITS, STUDY_SCHEMA


@dataclass(frozen=True)
class StudySet:
    """The studies of one source.

    Attributes:
        studies: rows of STUDY_SCHEMA.
        notes: counts of the studies that the source read, such as unmapped terms and missing labels.
        section_rules: section rule (`reports.RULES`) -> reports that it applied to.

    Raises:
        InputError: a study is repeated, a split is unknown, or a patient is in two splits.
    """

    source: str
    governance: Governance
    studies: pa.Table
    notes: Mapping[str, int] = field(default_factory=dict)
    section_rules: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.studies.schema.equals(STUDY_SCHEMA), self.studies.schema
        check_unique(self.studies["study_id"], f"{self.source}: study")
        check_splits(self.studies, self.source)


def check_unique(ids: pa.ChunkedArray, what: str) -> None:
    """Raise InputError for the first id that occurs twice."""
    counts = pc.value_counts(ids)
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        value, count = twice[0]["values"], twice[0]["counts"]
        raise InputError(f"{what} {value} occurs {count} times ({len(twice)} such ids). Remove the repeated rows")


def check_splits(rows: pa.Table, where: str) -> None:
    """Raise InputError for an unknown split name or a patient whose rows are in two splits.

    Args:
        rows: studies or images, with the columns subject_id and split.
        where: the file or source that the splits come from, for the message.
    """
    unknown = [s for s in pc.unique(rows["split"]).to_pylist() if s not in SPLITS]
    if unknown:
        raise InputError(f"{where}: split {unknown[0]!r} is unknown. Allowed: {', '.join(SPLITS)}")
    if mixed := find_mixed(rows, "subject_id", "split"):
        raise make_leakage_error(*mixed, where)


def find_mixed(rows: pa.Table, key: str, value: str) -> tuple[int, list, int] | None:
    """The first `key` with several values of `value`, its values in order, and the number of such keys, or None."""
    pairs = rows.select([key, value]).group_by([key, value]).aggregate([])
    keys, counts = np.unique(pairs[key].to_numpy(), return_counts=True)
    mixed = keys[counts > 1]
    if not len(mixed):
        return None
    return mixed[0], sorted(pairs.filter(pc.equal(pairs[key], mixed[0]))[value].to_pylist()), len(mixed)
