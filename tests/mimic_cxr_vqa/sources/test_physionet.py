"""The PhysioNet source on a small hand-written tree: results, supported forms and missing files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from physionet_tree import FIRST, IMAGES, REPORTS, SECOND, tables, write_reports, write_tree, write_zip

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance
from mimic_cxr_vqa.schema import STUDY_SCHEMA
from mimic_cxr_vqa.sources.physionet import read_studies, report_path
from mimic_cxr_vqa.sources.pieces import locate, need
from mimic_cxr_vqa.sources.registry import SourceOptions

# --- what it reads


def test_studies_have_sections_labels_and_images(tmp_path):
    study_set = read_studies(write_tree(tmp_path))
    first, second = study_set.studies.to_pylist()
    assert study_set.studies.schema.equals(STUDY_SCHEMA) and study_set.source == "physionet"
    assert (first["subject_id"], first["study_id"], first["split"]) == (90_000_001, FIRST, "train")
    assert (first["findings"], first["impression"], first["indication"]) == ("Mild edema.", "Edema.", "Cough.")
    assert {k: v for k, v in first["labels"].items() if v is not None} == {"Edema": 1, "Pneumonia": -1, "Fracture": 0}
    folder = "p90/p90000001/s95000001"
    assert first["images"] == [  # in the metadata table's order
        {"path": f"{folder}/d2.jpg", "dicom_id": "d2", "view": "LATERAL"},
        {"path": f"{folder}/d1.jpg", "dicom_id": "d1", "view": "PA"},
    ]
    assert (second["split"], second["findings"], second["impression"]) == ("test", None, "Normal chest.")
    assert [(image["dicom_id"], image["view"]) for image in second["images"]] == [("d4", "LL"), ("d3", None)]
    assert {k: v for k, v in second["labels"].items() if v is not None} == {"No Finding": 1}


@pytest.mark.parametrize("version", ["2.0.0", "2.1.0"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_both_versions_plain_or_gzipped_are_the_same(tmp_path, version, suffix):
    expected = read_studies(write_tree(tmp_path / "expected")).studies
    assert read_studies(write_tree(tmp_path / "tree", version, suffix)).studies.equals(expected)


REPORT_PLACES: dict[str, Callable[[Path], Path | None]] = {
    "zip in the root": lambda tree: write_zip(tree / "mimic-cxr-reports.zip") and None,
    "unpacked zip in the root": lambda tree: write_reports(tree / "mimic-cxr-reports") and None,
    "zip elsewhere": lambda tree: write_zip(tree.parent / "r.zip"),
    "folder with the zip": lambda tree: write_zip(tree.parent / "mimic-cxr-reports.zip").parent,
    "folder elsewhere": lambda tree: write_reports(tree.parent / "mimic-cxr"),
    "folder of the unpacked zip": lambda tree: write_reports(tree.parent / "mimic-cxr" / "mimic-cxr-reports").parent,
}


@pytest.mark.parametrize("place", REPORT_PLACES.values(), ids=REPORT_PLACES.keys())
def test_reports_are_found_where_people_have_them(tmp_path, place):
    expected = read_studies(write_tree(tmp_path / "expected")).studies
    tree = write_tree(tmp_path / "tree", reports={})
    for dicom, subject, study, *_ in IMAGES:  # MIMIC-CXR-JPG's own files/ holds images only
        folder = tree / "files" / f"p90/p{subject}/s{study}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{dicom}.jpg").touch()
    assert read_studies(tree, SourceOptions(place(tree))).studies.equals(expected)


def test_the_label_table_is_chosen(tmp_path):
    write_tree(tmp_path)
    other = tables(labels={FIRST: {"Edema": "0"}, SECOND: {}})["chexpert"]
    (tmp_path / "mimic-cxr-2.0.0-negbio.csv").write_text(other)
    assert read_studies(tmp_path, SourceOptions(labeler="negbio")).studies["labels"][0].as_py()["Edema"] == 0
    with pytest.raises(ConfigError, match="labeler 'chexbert' is unknown"):
        read_studies(tmp_path, SourceOptions(labeler="chexbert"))


def test_a_study_without_a_row_of_labels_has_none(tmp_path):
    studies = read_studies(write_tree(tmp_path, labels={SECOND: {"Edema": "1"}, 95_000_009: {"Edema": "1"}})).studies
    assert set(studies["labels"][0].as_py().values()) == {None}
    assert studies["labels"][1].as_py()["Edema"] == 1 and len(studies) == 2


# --- governance


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        (None, Governance.CREDENTIALED),
        ('{"source": "phantom"}', Governance.OPEN),
        ('{"source": "physionet"}', Governance.CREDENTIALED),
        ("{}", Governance.CREDENTIALED),
        ("[]", Governance.CREDENTIALED),
        ('"phantom"', Governance.CREDENTIALED),
        ("not JSON", Governance.CREDENTIALED),
        (b"\xff", Governance.CREDENTIALED),
    ],
)
def test_only_a_tree_that_says_so_is_open(tmp_path, marker, expected):
    write_tree(tmp_path)
    if marker is not None:
        (tmp_path / "phantom.json").write_bytes(marker if isinstance(marker, bytes) else marker.encode())
    study_set = read_studies(tmp_path)
    assert study_set.governance is expected
    assert study_set.source == ("phantom" if expected is Governance.OPEN else "physionet")


@pytest.mark.parametrize(
    ("subject", "study"), [(89_999_999, SECOND), (90_000_002, 89_999_999), (11_111_111, 51_111_111)]
)
def test_one_id_outside_the_drawn_range_is_credentialed(tmp_path, subject, study):
    images = [*IMAGES[1::2], ("d4", subject, study, "PA", "test")]
    write_tree(tmp_path, images=images, reports={FIRST: REPORTS[FIRST]})
    path = tmp_path / report_path(subject, study)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("FINDINGS: Clear.")
    (tmp_path / "phantom.json").write_text(json.dumps({"source": "phantom"}))
    assert read_studies(tmp_path).governance is Governance.CREDENTIALED


# --- what is missing


@pytest.mark.parametrize("table", ["chexpert", "metadata", "split"])
def test_a_missing_table_is_named_with_the_places_looked_at(tmp_path, table):
    write_tree(tmp_path)
    (tmp_path / f"mimic-cxr-2.0.0-{table}.csv.gz").unlink()
    with pytest.raises(InputError, match=f"{table} .*https://physionet.org") as caught:
        read_studies(tmp_path)
    for place in (f"2.0.0-{table}.csv.gz", f"2.0.0-{table}.csv,", f"2.1.0-{table}.csv.gz"):
        assert f"{tmp_path}/mimic-cxr-{place}" in str(caught.value)


def test_a_missing_image_folder_is_named(tmp_path):
    piece = locate(write_tree(tmp_path, reports={}))["images"]
    with pytest.raises(InputError, match=f"{tmp_path}/files"):
        need(piece)
    (tmp_path / "files").mkdir()
    assert need(locate(tmp_path)["images"]) == tmp_path / "files"


def test_missing_reports_are_named_with_the_places_looked_at(tmp_path):
    tree = write_tree(tmp_path / "tree", reports={})
    for reports, place in ((None, tree), (tmp_path / "nowhere", tmp_path / "nowhere")):
        with pytest.raises(InputError, match="https://physionet.org") as caught:
            read_studies(tree, SourceOptions(reports))
        assert f"{place}/mimic-cxr-reports.zip, {place}/mimic-cxr-reports/files" in str(caught.value)
    with pytest.raises(InputError, match=f"{tmp_path}/x.zip"):
        read_studies(tree, SourceOptions(tmp_path / "x.zip"))


@pytest.mark.parametrize("in_zip", [False, True])
def test_a_missing_report_is_named(tmp_path, in_zip):
    tree = write_tree(tmp_path / "tree", reports={} if in_zip else {FIRST: REPORTS[FIRST]})
    if in_zip:
        write_zip(tree / "mimic-cxr-reports.zip", {FIRST: REPORTS[FIRST]})
    with pytest.raises(InputError, match="files/p90/p90000002/s95000002.txt"):
        read_studies(tree)


@pytest.mark.parametrize("in_zip", [False, True])
def test_a_report_above_the_limit_is_named_and_not_read_whole(tmp_path, in_zip):
    """A megabyte passes. One more byte is refused before a zip bomb fills the memory."""
    reports = dict(REPORTS)
    for size, names in ((1 << 20, None), ((1 << 20) + 1, "s95000001.txt is larger than 1 MiB")):
        tree = write_tree(tmp_path / str(size), reports={})
        reports[FIRST] = REPORTS[FIRST].ljust(size)
        write_zip(tree / "mimic-cxr-reports.zip", reports) if in_zip else write_reports(tree, reports)
        if names is None:
            read_studies(tree)
            continue
        with pytest.raises(InputError, match=names):
            read_studies(tree)
