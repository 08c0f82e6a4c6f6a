"""The Indiana collection: rows, views, labels and splits from small files, every bad input, and the real files."""

from pathlib import Path

import pytest
from paths import REAL_DATA

from medvqa_core.errors import ConfigError, InputError, one_line
from medvqa_core.governance import Governance
from mimic_cxr_vqa.schema import CHEXPERT_LABELS, SPLITS
from mimic_cxr_vqa.sources.openi import PROJECTIONS, REPORTS, assign_split, labels_from, read_studies
from mimic_cxr_vqa.sources.registry import SourceOptions, read_source

REPORT_HEADER = "uid,MeSH,Problems,image,indication,comparison,findings,impression\n"
PROJECTION_HEADER = "uid,filename,projection\n"
REAL = REAL_DATA / "iu_cxr"


def write(folder: Path, reports: str, projections: str = "") -> Path:
    (folder / REPORTS).write_text(REPORT_HEADER + reports, encoding="utf-8")
    (folder / PROJECTIONS).write_text(PROJECTION_HEADER + projections, encoding="utf-8")
    return folder


def positives(problems: str, mesh: str = "") -> set[str]:
    return {label for label, value in labels_from(problems, mesh)[0].items() if value == 1}


def test_a_list_of_studies_leaves_the_others_out(tmp_path: Path) -> None:
    root = write(tmp_path, "7,,,,,,Clear lungs.,\n8,,,,,,Big heart.,\n", "7,a.png,Frontal\n8,b.png,Frontal\n")
    chosen = tmp_path / "ids.txt"
    chosen.write_text("8\n")
    assert read_source("openi", root, SourceOptions()).studies["study_id"].to_pylist() == [7, 8]
    (row,) = read_source("openi", root, SourceOptions(studies=chosen)).studies.to_pylist()
    assert (row["study_id"], row["findings"], row["images"][0]["path"]) == (8, "Big heart.", "b.png")
    chosen.write_text("8\n9\n")
    with pytest.raises(InputError, match="ids.txt: study 9 is not in the source 'openi'"):
        read_source("openi", root, SourceOptions(studies=chosen))


def test_a_study_becomes_one_row(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        '7,Cardiomegaly/mild,Cardiomegaly,Xray Chest PA and Lateral,"Cough,\n fever",None.,Big heart.,\n',
        "7,7_IM-2263-1001.dcm.png,Frontal\n7,7_IM-2263-2001.dcm.png,Lateral\n",
    )
    studies = read_studies(root, SourceOptions(labels="mesh"))
    assert studies.governance is Governance.NO_DERIVATIVES
    (row,) = studies.studies.to_pylist()
    assert (row["subject_id"], row["study_id"], row["split"]) == (7, 7, assign_split(7))
    assert (row["findings"], row["impression"], row["indication"]) == ("Big heart.", None, "Cough, fever")
    assert {label for label, value in row["labels"].items() if value is not None} == {"Cardiomegaly"}
    assert row["images"] == [
        {"path": "7_IM-2263-1001.dcm.png", "dicom_id": "7_IM-2263-1001", "view": "PA"},
        {"path": "7_IM-2263-2001.dcm.png", "dicom_id": "7_IM-2263-2001", "view": "LATERAL"},
    ]


@pytest.mark.parametrize(
    ("described", "view"),
    [
        ("PA and lateral chest", "PA"),
        ("Chest AP view", "AP"),
        ("CHEST 2V FRONTAL/LATERAL XXXX PM", "FRONTAL"),
        ("AP and PA views", "FRONTAL"),  # two frontal views: which file is which is not said
        ("Chest pa", "FRONTAL"),
        ("", "FRONTAL"),
    ],
)
def test_a_frontal_view_is_named_by_the_studys_description(tmp_path: Path, described: str, view: str) -> None:
    row = read_studies(write(tmp_path, f"1,,,{described},,,x,\n", "1,a.png,Frontal\n")).studies.to_pylist()[0]
    assert row["images"][0]["view"] == view


def test_counts(tmp_path: Path, caplog) -> None:
    root = write(
        tmp_path, "1,,,,,, ,Normal.\n2,Zebra/left;Opacity,Zebra;Opacity,,,,x,\n3,,Zebra,,,,x,\n", "1,a.png,Frontal\n"
    )
    notes = read_studies(root).notes
    assert (notes["studies_without_images"], notes["unmapped_headings"]) == (2, 1)
    assert "Zebra (2)" in caplog.text


@pytest.mark.parametrize(
    ("problems", "mesh", "labels"),
    [
        ("normal", "normal", {"No Finding"}),
        ("No Indexing", "No Indexing", set()),
        ("Pulmonary Atelectasis;Opacity", "", {"Atelectasis", "Lung Opacity"}),
        ("", "Cardiac Shadow/enlarged/mild", {"Cardiomegaly"}),
        ("Cardiac Shadow", "Cardiac Shadow/right/prominent", set()),
        ("", "Mediastinum/prominent", {"Enlarged Cardiomediastinum"}),
        ("", "Thickening/pleura/apex/bilateral", {"Pleural Other"}),
        ("", "Thickening/heart ventricles", set()),
        ("", "Cicatrix/pleura/apex/left", {"Pleural Other"}),
        ("", "Cicatrix/lung/base/left", {"Lung Opacity"}),
        ("", "Cicatrix/ribs/left", set()),
        ("", "Hydropneumothorax/apex/right", {"Pneumothorax", "Pleural Effusion"}),
        ("", "Fractures, Bone/ribs/left/healed", {"Fracture"}),
        ("", "Calcified Granuloma/lung/base", {"Lung Lesion"}),
        ("", "Markings/bronchovascular", set()),
        ("", "Markings/lung/interstitial", {"Lung Opacity"}),
        ("", "Catheters, Indwelling/right", {"Support Devices"}),
        ("normal;Opacity", "", {"Lung Opacity"}),
        ("Technical Quality of Image Unsatisfactory ;Scoliosis", "", set()),
    ],
)
def test_labels_are_the_positives_of_the_written_mapping(problems: str, mesh: str, labels: set[str]) -> None:
    found, unknown = labels_from(problems, mesh)
    assert {label for label, value in found.items() if value == 1} == labels
    assert set(found) == set(CHEXPERT_LABELS)
    assert set(found.values()) <= {1, None}
    assert unknown == []


