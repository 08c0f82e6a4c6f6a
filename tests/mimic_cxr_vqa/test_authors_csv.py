"""The authors' CSV layout: equal values and equal bytes there and back, and an error for every value that is wrong."""

import csv
import hashlib

import pytest
from authors_files import CANONICAL, HEADER, read, save, write_row
from hypothesis import example, given
from hypothesis import strategies as st
from rows import qa_batch, qa_row

from medvqa_core.errors import InputError
from mimic_cxr_vqa.answer_types import answer_type
from mimic_cxr_vqa.authors_csv import FAILED_REPLY, ReplyFilter, read_authors_csv, write_authors_csv
from mimic_cxr_vqa.question_list import QUESTION_TEXTS, QUESTIONS, SPELLINGS
from mimic_cxr_vqa.schema import CATEGORIES, QA_SCHEMA, category_slug

# --- reading


@pytest.mark.parametrize("name", ["train.csv", "train.csv.gz"])
def test_rows_are_read_as_the_layout_means_them(tmp_path, name):
    batches = list(read_authors_csv(save(tmp_path / name, CANONICAL), "validate"))
    assert all(batch.schema.equals(QA_SCHEMA) for batch in batches)
    edema, heart, fracture, failed, own = (row for batch in batches for row in batch.to_pylist())
    assert (edema["subject_id"], edema["study_id"], edema["split"]) == (90_000_001, 95_000_001, "validate")
    assert (edema["qa_id"], edema["category"], edema["label_value"]) == ("s95000001-edema-1", "Edema", "positive")
    assert (edema["answer"], edema["answer_type"], edema["indication"]) == ("Yes", "closed", "cough")
    assert (edema["images"], edema["views"]) == (["p90/a.jpg"], ["PA"])
    assert (heart["qa_id"], heart["category"], heart["answer"]) == ("s95000001-heart-1", "Heart", 'No, "large".')
    assert (heart["images"], heart["views"], heart["indication"]) == (["p90/a.jpg", "p90/b.jpg"], ["PA", None], None)
    assert (fracture["label_value"], fracture["answer"]) == ("not_mentioned", "None\nseen.")
    assert (fracture["images"], fracture["views"]) == (["p90/a.jpg"], [None])
    assert (failed["label_value"], failed["images"], failed["views"]) == ("uncertain", [], [])
    assert own["label_value"] == "negative"
    assert {row["provenance"]["engine"] for row in (edema, failed)} == {"authors"}


def test_an_unreadable_reply_is_flagged_and_nothing_else_is(tmp_path):
    failures = ["error", "", " ", "Error", "error: Connection refused", "ERROR : 503\nno body", "Error:"]
    answers = [*failures, "An error of technique.", "none", "errors of projection are seen", "Error-prone view"]
    path = save(tmp_path / "train.csv", HEADER)
    with open(path, "a") as file:
        for n, answer in enumerate(answers):
            file.write(f'{n},p90000001,s95000001,Is Edema observed?,"{answer}",Edema,1.0,,,\n')
    (batch,) = read_authors_csv(path, "train")
    assert [row["provenance"]["lint"] for row in batch.to_pylist()] == [[FAILED_REPLY]] * 7 + [[]] * 4
    replies = ReplyFilter()
    (kept,) = replies.keep([batch])
    assert kept.equals(batch.slice(7)) and replies.left_out == 7
    assert batch["answer"].to_pylist() == answers


def test_a_question_that_is_not_among_the_90_has_a_stable_id(tmp_path):
    rows = [*read(save(tmp_path / "a.csv", CANONICAL)), *read(write_row(tmp_path / "b.csv", question="Why?"))]
    ids = [row["qa_id"] for row in rows if "-x" in row["qa_id"]]
    assert ids == ["s95000002-edema-x842230c4", "s95000001-edema-x5d8a995a"]


def test_a_question_of_another_category_is_not_taken_for_that_category_s(tmp_path):
    row = read(write_row(tmp_path / "a.csv", question="Is Pneumonia observed?"))[1]
    assert row["qa_id"].startswith("s95000001-edema-x")


@pytest.mark.parametrize(("spelling", "value"), [("1", "positive"), ("0", "negative"), ("-1", "uncertain")])
def test_values_written_as_integers_are_read(tmp_path, spelling, value):
    assert read(write_row(tmp_path / "a.csv", question_value=spelling))[1]["label_value"] == value


@pytest.mark.parametrize("nothing", ["", "nan", "NaN"])
def test_no_value_is_not_mentioned(tmp_path, nothing):
    assert read(write_row(tmp_path / "a.csv", question_value=nothing))[1]["label_value"] == "not_mentioned"


def test_blanks_around_paths_and_views_do_not_count(tmp_path):
    row = read(write_row(tmp_path / "a.csv", image_path="a.jpg, b c.jpg ", view_position=" PA , LL"))[1]
    assert (row["images"], row["views"]) == (["a.jpg", "b c.jpg"], ["PA", "LL"])


# --- there and back


def test_a_canonical_file_comes_back_byte_for_byte(tmp_path):
    source = save(tmp_path / "a.csv", CANONICAL)
    assert write_authors_csv(tmp_path / "b.csv", read_authors_csv(source, "train")) == 5
    assert (tmp_path / "b.csv").read_bytes() == source.read_bytes()


