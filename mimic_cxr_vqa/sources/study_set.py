"""What every source yields: a `StudySet`, checked.

`physionet`: MIMIC-CXR-JPG with its reports. `openi`: the Indiana University collection. `phantom`: drawn radiographs
in the PhysioNet layout, so `physionet` reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from mimic_cxr_vqa.row_checks import leakage
from mimic_cxr_vqa.schema import SPLITS, STUDY_SCHEMA


@dataclass(frozen=True)
class StudySet:
    """The studies of one source.

    Raises:
        InputError: a study twice, an unknown split, or a patient in two splits.
    """

    source: str
    governance: Governance
    studies: pa.Table  # STUDY_SCHEMA
    notes: Mapping[str, int] = field(
        default_factory=dict
    )  # what the source counted: unmapped terms, missing reports, …
    section_rules: Mapping[str, int] = field(default_factory=dict)  # `reports.RULES` -> reports that met the rule

    def __post_init__(self) -> None:
        assert self.studies.schema.equals(STUDY_SCHEMA), self.studies.schema
        check_unique(self.studies["study_id"], f"{self.source}: study")
        check_splits(self.studies, self.source)


def check_unique(ids: pa.ChunkedArray, what: str) -> None:
    """Raise InputError naming the first id that occurs twice."""
    counts = pc.value_counts(ids)
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        value, count = twice[0]["values"], twice[0]["counts"]
        raise InputError(f"{what} {value} occurs {count} times ({len(twice)} such); remove the repeated rows")


def check_splits(rows: pa.Table, where: str) -> None:
    """Raise InputError for an unknown split name or a patient whose rows lie in two splits.

    Args:
        rows: studies or images, with the columns subject_id and split.
        where: the file or source that the splits come from, for the message.
    """
    unknown = [s for s in pc.unique(rows["split"]).to_pylist() if s not in SPLITS]
    if unknown:
        raise InputError(f"{where}: split {unknown[0]!r} is unknown; allowed: {', '.join(SPLITS)}")
    pairs = rows.select(["subject_id", "split"]).group_by(["subject_id", "split"]).aggregate([])
    subjects, counts = np.unique(pairs["subject_id"].to_numpy(), return_counts=True)
    if (counts > 1).any():
        subject = subjects[counts > 1][0]
        names = pairs.filter(pc.equal(pairs["subject_id"], subject))["split"].to_pylist()
        raise leakage(subject, sorted(names), int((counts > 1).sum()), where)