def test_splits_are_a_function_of_the_uid_alone_and_about_80_10_10() -> None:
    counts = {split: sum(assign_split(uid) == split for uid in range(10_000)) for split in SPLITS}
    assert abs(counts["train"] - 8000) < 150
    assert abs(counts["validate"] - 1000) < 100
    assert abs(counts["test"] - 1000) < 100
    assert [assign_split(uid) for uid in (1, 2, 3)] == [assign_split(uid) for uid in (1, 2, 3)]


@pytest.mark.parametrize(
    ("reports", "projections", "parts"),
    [
        ("1,,,,,,x\n", "", [REPORTS, "row 2", "7 fields", "8"]),
        ("1,,,,,,x,\n2,,,,,,x,,y\n", "", [REPORTS, "row 3", "9 fields"]),
        ("1,,,,,,x,\n1,,,,,,x,\n", "", [REPORTS, "row 3", "uid 1", "row 2"]),
        ("one,,,,,,x,\n", "", [REPORTS, "row 2", "'one'"]),
        (f"{'9' * 30},,,,,,x,\n", "", [REPORTS, "row 2", "digits"]),
        ('1,,,,,,"x,\n', "", [REPORTS, "line 2", "cut off"]),
        ("1,,,,,,x,\n", "2,a.png,Frontal\n", [PROJECTIONS, "row 2", "uid 2", REPORTS]),
        ("1,,,,,,x,\n", "1,a.png,Oblique\n", [PROJECTIONS, "row 2", "'Oblique'", "Frontal, Lateral"]),
        ("1,,,,,,x,\n", "1,../a.png,Frontal\n", [PROJECTIONS, "row 2", "'../a.png'"]),
        ("1,,,,,,x,\n", "1,/a.png,Frontal\n", [PROJECTIONS, "row 2", "'/a.png'"]),
        ("1,,,,,,x,\n", "1,a.png\n", [PROJECTIONS, "row 2", "2 fields"]),
    ],
)
def test_bad_rows_end_in_one_line_that_names_file_and_row(
    tmp_path: Path, reports: str, projections: str, parts: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        read_studies(write(tmp_path, reports, projections))
    message = str(caught.value)
    assert message == one_line(caught.value)
    assert all(part in message for part in parts), message


def test_missing_files_and_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{REPORTS}: no such file.*{PROJECTIONS}"):
        read_studies(tmp_path)
    (tmp_path / REPORTS).write_text("uid,Problems\n1,normal\n", encoding="utf-8")
    with pytest.raises(InputError, match="MeSH, image, indication, findings, impression"):
        read_studies(tmp_path)
    (tmp_path / REPORTS).write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="Found: none"):
        read_studies(tmp_path)


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    root = write(tmp_path, "1,,,,,,x,\n")
    (root / REPORTS).write_bytes(REPORT_HEADER.encode() + b"1,,,,,,x,\n2,,,,,,caf\xe9,\n")
    with pytest.raises(InputError, match=f"{REPORTS}, line 3: byte 0xe9"):
        read_studies(root)


@pytest.mark.skipif(not REAL.is_dir(), reason=f"the real collection is not at {REAL}")
def test_the_real_collection() -> None:
    studies = read_studies(REAL, SourceOptions(labels="mesh"))
    rows = studies.studies.to_pylist()
    assert len(rows) == 1000
    titles = studies.notes["studies_with_a_title_for_findings"]
    assert sum(row["findings"] is None for row in rows) == 125 + titles
    assert sum(len(row["images"]) for row in rows) == 1935
    assert studies.notes["unmapped_headings"] == 0
    assert sum(row["labels"]["No Finding"] == 1 for row in rows) == 367
    assert all(any(row["labels"][label] == 1 for row in rows) for label in CHEXPERT_LABELS)


def test_labels_of_text_and_of_annotation(tmp_path: Path) -> None:
    root = write(tmp_path, "1,Nodule,Nodule,,,,No effusion. Possible edema.,Cardiomegaly.\n")

    def stated(labels: str) -> dict[str, int]:
        (row,) = read_studies(root, SourceOptions(labels=labels)).studies.to_pylist()
        return {label: value for label, value in row["labels"].items() if value is not None}

    assert stated("text") == {"Cardiomegaly": 1, "Edema": -1, "Pleural Effusion": 0}
    assert stated("mesh") == {"Lung Lesion": 1}
    with pytest.raises(ConfigError, match="labels='chexpert'.*text, mesh"):
        read_studies(root, SourceOptions(labels="chexpert"))


def test_a_title_in_the_place_of_findings_is_none(tmp_path: Path) -> None:
    studies = read_studies(write(tmp_path, "1,,,,,,AP and lateral view of the chest.,Cardiomegaly.\n"))
    assert studies.notes["studies_with_a_title_for_findings"] == 1 and studies.studies["findings"].null_count == 1
