"""Tables 1 and 2, Figure 1 and the open/closed rule: hand-counted rows, any order and batching, and bad rows."""

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medvqa_core.errors import InputError
from mimic_cxr_vqa.answer_types import answer_type, answer_types
from mimic_cxr_vqa.generation.question_writer import count_labels
from mimic_cxr_vqa.schema import CATEGORIES, CHEXPERT_LABELS, QA_SCHEMA, SPLITS, STUDY_SCHEMA
from mimic_cxr_vqa.statistics import (
    VALUE_NAMES,
    SplitCounts,
    format_tables,
    plot_distribution,
    summarise,
)

# subject, study, split, category, label value, answer type, images
ROWS = [
    (1, 11, "train", "Edema", "positive", "open", ["a.jpg", "b.jpg"]),
    (1, 11, "train", "Edema", "positive", "closed", ["a.jpg", "b.jpg"]),
    (1, 11, "train", "Heart", "positive", "open", ["a.jpg", "b.jpg"]),
    (1, 12, "train", "Fracture", "not_mentioned", "open", ["c.jpg"]),
    (2, 21, "train", "Edema", "negative", "open", []),
    (3, 31, "test", "Pneumonia", "uncertain", "closed", ["d.jpg", "e.jpg", "f.jpg"]),
    (3, 31, "test", "Pneumonia", "uncertain", "open", ["d.jpg", "e.jpg", "f.jpg"]),
]
LABEL_COUNTS = {
    "Edema": {"positive": 1, "negative": 2, "uncertain": 0, "not_mentioned": 1_000_000},
    "Pneumonia": {"positive": 4, "negative": 0, "uncertain": 5, "not_mentioned": 6},
}


