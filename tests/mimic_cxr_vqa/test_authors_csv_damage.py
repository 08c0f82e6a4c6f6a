"""The authors' CSV files with wrong values: each is an error that names the file, the row and the remedy."""

from pathlib import Path

import pytest
from authors_files import CANONICAL, HEADER, read, save, write_row
from hypothesis import given
from hypothesis import strategies as st

from medvqa_core import csv_files
from medvqa_core.errors import InputError
from medvqa_core.files import join_under
from mimic_cxr_vqa.authors_csv import COLUMNS, read_authors_csv

# --- wrong values: (column, value, what the message says)

PATHS_OUT = [
    "../x.jpg", "a/../x.jpg", "a/..", "..", "/etc/passwd", "a.jpg,/etc/passwd", "a.jpg, ../x.jpg", "a,b/../../x.jpg",
    "a.jpg,..", "..,a.jpg", "..\\x.jpg", "a\\b.jpg", "//x.jpg", " /x.jpg", ".. ", "a/.. ", "\u00a0/etc/passwd",
    "\u2003../x.jpg", "\u00a0..\u00a0", "a.jpg,\u3000/x", "\x0b/x", "\n../x", "a/./../../x", "./..",
]  # fmt: skip
WRONG = [
    *[("image_path", path, "leaves its root") for path in PATHS_OUT],
    *[("image_path", path, "has an empty path") for path in [",", "a.jpg,", ",a.jpg", "a.jpg, ,b.jpg"]],
    ("image_path", "a\0.jpg", "'image_path' .*NUL"),
    ("patient_id", "90000001", "p10000032"),
    ("patient_id", "s90000001", "p10000032"),
    ("patient_id", "p", "p10000032"),
    ("patient_id", "p9000000x", "p10000032"),
    ("patient_id", "p-1", "p10000032"),
    ("patient_id", "p1.0", "p10000032"),
    ("patient_id", "p٣٤", "p10000032"),
    ("patient_id", "p" + "9" * 25, "p10000032"),
    ("patient_id", "p090000001", "p10000032"),
    ("patient_id", "", "patient_id is empty"),
    ("study_id", "p95000001", "s50414267"),
    ("study_id", "", "study_id is empty"),
    ("question", "", "question is empty"),
    ("question_label", "", "question_label is empty"),
    ("question_label", "edema", "question_label .* Atelectasis, .*heart"),
    ("question_value", "2.0", "question_value .* 1.0, 0.0, -1.0 and empty"),
    ("question_value", "positive", "question_value is unknown"),
    ("view_position", "PA,LL", "view_position .*image_path"),
    ("view_position", ",", "view_position .*image_path"),
]


PIECES = ["..", ".", "/", ",", " ", "a", "b.jpg", "\\", "\u00a0", "\t", "\n", "\0", "...", '"']


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_a_path_that_is_read_stays_below_any_root(tmp_path_factory, text):
    path = write_row(tmp_path_factory.mktemp("csv") / "a.csv", image_path=text, view_position="," * text.count(","))
    try:
        images = read(path)[1]["images"]
    except InputError:
        return
    for image in images:
        if Path(image).parts:  # "." is the root itself
            join_under(Path("/nowhere/root"), image, "row 3")


@pytest.mark.parametrize(("column", "value", "message"), WRONG, ids=[f"{c}={v!r}" for c, v, _ in WRONG])
def test_a_wrong_value_is_an_error_that_names_its_row(tmp_path, column, value, message):
    with pytest.raises(InputError, match=rf"a\.csv, row 3: .*{message}"):
        read(write_row(tmp_path / "a.csv", **{column: value}))


def test_views_without_images_and_images_without_all_views_are_errors(tmp_path):
    for cells in ({"image_path": ""}, {"image_path": "a.jpg,b.jpg", "view_position": ""}):
        with pytest.raises(InputError, match="row 3: .*image_path"):
            read(write_row(tmp_path / "a.csv", **cells))


@pytest.mark.parametrize("column", COLUMNS[1:])
def test_a_missing_column_is_an_error(tmp_path, column):
    with pytest.raises(InputError, match=rf"a\.csv: no column '{column}'"):
        read(save(tmp_path / "a.csv", CANONICAL.replace(column, "other", 1)))


def test_rows_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 1024)
    lines = [line.format(n) for n in range(200) for line in ["{},p1,s1,q,a,Edema,1.0,,a.jpg,PA\n"]]
    assert len(list(read_authors_csv(save(tmp_path / "a.csv", HEADER + "".join(lines)), "train"))) > 3
    lines[150] = "150,p1,s1,q,a,Oedema,1.0,,a.jpg,PA\n"
    with pytest.raises(InputError, match="row 152: 'Oedema': question_label"):
        read(save(tmp_path / "a.csv", HEADER + "".join(lines)))
