"""Conditions, regions and measures of the audit. Scripted answerers: `tests/benchmarks/test_audit_dummies.py`."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from builds import build_release
from PIL import Image
from tracking_double import RecordingTracker

from medvqa_core.errors import InputError
from medvqa_hub import tracking
from medvqa_hub.cli import run
from medvqa_hub.evaluation.cxr.audit_boxes import find_controls, merge_boxes, open_boxes, read_boxes
from medvqa_hub.evaluation.cxr.audit_conditions import OPPOSITE, TEXTS, list_items, make_conditions
from medvqa_hub.evaluation.cxr.audit_images import _find_pixels
from medvqa_hub.evaluation.cxr.audit_measures import Measures
from medvqa_hub.evaluation.cxr.evaluation_data import open_data
from medvqa_hub.evaluation.cxr.generating import digest_images
from medvqa_hub.evaluation.cxr.options import DataOptions
from medvqa_hub.evaluation.cxr.studies import Study

OWN_FORMAT = "dicom_id,finding,left,top,right,bottom\n"


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=60, size=64)


@pytest.fixture(scope="module")
def data(build):
    return open_data(DataOptions(build.workspace.root, "train", image_root=build.tree))


@pytest.fixture(scope="module")
def items(data):
    return list_items(data.studies)


@pytest.fixture(scope="module")
def boxes(build, data):
    return open_boxes(None, build.tree, data.studies).boxes


@pytest.fixture(scope="module")
def conditions(data, items, boxes, tmp_path_factory):
    return make_conditions(items, boxes, tmp_path_factory.mktemp("audit"), digest_images(data.studies))


def pixels(path):
    return np.asarray(Image.open(path).convert("L")).astype(int)


def test_donors_are_other_patients_with_the_label_and_the_views(items, conditions):
    labels = {(item.study.images, item.category): (item.label, item.study.subject_id) for item in items}
    for name, expected in (("same", {"positive": "positive", "negative": "negative"}), ("opposite", OPPOSITE)):
        assert len(conditions[name]) > 20
        for number, study in conditions[name].items():
            label, patient = labels[study.images, items[number].category]
            assert label == expected[items[number].label] and patient != study.subject_id
            assert sorted(study.views, key=str) == sorted(items[number].study.views, key=str)
            assert study.indication == items[number].study.indication


def test_donors_are_used_about_equally_often(tmp_path):
    def study(number, label):
        row = {"qa_id": f"{number}", "category": "Edema", "label_value": label, "question": "?"}
        return Study(number, number, "test", (Path(f"{number}.png"),), ("AP",), (row,))

    of = [study(n, "positive" if n < 3 else "negative") for n in range(12)]
    digests = {path: f"{n:016x}" for n, one in enumerate(of) for path in one.images}
    changed = make_conditions(list_items(of), {}, tmp_path, digests)["opposite"]
    used = [changed[number].images[0].name for number in range(3, 12)]
    assert sorted(used.count(f"{n}.png") for n in range(3)) == [3, 3, 3]


def test_images_without_content_are_noise_blank_low_pass_and_none(items, conditions):
    for number, item in list(enumerate(items))[:20]:
        original, low = pixels(item.study.images[0]), pixels(conditions["low_pass"][number].images[0])
        noise = pixels(conditions["noise"][number].images[0])
        assert conditions["blank"][number].images == (None,) * len(item.study.images)
        assert conditions["none"][number].images == conditions["none"][number].views == ()
        assert abs(np.corrcoef(noise.ravel(), original.ravel())[0, 1]) < 0.1 and noise.std() > 60
        assert abs(low.mean() - original.mean()) < 3
        assert np.abs(np.diff(low)).mean() < np.abs(np.diff(original)).mean()


def test_the_region_and_a_control_of_the_same_size_are_covered(items, conditions, boxes):
    assert conditions["covered"].keys() == conditions["control"].keys() and len(conditions["covered"]) > 20
    for number, study in conditions["covered"].items():
        item = items[number]
        assert item.label == "positive"
        for original, covered, control in zip(
            item.study.images, study.images, conditions["control"][number].images, strict=True
        ):
            found = boxes.get((original.stem, item.category))
            if not found:
                assert covered == control == original
                continue
            ((left, top, right, bottom),) = found
            height, width = pixels(original).shape
            rows = slice(int(top * height), int(np.ceil(bottom * height - 1e-6)))
            columns = slice(int(left * width), int(np.ceil(right * width - 1e-6)))
            assert len(np.unique(pixels(covered)[rows, columns])) == 1
            changed = pixels(covered) != pixels(original)
            changed[max(0, rows.start - 1) : rows.stop + 1, max(0, columns.start - 1) : columns.stop + 1] = False
            assert not changed.any()
            assert (pixels(control) == pixels(original))[rows, columns].all()


def test_patches_contain_their_box_and_are_of_one_size():
    for width in (0.1, 0.25, 0.333, 0.5):
        sizes = set()
        for left in np.linspace(0, 1 - width, 37):
            x, y, right, bottom = _find_pixels((left, 0.2, left + width, 0.4), (64, 90))
            assert 0 <= x <= left * 64 + 1e-6 and (left + width) * 64 - 1e-6 <= right <= 64
            assert y <= 18 and bottom >= 36
            sizes.add((right - x, bottom - y))
        assert len(sizes) == 1


def test_indications_agree_or_disagree_with_the_label(items, conditions):
    for number, item in enumerate(items):
        stated = {"positive": f"Known {item.category.lower()}.", "negative": f"No {item.category.lower()} on a recent "}
        assert conditions["supporting"][number].indication.startswith(stated[item.label])
        assert conditions["contradicting"][number].indication.startswith(stated[OPPOSITE[item.label]])
        if number in conditions["opposite"]:
            both = conditions["opposite_supporting"][number]
            assert both.images == conditions["opposite"][number].images
            assert both.indication == conditions["supporting"][number].indication


def test_overlapping_boxes_of_readers_become_one_and_controls_do_not_overlap():
    merged = merge_boxes([(0.1, 0.1, 0.3, 0.3), (0.6, 0.6, 0.7, 0.7), (0.2, 0.2, 0.4, 0.4)])
    assert sorted(merged) == [(0.1, 0.1, 0.4, 0.4), (0.6, 0.6, 0.7, 0.7)]
    controls = find_controls(merged)
    for box, control in zip(merged, controls, strict=True):
        assert control[2] - control[0] == pytest.approx(box[2] - box[0])
        assert control[3] - control[1] == pytest.approx(box[3] - box[1])
    assert len(merge_boxes([*merged, *controls])) == 4
    assert find_controls([(0, 0, 1, 0.3), (0, 0.31, 1, 0.69)]) is None  # no place is left
    assert find_controls([(0, 0, 0.7, 0.7)]) is None  # larger than LARGEST_REGION


TABLES = {
    "own": OWN_FORMAT + "a,Edema,0.1,0.25,0.5,0.75\nb,Edema,0.1,0.2,0.5,0.6\n",
    "ms_cxr": "category_name,label_text,x,y,w,h,image_width,image_height,dicom_id\n"
    'Edema,"edema, mild",100,500,400,1000,1000,2000,a\n',
    "mimic_ext": "dicom_id,finding,x1,y1,x2,y2,width,height\na,pulmonary edema,100,500,500,1500,1000,2000\n",
    "vindr": "image_id,rad_id,class_name,x_min,y_min,x_max,y_max\na,R8,Edema,20,50,100,150\n"
    "a,R9,No finding,,,,\na,R9,Aortic enlargement,1,1,5,5\nother,R9,Edema,20,50,100,150\n",
}


@pytest.fixture
def one_image(tmp_path):
    Image.new("L", (200, 200)).save(tmp_path / "a.png")
    return [Study(1, 1, "test", (tmp_path / "a.png",), ("PA",), ())]


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_boxes(name, one_image, tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text(TABLES[name])
    table = read_boxes(path, one_image)
    assert table.boxes == {("a", "Edema"): [pytest.approx((0.1, 0.25, 0.5, 0.75))]}
    assert table.described["used"] == 1
    if name == "vindr":
        left_out = {"without corners": 1, "Aortic enlargement": 1, "of other images": 1}
        assert table.described["left_out"] == left_out and table.described["rows"] == 4


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (OWN_FORMAT + "a,Edema,10,20,50,60\n", "row 1.*fractions"),
        (OWN_FORMAT + "a,Edema,0.5,0.2,0.4,0.6\n", "row 1.*invalid"),
        ("image_id,class_name,x_min,y_min,x_max,y_max\na,Edema,20,50,300,150\n", "200 x 200"),
        ("image_id,class_name,x_min,y_min,x_max,y_max\na,Edema,20,?,300,150\n", "numbers"),
        ("image_id,class_name,x_min,y_min\na,Edema,20,50\n", "corners"),
        ("file,class_name,x_min,y_min,x_max,y_max\na,Edema,20,50,60,150\n", "dicom_id or image_id"),
        (OWN_FORMAT + "b,Edema,0.1,0.2,0.5,0.6\n", "none of its 1 rows"),
    ],
)
def test_broken_tables_of_boxes_are_refused(text, match, one_image, tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=match):
        read_boxes(path, one_image)


def make_row(study, label, category="Edema", confidence=None, donor=None, **polarity):
    words = {"+": "positive", "-": "negative", "?": "undecided", None: None}
    return {
        "study_id": study,
        "label_value": words[label],
        "category": category,
        "polarity": {name: words[value] for name, value in polarity.items()},
        "confidence": confidence or {},
        "donor": donor or {},
    }


def summarize(rows):
    return Measures(rows).summarize(rows)


def test_parts_and_shares_by_hand():
    rows = [
        make_row(1, "+", own="+", opposite="-", same="+"),
        make_row(2, "+", own="+", opposite="+", same="-"),
        make_row(3, "-", own="+", opposite="-", same="+"),
        make_row(4, "-", own="?", opposite="+", same="?"),
        make_row(5, "-", own="-", opposite=None, same="-"),  # failed: not in the parts
        make_row(6, "-", own="-", same="+"),  # without a donor
    ]
    found = summarize(rows)
    assert found["accuracy"]["own"]["value"] == 4 / 6
    values = {name: part["value"] for name, part in found["parts"]["images"].items()}
    # right with own: rows 1 and 2 of 4; the own label with the opposite images: rows 2 and 3
    assert values == {"accuracy": 0.5, "looking": 0.0, "guessing": 0.5}
    assert found["parts"]["images"]["looking"]["rows"] == 4 and found["parts"]["stated"] is None
    assert found["failed"] == {"opposite": 1}
    assert found["changed"]["opposite"]["value"] == 3 / 4
    # changed with opposite images 1, 0, 1, 1 and with same 0, 1, 0, 0
    assert found["shares"]["responding"]["value"] == pytest.approx(3 / 4 - 1 / 4)
    assert found["shares"]["region"] is None
    assert found["behaviour"]["changes_when_it_should"]["value"] == 3 / 4
    assert found["behaviour"]["stays_when_it_should"]["value"] == pytest.approx(4 / 6)


def test_parts_with_a_stated_indication_by_hand():
    texts = dict(zip(TEXTS, "++--", strict=True))  # follows the images
    other = dict(zip(TEXTS, "+-+-", strict=True))  # follows the indication
    always = dict(zip(TEXTS, "++++", strict=True))
    rows = [make_row(n, "+", own="+", **found) for n, found in enumerate([texts, other, other, always])]
    found = summarize(rows)
    values = {name: part["value"] for name, part in found["parts"]["stated"].items()}
    assert values == {"accuracy": 1.0, "looking": 0.25, "following_text": 0.5, "guessing": 0.25}
    shares = {name: found["shares"][name]["value"] for name in ("looking", "following_text", "guessing")}
    assert shares == {"looking": 0.25, "following_text": 0.5, "guessing": 0.25}


def test_intervals_are_over_studies_and_contain_the_truth_about_as_often_as_they_state():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(60):
        rows = []
        for study in range(60):
            looks = rng.random() < 0.5  # a study's questions are answered alike
            rows += [make_row(study, "+", own="+", opposite="-" if looks else "+") for _ in range(5)]
        low, high = summarize(rows)["shares"]["looking"]["interval"]
        hits += low <= 0.5 <= high
    assert 52 <= hits <= 60  # 0.95 * 60 = 57


def test_intervals_know_that_few_donors_are_few():
    """A guesser reads something else in each image. Its answer to a donor's image is shared by all who get it."""
    rng = np.random.default_rng(1)
    hits = Counter()
    for _ in range(60):
        shown = {study: "+-"[rng.random() < 0.5] for study in range(60)}
        rows = []
        for study in range(60):
            label = "+" if study < 10 else "-"
            donor = int(rng.integers(10, 60)) if label == "+" else int(rng.integers(0, 10))
            polarity = {"own": shown[study], "opposite": shown[donor]}
            rows.append(make_row(study, label, donor={"opposite": donor}, **polarity))
        for name, used in (("known", rows), ("ignored", [{**row, "donor": {}} for row in rows])):
            low, high = summarize(used)["shares"]["looking"]["interval"]
            hits[name] += low <= 0 <= high
    assert hits["known"] >= 54 > hits["ignored"]  # 57 are expected of 60


