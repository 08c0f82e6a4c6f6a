"""The phantom source: layout, reproducible and resumable writing, and that labels, text and pictures say the same."""

import csv
import gzip
import json
import re
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvqa_core.errors import ConfigError
from mimic_cxr_vqa.phantom import tree as phantom
from mimic_cxr_vqa.phantom.drawing import draw
from mimic_cxr_vqa.phantom.frontal import Anatomy, heart_ratio
from mimic_cxr_vqa.phantom.phrases import SEVERITY, TERMS
from mimic_cxr_vqa.phantom.reports import write_report
from mimic_cxr_vqa.phantom.specs import DISEASES, SEVERITIES, Finding, StudySpec, sample_studies
from mimic_cxr_vqa.phantom.tree import write_phantom
from mimic_cxr_vqa.reports import split_sections
from mimic_cxr_vqa.schema import CHEXPERT_LABELS, canonical_view

MIDLINE = ("Cardiomegaly", "Enlarged Cardiomediastinum", "Edema")
ZONED = ("Consolidation", "Fracture", "Lung Lesion", "Lung Opacity", "Pleural Other", "Pneumonia")
NOISE = 3.0  # grey levels: the noisiest picture's mean absolute noise in 3 x 3 neighbourhoods at 96 pixels
HEDGES = re.compile(r"\b(may|possibl[ey]|questionabl[ey]|cannot be excluded|probable|borderline|could)\b", re.I)
DENIALS = re.compile(r"\b(no|not|without|negative|normal|unremarkable|within normal limits)\b", re.I)


@pytest.fixture(scope="module")
def specs() -> list[StudySpec]:
    return list(sample_studies(3000, seed=0))


@pytest.fixture(scope="module")
def healthy(specs) -> StudySpec:
    """A study with nothing in it, to which tests add one finding."""
    spec = next(s for s in specs if not s.drawn and not s.devices and s.previous is None and s.has_findings_section)
    return replace(spec, findings={}, removed_device="")


def with_finding(spec: StudySpec, label: str, state: int, side="left", zone="mid", severity="moderate") -> StudySpec:
    finding = Finding(state, "" if label in MIDLINE else side, zone if label in ZONED else "", severity)
    return replace(spec, findings={label: finding})


def picture(spec: StudySpec, view: str) -> np.ndarray:
    """Drawn at 192 pixels, reduced to 96, as float; always with the same pose, exposure and noise."""
    drawn = Image.fromarray(draw(spec, view, 192, np.random.default_rng(11)))
    return np.asarray(drawn.resize((96, 96), Image.Resampling.BOX), dtype=float)


