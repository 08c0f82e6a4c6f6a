"""The PhysioNet source on damaged trees: each ends in one error that names the file, the row or the member."""

import pytest
from physionet_tree import FIRST, IMAGES, REPORTS, SECOND, replace_in, write_tree, write_zip

from medvqa_core.errors import ConfigError, InputError
from mimic_cxr_vqa.sources.physionet import read_studies, report_path

METADATA, SPLIT, LABELS = (f"mimic-cxr-2.0.0-{name}.csv.gz" for name in ("metadata", "split", "chexpert"))
LONG_REPORTS = {study: text + "FINDINGS: " + " ".join(map(str, range(500))) for study, text in REPORTS.items()}


# --- reports


def test_a_zip_cut_anywhere_is_an_error(tmp_path):
    tree = write_tree(tmp_path, reports={})
    path = write_zip(tree / "mimic-cxr-reports.zip", LONG_REPORTS)
    whole = path.read_bytes()
    for kept in [0, 1, 100, len(whole) // 2, len(whole) - 100, len(whole) - 23, len(whole) - 1]:
        path.write_bytes(whole[:kept])
        with pytest.raises(
            InputError, match=r"mimic-cxr-reports\.zip: the zip is damaged or cut short .*download it again"
        ):
            read_studies(tree)


@pytest.mark.parametrize("position", [0.2, 0.4, 0.45, 0.7])
def test_a_damaged_member_is_an_error(tmp_path, position):
    tree = write_tree(tmp_path, reports={})
    path = write_zip(tree / "mimic-cxr-reports.zip", LONG_REPORTS)
    data = bytearray(path.read_bytes())
    at = int(position * len(data))
    data[at : at + 4] = bytes(255 - byte for byte in data[at : at + 4])
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"mimic-cxr-reports\.zip: the zip is damaged"):
        read_studies(tree)


@pytest.mark.parametrize("in_zip", [False, True])
def test_a_report_in_another_encoding_is_an_error_unless_it_is_named(tmp_path, in_zip):
    reports = {**REPORTS, FIRST: "FINDINGS: Opacité à droite.".encode("latin-1")}
    tree = write_tree(tmp_path / "tree", reports={} if in_zip else reports)
    if in_zip:
        write_zip(tree / "mimic-cxr-reports.zip", reports)
    with pytest.raises(InputError, match=r"s95000001\.txt: byte 16 is not utf-8; convert .*--encoding latin-1"):
        read_studies(tree)
    assert read_studies(tree, encoding="latin-1").studies["findings"][0].as_py() == "Opacité à droite."


def test_a_report_with_a_nul_byte_is_an_error(tmp_path):
    tree = write_tree(tmp_path / "tree", reports={**REPORTS, FIRST: "FINDINGS: Clear.\0"})
    with pytest.raises(InputError, match=r"s95000001\.txt: holds a NUL byte; copy the reports again"):
        read_studies(tree)


def test_an_encoding_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="encoding 'latin-one' is unknown; allowed"):
        read_studies(write_tree(tmp_path), encoding="latin-one")


def test_a_report_that_is_no_file_is_an_error(tmp_path):
    write_tree(tmp_path)
    path = tmp_path / report_path(90_000_001, FIRST)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=r"s95000001\.txt: .*directory"):
        read_studies(tmp_path)


# --- tables


@pytest.mark.parametrize("value", ["2.0", "0.5", "-2"])
def test_an_unknown_label_value_is_an_error(tmp_path, value):
    write_tree(tmp_path, labels={FIRST: {}, SECOND: {"Pleural Other": value}})
    with pytest.raises(InputError, match=rf"{LABELS}, row 3: Pleural Other is {value}.*; allowed are 1.0, 0.0, -1.0"):
        read_studies(tmp_path)


def test_a_label_that_is_no_number_is_an_error(tmp_path):
    write_tree(tmp_path, labels={FIRST: {"Edema": "yes"}})
    with pytest.raises(InputError, match=rf"{LABELS}: column 'Edema', row 2: .*'yes'"):
        read_studies(tmp_path)


def test_a_study_twice_in_the_label_table_is_an_error(tmp_path):
    write_tree(tmp_path)
    replace_in(tmp_path / LABELS, f",{SECOND},", f",{FIRST},")
    with pytest.raises(
        InputError, match=rf"{LABELS}: study {FIRST} occurs 2 times \(1 such\); remove the repeated rows"
    ):
        read_studies(tmp_path)