def test_an_audit_needs_a_model(build, tmp_path, capsys):
    arguments = ["audit", "cxr", "--data", str(build.workspace.root), "--out", str(tmp_path / "out")]
    assert run([*arguments, "--image-root", str(build.tree)]) == 1
    assert "--model" in capsys.readouterr().err


def test_the_numbers_of_an_audit_reach_a_tracker(tmp_path, monkeypatch, capsys):
    rows = [make_row(study, "+", own="+", opposite=opposite) for study, opposite in enumerate("+---")]
    summary = {"governance": "credentialed", **summarize(rows), "by_finding": {}}
    monkeypatch.setattr("medvqa_hub.evaluation.cxr.auditing.audit_cxr", lambda *_: summary)
    monkeypatch.setattr("medvqa_hub.evaluation.cxr.audit_tables.print_audit", lambda *_: None)
    monkeypatch.setattr("medvqa_hub.evaluation.audit_cli.check_trackers", lambda _: None)
    monkeypatch.setitem(tracking.TRACKERS, "wandb", RecordingTracker)
    arguments = ["audit", "cxr", "--data", str(tmp_path), "--model", str(tmp_path), "--out", str(tmp_path / "out")]
    assert run([*arguments, "--report-to", "wandb"]) == 0
    tracker = RecordingTracker.opened[-1]
    expected = {
        "audit/accuracy/own": 1.0, "audit/accuracy/opposite": 0.25, "audit/changed/opposite": 0.75,
        "audit/shares/looking": 0.75, "audit/shares/guessing": 0.25, "audit/behaviour/changes_when_it_should": 0.75,
    }  # fmt: skip
    ((step, numbers),) = tracker.numbers
    assert step == 0 and numbers == pytest.approx(expected) and tracker.closed and not tracker.samples