def qa_table(rows=ROWS) -> pa.Table:
    columns = ("subject_id", "study_id", "split", "category", "label_value", "answer_type", "images")
    dicts = [dict(zip(columns, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(dicts, schema=QA_SCHEMA)


def test_table_1_counts_distinct_images_studies_patients_and_rows_per_split():
    splits = summarise([qa_table()]).splits
    assert splits["train"] == SplitCounts(images=3, studies=3, patients=2, qa_pairs=5, open=4, closed=1)
    assert splits["validate"] == SplitCounts(images=0, studies=0, patients=0, qa_pairs=0, open=0, closed=0)
    assert splits["test"] == SplitCounts(images=3, studies=1, patients=1, qa_pairs=2, open=1, closed=1)
    assert splits["all"] == SplitCounts(images=6, studies=4, patients=3, qa_pairs=7, open=5, closed=2)


def test_what_two_splits_share_is_counted_once_in_all():
    shared = qa_table([(1, 11, split, "Edema", "positive", "open", ["a.jpg"]) for split in SPLITS])
    splits = summarise([shared]).splits
    assert splits["all"] == SplitCounts(images=1, studies=1, patients=1, qa_pairs=3, open=3, closed=0)
    assert splits["test"].images == splits["train"].images == 1


def test_table_2_and_figure_1_count_questions_by_value_and_category():
    stats = summarise([qa_table()], LABEL_COUNTS)
    assert stats.questions == {"positive": 3, "negative": 1, "uncertain": 2, "not_mentioned": 1}
    assert stats.labels == {"positive": 5, "negative": 2, "uncertain": 5, "not_mentioned": 1_000_006}
    assert set(stats.distribution) == set(CATEGORIES)
    assert stats.distribution["Edema"] == {"positive": 2, "negative": 1, "uncertain": 0, "not_mentioned": 0}
    assert stats.distribution["Atelectasis"] == dict.fromkeys(VALUE_NAMES, 0)


row = st.tuples(
    st.integers(1, 3),
    st.integers(1, 5),
    st.sampled_from(SPLITS),
    st.sampled_from(CATEGORIES),
    st.sampled_from(VALUE_NAMES),
    st.sampled_from(["open", "closed"]),
    st.lists(st.sampled_from("abcde"), max_size=3),
)


@given(st.lists(row, min_size=1, max_size=30), st.integers(1, 7), st.randoms(use_true_random=False))
def test_order_and_batching_change_nothing(rows, size, random):
    stats = summarise([qa_table(rows)])
    random.shuffle(rows)
    assert summarise(qa_table(rows).to_batches(max_chunksize=size)) == stats
    assert sum(sum(counts.values()) for counts in stats.distribution.values()) == len(rows)
    for split in SPLITS:
        mine = [row for row in rows if row[2] == split]
        assert stats.splits[split].images == len({path for row in mine for path in row[6]})
        assert stats.splits[split].patients == len({row[0] for row in mine})


def test_nothing_at_all_counts_zero():
    stats = summarise([])
    assert stats == summarise([qa_table([])])
    assert stats.splits["all"].qa_pairs == 0 and stats.labels is None


@pytest.mark.parametrize(
    ("place", "value", "name"),
    [(2, "val", "split"), (3, "Hernia", "category"), (4, "1.0", "label_value"), (5, None, "answer_type")],
)
def test_a_value_outside_the_schema_is_named(place, value, name):
    bad = list(ROWS[0])
    bad[place] = value
    with pytest.raises(InputError, match=f"QA rows have {name} {value!r}"):
        summarise([qa_table(), qa_table([tuple(bad)])])


def test_missing_columns_are_named():
    with pytest.raises(InputError, match="columns answer_type, images"):
        summarise([qa_table().drop_columns(["images", "answer_type"])])


@pytest.mark.parametrize("counts", [{"Heart": {"positive": 1}}, {"Edema": {"1.0": 1}}])
def test_label_counts_of_something_else_are_refused(counts):
    with pytest.raises(InputError, match="the 14 CheXpert labels"):
        summarise([qa_table()], counts)


def studies(*labels: dict) -> pa.Table:
    return pa.Table.from_pylist([{"labels": label} for label in labels], schema=STUDY_SCHEMA)


def test_labels_are_counted_over_all_studies():
    counts = count_labels(studies({"Edema": 1, "Fracture": -1}, {"Edema": 1}, {"Edema": 0}, {}))
    assert set(counts) == set(CHEXPERT_LABELS)
    assert counts["Edema"] == {"positive": 2, "negative": 1, "uncertain": 0, "not_mentioned": 1}
    assert counts["Fracture"] == {"positive": 0, "negative": 0, "uncertain": 1, "not_mentioned": 3}
    assert summarise([], counts).labels == {"positive": 2, "negative": 1, "uncertain": 1, "not_mentioned": 4 * 14 - 4}


def test_a_label_outside_the_schema_is_named():
    with pytest.raises(InputError, match="label 'Edema' is 2"):
        count_labels(studies({"Edema": 2}))


def test_json_holds_every_number():
    stats = summarise([qa_table()], LABEL_COUNTS)
    read = json.loads(json.dumps(stats.to_json()))
    assert read["table_1"]["train"] == {
        "images": 3,
        "studies": 3,
        "patients": 2,
        "qa_pairs": 5,
        "open": 4,
        "closed": 1,
    }
    assert read["table_2"]["not_mentioned"] == {"labels": 1_000_006, "questions": 1}
    assert read["figure_1"]["Pneumonia"]["uncertain"] == 2
    assert summarise([qa_table()]).to_json()["table_2"]["positive"] == {"labels": None, "questions": 3}


def test_tables_are_aligned_and_hold_the_numbers():
    first, second = format_tables(summarise([qa_table()], LABEL_COUNTS)).split("\n\n")[1::2]
    cells = [re.split(r"\s{2,}", line.strip()) for line in first.splitlines()]
    assert cells[0] == ["Dataset", "Train", "Val", "Test", "All"]
    assert cells[2:] == [
        ["Images", "3", "0", "3", "6"],
        ["Studies", "3", "0", "1", "4"],
        ["Patients", "2", "0", "1", "3"],
        ["QA Pairs", "5", "0", "2", "7"],
        ["-Open", "4", "0", "1", "5"],
        ["-Closed", "1", "0", "1", "2"],
    ]
    assert len({len(line) for line in first.splitlines()}) == 1
    cells = [re.split(r"\s{2,}", line.strip()) for line in second.splitlines()]
    assert cells[0] == ["Value", "CheXpert labels", "Meaning", "Generated questions"]
    assert cells[2:] == [
        ["1.0", "5", "Positive Finding", "3"],
        ["0.0", "2", "Negative Finding", "1"],
        ["NaN", "1,000,006", "Not Mentioned", "1"],
        ["-1.0", "5", "Uncertain Finding", "2"],
    ]


def test_tables_without_label_counts_say_so():
    assert re.search(r"1\.0 +- +Positive Finding +3\n", format_tables(summarise([qa_table()])))


@pytest.mark.parametrize("rows", [ROWS, []])
def test_figure_1_is_a_picture_with_a_bar_for_what_is_there(tmp_path, rows):
    path = tmp_path / "figures" / "figure_1.png"
    plot_distribution(summarise([qa_table(rows)]), path)
    with Image.open(path) as image:
        assert image.format == "PNG" and image.width > 1000
        colours = {colour[:3] for _, colour in image.getcolors(2**20)}
        _, longest = max((n, y) for y, n in enumerate(_orange_per_row(image)))
    assert {(0xD5, 0x5E, 0x00), (0x00, 0x72, 0xB2), (0xF0, 0xE4, 0x42), (0xBB, 0xBB, 0xBB)} <= colours
    assert (longest > image.height * 0.1) == bool(rows)  # with no rows the only orange is the legend's, on top
    assert [found.name for found in path.parent.iterdir()] == ["figure_1.png"]


def _orange_per_row(image: Image.Image) -> list[int]:
    pixels = image.convert("RGB").load()
    return [sum(pixels[x, y] == (0xD5, 0x5E, 0x00) for x in range(image.width)) for y in range(image.height)]


@pytest.mark.parametrize(
    "answer", ["Yes", "no.", " Yes! ", "Normal", "left-sided", "(none)", "- mild -", "yes/no", "3", "é"]
)
def test_one_word_is_closed(answer):
    assert answer_type(answer) == "closed"
    assert answer_types(pa.array([answer])).to_pylist() == ["closed"]


@pytest.mark.parametrize(
    "answer", ["", " ", "...", "No effusion", "Yes, mild.", "yes / no", "a\tb", "a\x0bb", "a\x1cb", "a\u2003b"]
)
def test_everything_else_is_open(answer):
    assert answer_type(answer) == "open"
    assert answer_types(pa.array([answer])).to_pylist() == ["open"]


words = st.text(
    st.sampled_from("aZ7.,-_ \t\n\x0b\x1f\x00\x7f\xa0\u2003éß²心'") | st.characters(exclude_categories=["Cs"]),
    max_size=6,
)


@given(st.lists(st.none() | words, max_size=12), st.integers(1, 5), st.integers(0, 3))
def test_the_column_rule_equals_the_rule_for_one_answer(answers, size, start):
    expected = [None if answer is None else answer_type(answer) for answer in answers]
    column = pa.array(answers, pa.string())
    assert answer_types(column).to_pylist() == expected
    assert answer_types(column[start:]).to_pylist() == expected[start:]
    chunks = [column[at : at + size] for at in range(0, len(column), size)]
    chunked = answer_types(pa.chunked_array(chunks, pa.string()))
    assert isinstance(chunked, pa.ChunkedArray) and chunked.to_pylist() == expected