def local_change(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Mean absolute difference in every 3 x 3 neighbourhood."""
    difference = np.abs(after - before)
    return np.mean([np.roll(difference, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)], axis=0)


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def read_table(root: Path, name: str) -> list[dict[str, str]]:
    with gzip.open(root / f"mimic-cxr-2.0.0-{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- the tree ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> tuple[Path, dict]:
    root = tmp_path_factory.mktemp("phantom")
    return root, write_phantom(root, 20, seed=5, size=64)


def test_tree_has_the_layout_of_mimic_cxr_jpg(written):
    root, summary = written
    splits, metadata = read_table(root, "split"), read_table(root, "metadata")
    labels, negbio = read_table(root, "chexpert"), read_table(root, "negbio")
    assert list(labels[0]) == list(negbio[0]) == ["subject_id", "study_id", *CHEXPERT_LABELS]
    assert list(splits[0]) == ["dicom_id", "study_id", "subject_id", "split"]
    assert list(metadata[0])[:5] == [
        "dicom_id",
        "subject_id",
        "study_id",
        "PerformedProcedureStepDescription",
        "ViewPosition",
    ]
    assert len(labels) == 20 and len(splits) == len(metadata) == summary["images"] == summary["drawn"]
    for row in splits:
        subject, study = f"p{row['subject_id']}", f"s{row['study_id']}"
        path = root / "files" / subject[:3] / subject / study / f"{row['dicom_id']}.jpg"
        with Image.open(path) as image:
            assert (image.format, image.mode, image.size) == ("JPEG", "L", (64, 64))
        assert re.fullmatch(r"([0-9a-f]{8}-){4}[0-9a-f]{8}", row["dicom_id"])
        assert (path.parent.parent / f"{study}.txt").read_text(encoding="utf-8")
    assert {row["split"] for row in splits} == {"train", "validate", "test"}
    values = {value for row in labels for name, value in row.items() if name in CHEXPERT_LABELS}
    assert values == {"1.0", "0.0", "-1.0", ""}


def test_ids_lie_outside_those_of_mimic(written):
    names = "\n".join(tree(written[0]))
    assert not re.search(r"\bp1\d{7}\b|\bs5\d{7}\b", names)
    assert "files/p90/p90000001/s95000001.txt" in names


def test_marker_tells_the_parameters_and_nothing_is_left_over(written):
    root, _ = written
    marker = json.loads((root / "phantom.json").read_text())
    expected = {"source": "phantom", "version": 1, "governance": "open", "seed": 5, "studies": 20, "size": 64}
    assert marker == expected | {"reports": "folder"}
    assert not [name for name in tree(root) if "partial" in name or "unfinished" in name]


def test_zip_holds_the_texts_that_the_folder_has(written, tmp_path):
    root, _ = written
    write_phantom(tmp_path, 20, seed=5, size=64, reports="zip")
    texts = {name: content for name, content in tree(root).items() if name.endswith(".txt")}
    with zipfile.ZipFile(tmp_path / "mimic-cxr-reports.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == texts
    assert not list(tmp_path.rglob("*.txt"))


@pytest.mark.parametrize("reports", ["folder", "zip"])
def test_two_runs_write_the_same_bytes(tmp_path, reports):
    for name in ("a", "b"):
        write_phantom(tmp_path / name, 6, seed=2, size=64, reports=reports)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_several_processes_write_the_same_bytes(written, tmp_path, monkeypatch):
    monkeypatch.setattr(phantom, "STUDIES_PER_TASK", 3)  # 20 studies: seven tasks, patients in two of them
    assert write_phantom(tmp_path, 20, seed=5, size=64, processes=2) == written[1]
    assert tree(tmp_path) == tree(written[0])


def test_killed_run_resumes_to_the_same_bytes(written, tmp_path, monkeypatch):
    whole = tree(written[0])
    calls = iter(range(100))

    def die_after_nine(*args):
        if next(calls) == 9:
            raise KeyboardInterrupt
        return draw(*args)

    monkeypatch.setattr(phantom, "draw", die_after_nine)
    with pytest.raises(KeyboardInterrupt):
        write_phantom(tmp_path, 20, seed=5, size=64)
    monkeypatch.setattr(phantom, "draw", draw)
    assert not (tmp_path / "phantom.json").exists()
    unfinished = next(name for name in whole if name.endswith(".jpg") and not (tmp_path / name).exists())
    (tmp_path / unfinished).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / f"{unfinished}.partial").write_bytes(b"half a picture")
    summary = write_phantom(tmp_path, 20, seed=5, size=64)
    assert summary["kept"] == 9 and summary["drawn"] == summary["images"] - 9
    assert tree(tmp_path) == whole


def test_deleted_files_come_back_and_a_finished_tree_is_left_alone(tmp_path, monkeypatch):
    write_phantom(tmp_path, 6, seed=1, size=64)
    whole = tree(tmp_path)
    lost = [name for name in whole if name.endswith((".jpg", ".txt", "split.csv.gz"))][::3]
    for name in lost:
        (tmp_path / name).unlink()
    write_phantom(tmp_path, 6, seed=1, size=64)
    assert tree(tmp_path) == whole
    monkeypatch.setattr(phantom, "atomic_file", None)  # any write would fail
    assert write_phantom(tmp_path, 6, seed=1, size=64)["drawn"] == 0


@pytest.mark.parametrize(("key", "there", "asked"), [("seed", 1, 2), ("size", 64, 65), ("studies", 2, 3)])
@pytest.mark.parametrize("finished", [True, False])
def test_other_parameters_in_the_folder_are_refused(tmp_path, key, there, asked, finished):
    parameters = {"studies": 2, "seed": 1, "size": 64}
    write_phantom(tmp_path, **parameters)
    if not finished:
        (tmp_path / "phantom.json").rename(tmp_path / "phantom-unfinished.json")
    before = tree(tmp_path)
    with pytest.raises(ConfigError, match=f"{key} {there}.* {asked}"):
        write_phantom(tmp_path, **(parameters | {key: asked}))
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"studies": 0}, "studies is 0"),
        ({"studies": 5_000_000}, "studies is 5000000"),  # an id of nine digits
        ({"studies": 1, "size": 63}, "size is 63"),
        ({"studies": 1, "size": 999_999}, "size is 999999"),
        ({"studies": 1, "seed": -1}, "seed is -1"),
        ({"studies": 1, "reports": "tar"}, "reports is 'tar'"),
    ],
)
def test_impossible_parameters_are_refused(tmp_path, parameters, message):
    with pytest.raises(ConfigError, match=message):
        write_phantom(tmp_path / "new", **parameters)
    assert not (tmp_path / "new").exists()


# --- the studies ------------------------------------------------------------------------------------------------------


def test_longer_run_starts_with_the_shorter_one(specs):
    assert list(sample_studies(25, seed=0)) == specs[:25]


def test_patients_stay_in_one_split_and_have_one_to_four_studies(specs):
    splits = {}
    for spec in specs:
        splits.setdefault(spec.subject_id, set()).add(spec.split)
    assert all(len(found) == 1 for found in splits.values())
    per_patient = Counter(spec.subject_id for spec in specs)
    assert set(per_patient.values()) == {1, 2, 3, 4}
    share = Counter(spec.split for spec in specs)
    assert 0.77 < share["train"] / 3000 < 0.83
    assert min(share["validate"], share["test"]) / 3000 > 0.08


@pytest.mark.parametrize("seed", range(30))
def test_ten_studies_have_all_splits(seed):
    assert {spec.split for spec in sample_studies(10, seed)} == {"train", "validate", "test"}


def test_label_rates_are_skewed_and_never_rare(specs):
    positive = Counter(label for spec in specs for label, value in spec.labels.items() if value == 1)
    assert min(positive[label] for label in CHEXPERT_LABELS) >= 0.06 * 3000
    assert min(positive[label] for label in ("Support Devices", "Pleural Effusion", "Cardiomegaly")) > 0.18 * 3000
    per_study = [sum(value == 1 for value in spec.labels.values()) for spec in specs]
    assert np.mean([1 <= count <= 4 for count in per_study]) > 0.9
    no_section = sum(not spec.has_findings_section for spec in specs) / 3000
    assert 0.025 < no_section < 0.055


def test_no_finding_holds_exactly_where_no_disease_is_stated_or_hedged(specs):
    for spec in specs:
        ill = any(spec.labels[label] in (1, -1) for label in DISEASES)
        assert spec.labels["No Finding"] == (None if ill else 1)


def test_views_are_those_of_real_studies(specs):
    assert {len(spec.views) for spec in specs} == {1, 2, 3}
    views = Counter(view for spec in specs for view in spec.views)
    assert {"AP", "PA", "LATERAL", "LL", ""} <= set(views)
    assert any(canonical_view(view) is None for view in views)
    assert all(len(set(spec.dicom_ids)) == len(spec.views) for spec in specs)


# --- the reports ------------------------------------------------------------------------------------------------------


def test_report_speaks_of_exactly_the_mentioned_labels(specs):
    for spec in specs[:1000]:
        report = write_report(spec)
        said = f" {report.findings or ''} {report.impression or ''}".lower()
        spoken = {label for label, terms in TERMS.items() if any(term in said for term in terms)}
        mentioned = {label for label, value in spec.labels.items() if value is not None} - {"No Finding"}
        assert spoken == mentioned, (spec.study_id, said)


@pytest.mark.parametrize("label", DISEASES)
def test_state_side_and_severity_are_said_as_drawn(healthy, label):
    for study in range(60):
        severity, side = SEVERITIES[study % 3], ("left", "right")[study % 2]
        zone = ("upper", "mid", "lower")[study // 2 % 3]
        base = replace(healthy, study_id=healthy.study_id + study)
        said = write_report(with_finding(base, label, 1, side, zone, severity)).findings.lower()
        assert SEVERITY[label][severity] in said
        if label not in MIDLINE:
            assert side in said and {"left": "right", "right": "left"}[side] not in said.replace("upright", "")
        assert not HEDGES.search(said)
        assert HEDGES.search(write_report(with_finding(base, label, -1, side, zone)).findings)
        assert DENIALS.search(write_report(with_finding(base, label, 0)).findings)


def test_sections_are_found_by_the_report_reader(specs):
    for spec in specs[:600]:
        report = write_report(spec)
        sections = split_sections(report.text)
        assert (sections.findings, sections.impression, sections.indication) == report[1:], report.text


def test_reports_have_the_mess_of_real_ones(specs):
    texts = [write_report(spec).text for spec in specs[:1500]]
    together = "\n".join(texts)
    for heading in ("FINDINGS AND IMPRESSION:", "WET READ:", "ADDENDUM:", "INDICATION;", "HISTORY:", "Findings:"):
        assert heading in together
    assert re.search(r"TECHNIQUE:.*COMPARISON:", together), "no two headings on one line"
    for phrase in ("unchanged from prior", "new since the previous exam", "interval increase", "___"):
        assert phrase in together
    lines = [line for text in texts for line in text.splitlines()]
    assert all(line.startswith(" ") and len(line) <= 80 for line in lines)
    assert len(set(texts)) > 0.99 * len(texts)


# --- the pictures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["PA", "LATERAL"])
@pytest.mark.parametrize("label", DISEASES)
def test_finding_shows_at_96_pixels(healthy, label, view):
    plain = picture(healthy, view)
    for severity in SEVERITIES:
        change = local_change(plain, picture(with_finding(healthy, label, 1, "left", "mid", severity), view))
        assert np.sort(change, axis=None)[-12:].min() > 3 * NOISE, severity
    hedged = local_change(plain, picture(with_finding(healthy, label, -1), view))
    stated = local_change(plain, picture(with_finding(healthy, label, 1), view))
    assert hedged.max() > NOISE and hedged.sum() < stated.sum()
    assert np.array_equal(picture(with_finding(healthy, label, 0), view), plain)


@pytest.mark.parametrize("label", [label for label in DISEASES if label not in MIDLINE])
def test_finding_is_on_the_side_that_is_said(healthy, label):
    """The patient's right is on the left of the picture."""
    plain = picture(healthy, "PA")
    for side in ("right", "left"):
        change = np.abs(picture(with_finding(healthy, label, 1, side, "mid"), "PA") - plain)
        halves = {"right": change[:, :48].sum(), "left": change[:, 48:].sum()}
        assert halves[side] > 5 * min(halves.values())
        assert halves[side] == max(halves.values())


@pytest.mark.parametrize(
    "device",
    ["endotracheal tube", "enteric tube", "central line", "chest tube", "pacemaker", "port", "sternotomy wires"],
)
@pytest.mark.parametrize("view", ["AP", "LL"])
def test_device_shows_at_96_pixels(healthy, device, view):
    change = local_change(picture(healthy, view), picture(replace(healthy, devices=(device,)), view))
    assert np.sort(change, axis=None)[-12:].min() > 8


def test_enlarged_hearts_are_wider_than_normal_ones():
    rng = np.random.default_rng(0)
    for _ in range(50):
        anatomy = Anatomy.sample(rng)
        normal = heart_ratio(None, anatomy, rng)
        hedged, stated = (heart_ratio(Finding(state), anatomy, rng) for state in (-1, 1))
        assert 0.40 <= normal <= 0.48 < hedged < 0.55 < 0.56 <= stated <= 0.68
        assert heart_ratio(Finding(0), anatomy, rng) == normal


@pytest.mark.parametrize("view", ["", "AP LLD", "SWIMMERS"])
def test_unknown_views_are_drawn_from_the_front(healthy, view):
    frontal, lateral, unknown = (picture(healthy, v) for v in ("PA", "LATERAL", view))
    assert np.abs(unknown - frontal).mean() < np.abs(unknown - lateral).mean()
