"""Damaged PhysioNet trees: each raises an error that names the file with the row or the member."""

import pytest
from physionet_tree import FIRST, IMAGES, REPORTS, SECOND, replace_in, write_tree, write_zip

from medvqa_core.errors import ConfigError, InputError
from mimic_cxr_vqa.sources.physionet import read_studies, report_path
from mimic_cxr_vqa.sources.registry import SourceOptions

METADATA, SPLIT, LABELS = (f"mimic-cxr-2.0.0-{name}.csv.gz" for name in ("metadata", "split", "chexpert"))
LONG_REPORTS = {study: text + "FINDINGS: " + " ".join(map(str, range(500))) for study, text in REPORTS.items()}


# --- reports


@pytest.fixture
def tree(tmp_path):
    return write_tree(tmp_path, reports={})


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, -100, -23, -1])
def test_a_truncated_zip(tree, kept):
    path = write_zip(tree / "mimic-cxr-reports.zip", LONG_REPORTS)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if kept == 0.5 else kept])
    with pytest.raises(InputError, match=r"mimic-cxr-reports\.zip"):
        read_studies(tree)


@pytest.mark.parametrize("position", [0.2, 0.4, 0.45, 0.7])
def test_a_damaged_member(tree, position):
    path = write_zip(tree / "mimic-cxr-reports.zip", LONG_REPORTS)
    data = bytearray(path.read_bytes())
    at = int(position * len(data))
    data[at : at + 4] = bytes(255 - byte for byte in data[at : at + 4])
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"mimic-cxr-reports\.zip"):
        read_studies(tree)


def test_a_zip_with_a_password(tree):
    path = write_zip(tree / "mimic-cxr-reports.zip", REPORTS)
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # bit 0 of the flags: encrypted
        at = -1
        while (at := data.find(signature, at + 1)) >= 0:
            data[at + offset] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"mimic-cxr-reports\.zip .*password"):
        read_studies(tree)


@pytest.mark.parametrize("in_zip", [False, True])
def test_a_report_in_another_encoding(tree, in_zip):
    reports = {**REPORTS, FIRST: "FINDINGS: Opacité à droite.".encode("latin-1")}
    if in_zip:
        write_zip(tree / "mimic-cxr-reports.zip", reports)
    else:
        write_tree(tree, reports=reports)
    with pytest.raises(InputError, match=r"s95000001\.txt: byte 16 .*--encoding latin-1"):
        read_studies(tree)
    assert read_studies(tree, SourceOptions(encoding="latin-1")).studies["findings"][0].as_py() == "Opacité à droite."
    with pytest.raises(ConfigError, match="'latin-one'"):
        read_studies(tree, SourceOptions(encoding="latin-one"))


def test_a_report_with_a_nul_byte_or_in_place_of_a_file(tmp_path):
    tree = write_tree(tmp_path / "tree", reports={**REPORTS, FIRST: "FINDINGS: Clear.\0"})
    with pytest.raises(InputError, match=r"s95000001\.txt has a NUL byte"):
        read_studies(tree)
    path = tree / report_path(90_000_001, FIRST)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=r"s95000001\.txt .*directory"):
        read_studies(tree)


# --- tables

EXTRA = ("d5", 90_000_001, 95_000_003, "AP", "validate")  # of a patient in another split
TABLES = {  # what is wrong: (arguments of write_tree, (file, old text, new text), expected)
    "label 2": (
        {"labels": {FIRST: {}, SECOND: {"Pleural Other": "2.0"}}},
        None,
        f"{LABELS}, row 3: Pleural Other is '2.0'",
    ),
    "label 0.5": ({"labels": {FIRST: {"Edema": "0.5"}}}, None, f"{LABELS}, row 2: Edema is '0.5'"),
    "label text": ({"labels": {FIRST: {"Edema": "yes"}}}, None, f"{LABELS}: column 'Edema', row 2: .*'yes'"),
    "study twice": ({}, (LABELS, f",{SECOND},", f",{FIRST},"), f"{LABELS}: study {FIRST} occurs 2 times"),
    "no column in metadata": ({}, (METADATA, "study_id", "other"), f"{METADATA}: no column 'study_id'"),
    "no column in split": ({}, (SPLIT, "split", "other"), f"{SPLIT}: no column 'split'"),
    "no column in labels": ({}, (LABELS, "study_id", "other"), f"{LABELS}: no column 'study_id'"),
    "image without split": ({}, (SPLIT, "d3,", "d9,"), f"{SPLIT}: no row for image d3 of {METADATA}"),
    "unknown split": ({}, (SPLIT, "train", "training"), f"{SPLIT}: split 'training' is unknown"),
    "empty split": ({}, (SPLIT, ",train", ","), f"{SPLIT}: split None is unknown"),
    "image twice in metadata": ({}, (METADATA, "d2,", "d1,"), f"{METADATA}: image d1 occurs 2 times"),
    "image twice in split": ({}, (SPLIT, "d2,", "d1,"), f"{SPLIT}: image d1 occurs 2 times"),
    "no image": ({}, (METADATA, "d1,90000001,95000001", ",90000001,95000001"), f"{METADATA}, row 5: dicom_id is empty"),
    "no patient": ({}, (METADATA, "d1,90000001,95000001", "d1,,95000001"), f"{METADATA}, row 5: subject_id is empty"),
    "no study": ({}, (METADATA, "d1,90000001,95000001", "d1,90000001,"), f"{METADATA}, row 5: study_id is empty"),
    "path as image": ({}, (METADATA, "d2,", "../../../x,"), r"row \d+: dicom_id is '../../../x'"),
    "study in two splits": (
        {"images": [*IMAGES, ("d5", 90_000_001, FIRST, "AP", "test")]},
        None,
        f"{SPLIT}: patient 90000001 is in the splits test and train",
    ),
    "patient in two splits": (
        {"images": [*IMAGES, EXTRA], "reports": {**REPORTS, EXTRA[2]: "FINDINGS: Clear."}},
        None,
        "patient 90000001 .*train and validate",
    ),
    "study of two patients": (
        {"images": [*IMAGES, ("d5", 90_000_009, FIRST, "AP", "train")]},
        None,
        f"{METADATA}: study {FIRST} belongs to the patients 90000001 and 90000009",
    ),
}


@pytest.mark.parametrize(("tree", "replaced", "expected"), TABLES.values(), ids=TABLES.keys(), indirect=False)
def test_a_wrong_table(tmp_path, tree, replaced, expected):
    write_tree(tmp_path, **tree)
    if replaced:
        replace_in(tmp_path / replaced[0], *replaced[1:])
    with pytest.raises(InputError, match=expected):
        read_studies(tmp_path)


@pytest.mark.parametrize("table", [METADATA, SPLIT, LABELS])
def test_a_truncated_table(tmp_path, table):
    path = write_tree(tmp_path) / table
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=f"{table}: .*copy"):
        read_studies(tmp_path)


def test_an_empty_label_table(tmp_path):
    found = read_studies(write_tree(tmp_path, labels={}))
    assert found.notes["studies_without_labels"] == len(found.studies)
