"""Rows per question turned into rows per study: nothing lost, doubled or mixed, wherever the batches end."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import FIRST_STUDY, FIRST_SUBJECT, qa_batch, qa_row, study, study_table

from medvqa_core.errors import InputError
from mimic_cxr_vqa.schema import LABEL_CONFLICT, QA_SCHEMA
from mimic_cxr_vqa.study_rows import STUDY_ROW_SCHEMA, group_by_study, whole_studies


def questions_of(sizes: list[int]) -> list[dict]:
    """`sizes[n]` question rows of study n."""
    return [qa_row(n, f"edema-{k}", answer=f"{n}.{k}") for n, size in enumerate(sizes) for k in range(1, size + 1)]


def cut(rows: list[dict], ends: list[int]) -> list[pa.RecordBatch]:
    """`rows` as batches that end at `ends`; empty ones where an end comes twice."""
    bounds = [0, *sorted(min(end, len(rows)) for end in ends), len(rows)]
    return [qa_batch(*rows[start:end]) for start, end in zip(bounds, bounds[1:], strict=False)]


SIZES = st.lists(st.integers(1, 5), max_size=6)
ENDS = st.lists(st.integers(0, 30), max_size=6)


@given(SIZES, ENDS)
def test_studies_are_whole_wherever_batches_end(sizes, ends):
    rows = questions_of(sizes)
    tables = list(whole_studies(cut(rows, ends)))
    assert [row for table in tables for row in table.to_pylist()] == qa_batch(*rows).to_pylist()
    studies = [set(table["study_id"].to_pylist()) for table in tables]
    assert all(studies) and sum(map(len, studies)) == len(sizes), "no table is empty, no study in two tables"


@given(SIZES, ENDS)
def test_grouping_keeps_every_question_in_its_place(sizes, ends):
    tables = [group_by_study(table, None) for table in whole_studies(cut(questions_of(sizes), ends))]
    grouped = pa.concat_tables(tables, promote_options="none").to_pylist() if tables else []
    assert [row["study_id"] for row in grouped] == [FIRST_STUDY + n for n in range(len(sizes))]
    for n, (row, size) in enumerate(zip(grouped, sizes, strict=True)):
        assert [question["answer"] for question in row["questions"]] == [f"{n}.{k}" for k in range(1, size + 1)]
        assert row["images"] == [f"{n}.jpg"] and row["subject_id"] == FIRST_SUBJECT + n


def test_a_study_row_has_everything_of_study_and_questions():
    studies = study_table(
        study(5, {"Edema": 1}),
        study(0, {"Edema": 1, "Fracture": -1, "No Finding": 0}, findings="F", impression="I", indication="other"),
    )
    rows = pa.Table.from_batches([qa_batch(qa_row(images=["a", "b"], views=["PA", None]), qa_row(slug="edema-2"))])
    table = group_by_study(rows, studies)
    assert table.schema.equals(STUDY_ROW_SCHEMA)
    (row,) = table.to_pylist()
    assert (row["findings"], row["impression"], row["indication"]) == ("F", "I", "cough")
    assert {k: v for k, v in row["labels"].items() if v is not None} == {"Edema": 1, "Fracture": -1, "No Finding": 0}
    assert (row["images"], row["views"], row["split"]) == (["a", "b"], ["PA", None], "train")
    fields = ["qa_id", "category", "label_value", "question", "answer", "answer_type", LABEL_CONFLICT]
    assert [list(q) for q in row["questions"]] == [fields] * 2
    assert row["questions"][1]["qa_id"] == f"s{FIRST_STUDY}-edema-2"


def test_labels_come_from_the_questions_where_there_is_no_study_table():
    asked = [
        ("Edema", "positive"),
        ("Edema", "positive"),
        ("Fracture", "negative"),
        ("Pneumonia", "uncertain"),
        ("Pneumothorax", "not_mentioned"),
        ("Heart", "positive"),
    ]
    rows = [qa_row(0, f"x-{n}", category=c, label_value=v) for n, (c, v) in enumerate(asked)]
    rows.append(qa_row(1, "x-9", category="Heart", label_value="positive"))
    first, second = group_by_study(pa.Table.from_batches([qa_batch(*rows)]), None).to_pylist()
    assert {k: v for k, v in first["labels"].items() if v is not None} == {"Edema": 1, "Fracture": 0, "Pneumonia": -1}
    assert set(second["labels"].values()) == {None}
    assert first["findings"] is None and first["impression"] is None


def test_a_study_that_the_table_lacks_is_an_error():
    rows = pa.Table.from_batches([qa_batch(qa_row(0), qa_row(1))])
    with pytest.raises(InputError, match=f"study {FIRST_STUDY + 1} "):
        group_by_study(rows, study_table(study(0)))


@pytest.mark.parametrize("ends", [[], [1], [1, 2], [2]])
def test_rows_of_a_study_that_lie_apart_are_an_error(ends):
    rows = [qa_row(0, "edema-1"), qa_row(1, "edema-1"), qa_row(0, "edema-2")]
    with pytest.raises(InputError, match=f"study {FIRST_STUDY} "):
        list(whole_studies(cut(rows, ends)))


def test_nothing_in_is_nothing_out():
    assert list(whole_studies([])) == [] and list(whole_studies([qa_batch()])) == []
    for studies in (None, study_table()):
        assert len(group_by_study(QA_SCHEMA.empty_table(), studies)) == 0
