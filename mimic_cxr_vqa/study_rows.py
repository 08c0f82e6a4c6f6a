"""Groups rows per question into rows per study, with the report, labels, images and all questions of each study.

The rows of a study must be adjacent, as in every release.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import InputError
from mimic_cxr_vqa.schema import (
    CHEXPERT_LABELS,
    LABEL_CONFLICT,
    LABEL_VALUES,
    LABELS_TYPE,
    QA_SCHEMA,
    STUDY_SCHEMA,
    has_flag,
)

_COPIED = ("qa_id", "category", "label_value", "question", "answer", "answer_type")
# The last field: whether the answer is known to contradict its label.
QUESTIONS_TYPE = pa.list_(pa.struct([*(QA_SCHEMA.field(name) for name in _COPIED), (LABEL_CONFLICT, pa.bool_())]))
STUDY_ROW_SCHEMA = pa.schema(
    [
        *[STUDY_SCHEMA.field(name) for name in STUDY_SCHEMA.names if name != "images"],
        ("images", pa.list_(pa.string())),
        ("views", pa.list_(pa.string())),
        ("questions", QUESTIONS_TYPE),
    ]
)


def whole_studies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows as tables of whole studies.

    Raises:
        InputError: the rows of a study are not adjacent.
    """
    seen: set[int] = set()
    for table in _cut_at_studies(batches):
        ids = table["study_id"].to_numpy()
        for study in ids[_first_rows(ids)].tolist():
            if study in seen:
                raise InputError(f"the rows of study {study} are not adjacent. Sort the rows by study_id")
            seen.add(study)
        yield table


def _cut_at_studies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        ids = batch["study_id"].to_numpy()
        changes = _first_rows(ids)[1:]
        joined = bool(waiting) and waiting[-1]["study_id"][-1].as_py() == ids[0] if len(ids) else True
        if waiting and not joined:
            yield pa.Table.from_batches(waiting)
            waiting = []
        if len(changes):
            yield pa.Table.from_batches([*waiting, batch.slice(0, changes[-1])])
            waiting = [batch.slice(changes[-1])]
        elif len(ids):
            waiting.append(batch)
    if waiting:
        yield pa.Table.from_batches(waiting)


def group_by_study(rows: pa.Table, studies: pa.Table | None) -> pa.Table:
    """Return one row (STUDY_ROW_SCHEMA) per study of `rows` (QA_SCHEMA, whole studies).

    Args:
        studies: STUDY_SCHEMA rows that cover the studies of `rows`. Without them (the authors' CSV) findings and
            impression are null, and labels come from the questions.

    Raises:
        InputError: a study of `rows` is not in `studies`.
    """
    rows = rows.combine_chunks()
    ids = rows["study_id"].to_numpy()
    starts = _first_rows(ids)
    offsets = pa.array(np.concatenate([starts, [len(ids)]]).astype(np.int32))
    first = rows.take(pa.array(starts))
    fields = [rows[name].combine_chunks() for name in _COPIED]
    fields.append(has_flag(rows["provenance"].combine_chunks(), LABEL_CONFLICT))
    questions = pa.StructArray.from_arrays(fields, fields=list(QUESTIONS_TYPE.value_type))
    columns = {name: first[name] for name in ("subject_id", "study_id", "split", "indication", "images", "views")}
    columns["questions"] = pa.ListArray.from_arrays(offsets, questions)
    if studies is None:
        columns["findings"] = columns["impression"] = pa.nulls(len(first), pa.string())
        columns["labels"] = _collect_labels(rows, starts)
    else:
        found = pc.index_in(first["study_id"], studies["study_id"].combine_chunks())
        if found.null_count:
            missing = first["study_id"].filter(pc.is_null(found))[0]
            raise InputError(f"study {missing} is not in the studies table. Build the release again")
        columns.update({name: studies[name].take(found) for name in ("findings", "impression", "labels")})
    return pa.table([columns[name] for name in STUDY_ROW_SCHEMA.names], schema=STUDY_ROW_SCHEMA)


def _first_rows(ids: np.ndarray) -> np.ndarray:
    """The first position of each run of equal `ids`."""
    return np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1))


def _collect_labels(rows: pa.Table, starts: np.ndarray) -> pa.StructArray:
    study = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
    category = pc.index_in(rows["category"], pa.array(CHEXPERT_LABELS))
    names = {name: value for value, name in LABEL_VALUES.items() if value is not None}
    value = pc.index_in(rows["label_value"], pa.array(list(names)))
    stated = pc.and_(pc.is_valid(category), pc.is_valid(value)).to_numpy()
    matrix = np.full((len(starts), len(CHEXPERT_LABELS)), 2, np.int8)
    codes = np.array(list(names.values()), np.int8)
    matrix[study[stated], category.filter(stated).to_numpy()] = codes[value.filter(stated).to_numpy()]
    arrays = [pa.array(column, pa.int8(), mask=column == 2) for column in matrix.T]
    return pa.StructArray.from_arrays(arrays, fields=list(LABELS_TYPE))
