"""The files of the challenge CXR-ORACLE: found by name, read without answers and without columns that are missing."""

import logging
from pathlib import Path

import pytest
from authors_files import CANONICAL, read, save
from challenge_files import drop_columns
from datasets import load_dataset

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from mimic_cxr_vqa.authors_csv import COLUMNS
from mimic_cxr_vqa.release import find_csv_files, open_release

PATHS = (
    CANONICAL.replace("p90/", "p90/p90000001/s95000001/")
    .replace(
        "p90000002,s95000002,Is Pneumonia observed?,error,Pneumonia,-1.0,,,",
        "p90000002,s95000002,Is Pneumonia observed?,,Pneumonia,-1.0,,p90/p90000002/s95000002/c.jpg,AP",
    )
    .replace("0.0,,,", "0.0,,p90/p90000002/s95000002/c.jpg,AP")
)


def challenge(folder: Path, *without: str, split: str = "Test", text: str = PATHS) -> Path:
    return drop_columns(save(folder / f"CXR_ORACLE_2025_{split}.csv", text), without)


def test_the_folder_and_the_one_above_it_are_found(tmp_path):
    folder = tmp_path / "CXR_ORACLE_2025"
    folder.mkdir()
    for split in ("Train", "Validation", "TEST"):
        save(folder / f"CXR_ORACLE_2025_{split}.csv", CANONICAL)
    save(folder / "CXR_ORACLE_2025_Notes.csv", "a\n")
    assert list(find_csv_files(folder)) == ["train", "validate", "test"]
    for place in (folder, tmp_path):
        release = open_release(place)
        assert release.kind == "csv" and release.governance is Governance.CREDENTIALED
        assert release.files["validate"] == [folder / "CXR_ORACLE_2025_Validation.csv"]


def test_rows_without_answers_are_loaded_as_such(tmp_path):
    challenge(tmp_path, "answer")
    rows = load_dataset("mimic_cxr_vqa", data_dir=str(tmp_path), split="test", cache_dir=str(tmp_path / "cache"))
    assert rows["answer"] == [None] * 5 and rows["answer_type"] == [None] * 5
    questions = load_dataset("mimic_cxr_vqa", "questions", data_dir=str(tmp_path), split="test", streaming=True)
    assert [row["qa_id"] for row in questions] == rows["qa_id"]
    (study, _) = load_dataset("mimic_cxr_vqa", "studies", data_dir=str(tmp_path), split="test", streaming=True)
    assert [one["answer"] for one in study["questions"]] == [None] * 3


def test_an_empty_answer_is_no_failed_reply(tmp_path):
    rows = read(challenge(tmp_path))
    assert rows[3]["answer"] is None and rows[3]["provenance"]["lint"] == []
    assert rows[4]["answer"] == "Possibly."
    authors = read(save(tmp_path / "test.csv", PATHS))
    assert authors[3]["answer"] == "" and authors[3]["provenance"]["lint"] == ["failed_reply"]


@pytest.mark.parametrize(
    ("missing", "changed"),
    [
        ("index", {}),
        ("patient_id", {}),
        ("study_id", {}),
        ("question_label", {}),
        ("question_value", {"label_value": None}),
        ("indication", {"indication": None}),
        ("image_path", {"images": [], "views": []}),
    ],
)
def test_a_missing_column_follows_from_the_others_or_is_null(tmp_path, missing, changed, caplog):
    without_views = ("view_position",) if missing == "image_path" else ()
    whole = read(save(tmp_path / "CXR_ORACLE_2025_Train.csv", PATHS))
    with caplog.at_level(logging.WARNING):
        rows = read(challenge(tmp_path, missing, *without_views))
    assert rows[:4] == [{**row, **changed} for row in whole[:4]]  # the last is not among the 90
    assert len(rows) == 5
    assert (missing in caplog.text) == (missing != "index")


def test_views_that_are_not_stated_are_null(tmp_path):
    assert [row["views"] for row in read(challenge(tmp_path, "view_position"))] == [
        [None], [None, None], [None], [None], [None]
    ]  # fmt: skip


def test_a_question_that_is_not_among_the_90_is_kept(tmp_path):
    text = PATHS.replace("Is Edema present?", "What is above the spleen?")
    row = read(challenge(tmp_path, "question_label", "question_value", text=text))[4]
    assert row["category"] == "Other" and row["qa_id"].startswith("s95000002-other-x")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (("question",), "no column question"),
        (("study_id", "image_path"), "no column study_id"),
        (("patient_id", "image_path"), "no column patient_id"),
    ],
)
def test_what_does_not_follow_is_an_error(tmp_path, missing, message):
    with pytest.raises(InputError, match=message):
        read(challenge(tmp_path, *missing))


def test_a_path_without_the_ids_is_an_error(tmp_path):
    with pytest.raises(InputError, match="row 2: .*patient_id"):
        read(challenge(tmp_path, "patient_id", text=CANONICAL))


def test_a_byte_order_mark_is_ignored_and_another_encoding_is_an_error(tmp_path):
    assert set(COLUMNS) > {"question"}
    plain = read(challenge(tmp_path))
    (tmp_path / "CXR_ORACLE_2025_Test.csv").write_bytes(b"\xef\xbb\xbf" + PATHS.encode())
    assert read(tmp_path / "CXR_ORACLE_2025_Test.csv") == plain
    (tmp_path / "CXR_ORACLE_2025_Test.csv").write_bytes(PATHS.replace("cough", "œdème").encode("cp1252"))
    with pytest.raises(InputError, match="UTF-8"):
        read(tmp_path / "CXR_ORACLE_2025_Test.csv")