TEXTS = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0") | st.sampled_from(',"\n\r\t é'), max_size=15
)
VIEWS = st.sampled_from(["PA", "AP", "LATERAL", "XTABLE LATERAL", None])
PATHS = st.from_regex(r"p9/[a-z0-9é]{1,4}( [a-z])?\.jpg", fullmatch=True)


@st.composite
def qa_rows(draw) -> dict:
    category = draw(st.sampled_from(CATEGORIES))
    question = draw(st.sampled_from(QUESTIONS[category]) | TEXTS.filter(lambda t: t not in ("", "nan", "NaN")))
    answer, indication = draw(TEXTS), draw(st.none() | TEXTS)
    images = draw(st.lists(st.tuples(PATHS, VIEWS), max_size=3))
    if question in QUESTIONS[category]:
        number = str(QUESTIONS[category].index(question) + 1)
    else:
        number = "x" + hashlib.sha256(question.encode()).hexdigest()[:8]
    return qa_row(
        draw(st.integers(0, 9)),
        category=category,
        label_value=draw(st.sampled_from(["positive", "negative", "uncertain", "not_mentioned"])),
        question=question,
        answer="" if answer in ("nan", "NaN") else answer,
        indication=None if indication in ("", "nan", "NaN") else indication,
        images=[path for path, _ in images],
        views=[view for _, view in images],
        qa_id=f"{category_slug(category)}-{number}",
    )


@given(st.lists(qa_rows(), max_size=5))
@example([qa_row(answer="a\rb", indication="c\r\nd", qa_id="edema-1")])
@example([qa_row(images=["a.jpg"], views=[None], qa_id="edema-1")])
def test_values_come_back_equal_and_the_second_file_is_the_first(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("csv")
    assert write_authors_csv(folder / "a.csv", [qa_batch(*rows)]) == len(rows)
    back = read(folder / "a.csv")
    for row, found in zip(rows, back, strict=True):
        expected = {**row, "qa_id": f"s{row['study_id']}-{row['qa_id']}", "answer_type": answer_type(row["answer"])}
        assert {k: v for k, v in found.items() if k != "provenance"} == {
            k: v for k, v in expected.items() if k != "provenance"
        }
    write_authors_csv(folder / "b.csv", read_authors_csv(folder / "a.csv", "train"))
    assert (folder / "b.csv").read_bytes() == (folder / "a.csv").read_bytes()


def test_index_runs_on_over_batches(tmp_path):
    batches = [qa_batch(qa_row(0), qa_row(1)), qa_batch(), qa_batch(qa_row(2))]
    assert write_authors_csv(tmp_path / "a.csv", iter(batches)) == 3
    with open(tmp_path / "a.csv", newline="") as file:
        assert [row["index"] for row in csv.DictReader(file)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "wrong",
    [{"images": ["a,b.jpg"]}, {"views": ["PA,LL"]}, {"images": [""]}, {"images": [" a.jpg"]}, {"views": ["PA "]}],
)
def test_what_the_layout_cannot_express_is_refused_and_leaves_no_file(tmp_path, wrong):
    with pytest.raises(InputError, match="s95000001-edema-1: .*the CSV layout"):
        write_authors_csv(tmp_path / "a.csv", [qa_batch(qa_row(1, "edema-9")), qa_batch(qa_row(**wrong))])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("column", ["question", "answer", "indication"])
def test_a_nul_byte_is_neither_written_nor_read(tmp_path, column):
    with pytest.raises(InputError, match=f"s95000001-edema-1: {column} has a NUL byte"):
        write_authors_csv(tmp_path / "a.csv", [qa_batch(qa_row(**{column: "a\0b"}))])
    assert list(tmp_path.iterdir()) == []
    path = write_row(tmp_path / "a.csv", **{column: "a\0b"})
    with pytest.raises(InputError, match=f"row 3: column '{column}'.*NUL"):
        read(path)


def test_credentialed_rows_are_the_owner_s_alone(tmp_path):
    write_authors_csv(tmp_path / "a.csv", [qa_batch(qa_row())], private=True)
    assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("label", "question", "name"),
    [
        ("Edema", "is edema observed?", "edema-1"),
        ("Edema", "  Is  EDEMA observed? ", "edema-1"),
        ("No Finding", "Is there any findings in the image?", "no_finding-2"),
        ("No Finding", "is there any findings in the image?", "no_finding-2"),
        ("Support Devices", "What Types of Support Devices are present?", "support_devices-2"),
    ],
)
def test_questions_in_other_case_and_spelling_find_their_number(tmp_path, label, question, name):
    (row,) = read(save(tmp_path / "train.csv", f"{HEADER}0,p90000001,s95000001,{question},Yes,{label},1.0,,,\n"))
    assert (row["qa_id"], row["question"]) == (f"s95000001-{name}", question)


@pytest.mark.parametrize(
    ("label", "question"), [("Edema", "Is Fracture observed?"), ("Fracture", "is edema observed?")]
)
def test_a_question_of_another_category_or_none_has_a_hash(tmp_path, label, question):
    (row,) = read(save(tmp_path / "train.csv", f"{HEADER}0,p90000001,s95000001,{question},Yes,{label},1.0,,,\n"))
    assert row["qa_id"].startswith(f"s95000001-{label.lower()}-x")


def test_no_two_questions_are_alike_but_for_case():
    texts = [text.lower() for text in QUESTION_TEXTS.to_pylist()]
    assert len(set(texts)) == len(texts) and set(SPELLINGS.values()) <= set(texts)
    assert not set(SPELLINGS) & set(texts)