@pytest.mark.parametrize("table", [METADATA, SPLIT, LABELS])
def test_a_missing_column_is_an_error(tmp_path, table):
    write_tree(tmp_path)
    replace_in(tmp_path / table, "split" if table == SPLIT else "study_id", "other")
    with pytest.raises(InputError, match=f"{table}: no column '(split|study_id)'"):
        read_studies(tmp_path)


@pytest.mark.parametrize("table", [METADATA, SPLIT, LABELS])
def test_a_truncated_table_is_an_error(tmp_path, table):
    write_tree(tmp_path)
    path = tmp_path / table
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=f"{table}: .*cut short"):
        read_studies(tmp_path)


def test_an_image_without_a_split_is_an_error(tmp_path):
    write_tree(tmp_path)
    replace_in(tmp_path / SPLIT, "d3,", "d9,")
    with pytest.raises(InputError, match=rf"{SPLIT}: no row for image d3 of {METADATA} \(1 such\); copy both again"):
        read_studies(tmp_path)


@pytest.mark.parametrize(("old", "new", "named"), [("train", "training", "'training'"), (",train", ",", "None")])
def test_an_unknown_split_is_an_error(tmp_path, old, new, named):
    write_tree(tmp_path)
    replace_in(tmp_path / SPLIT, old, new)
    with pytest.raises(InputError, match=f"{SPLIT}: split {named} is unknown; allowed: train, validate, test"):
        read_studies(tmp_path)


def test_a_patient_in_two_splits_is_an_error(tmp_path):
    images = [*IMAGES, ("d5", 90_000_001, 95_000_003, "AP", "validate")]
    write_tree(tmp_path, images=images, reports={**REPORTS, 95_000_003: "FINDINGS: Clear."})
    (tmp_path / "files/p90/p90000001/s95000003.txt").write_text("FINDINGS: Clear.")
    with pytest.raises(InputError, match="patient 90000001 is in the splits train and validate .*leak into training"):
        read_studies(tmp_path)


def test_a_study_whose_images_lie_in_two_splits_is_an_error(tmp_path):
    write_tree(tmp_path, images=[*IMAGES, ("d5", 90_000_001, FIRST, "AP", "test")])
    with pytest.raises(InputError, match=f"{SPLIT}: patient 90000001 is in the splits test and train"):
        read_studies(tmp_path)


def test_a_study_of_two_patients_is_an_error(tmp_path):
    write_tree(tmp_path, images=[*IMAGES, ("d5", 90_000_009, FIRST, "AP", "train")])
    with pytest.raises(InputError, match=rf"{METADATA}: study {FIRST} belongs to the patients 90000001 and 90000009"):
        read_studies(tmp_path)


@pytest.mark.parametrize("table", [METADATA, SPLIT])
def test_an_image_twice_is_an_error(tmp_path, table):
    write_tree(tmp_path)
    replace_in(tmp_path / table, "d2,", "d1,")
    with pytest.raises(InputError, match=rf"{table}: image d1 occurs 2 times \(1 such\); remove the repeated rows"):
        read_studies(tmp_path)


@pytest.mark.parametrize(
    ("column", "value"), [("dicom_id", "d1"), ("subject_id", "90000001"), ("study_id", str(FIRST))]
)
def test_an_empty_id_is_an_error(tmp_path, column, value):
    write_tree(tmp_path)
    replace_in(tmp_path / METADATA, "d1,90000001,95000001", "d1,90000001,95000001".replace(value, ""))
    with pytest.raises(InputError, match=f"{METADATA}, row 5: {column} is empty"):
        read_studies(tmp_path)


def test_a_zip_with_a_password_is_an_error(tmp_path):
    tree = write_tree(tmp_path, reports={})
    path = write_zip(tree / "mimic-cxr-reports.zip", REPORTS)
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # bit 0 of the flags: encrypted
        at = -1
        while (at := data.find(signature, at + 1)) >= 0:
            data[at + offset] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"mimic-cxr-reports\.zip: the zip cannot be read .*download PhysioNet's own"):
        read_studies(tree)


def test_a_label_table_with_nothing_but_a_header_labels_no_study(tmp_path):
    found = read_studies(write_tree(tmp_path, labels={}))
    assert found.notes["studies_without_labels"] == len(found.studies)


def test_an_image_name_that_climbs_out_is_an_error(tmp_path):
    tree = write_tree(tmp_path)
    for table in (METADATA, SPLIT):
        replace_in(tree / table, next(iter(IMAGES))[0], "../../../x")
    with pytest.raises(InputError, match=r"row \d+: dicom_id '../../../x': allowed are letters"):
        read_studies(tree)
