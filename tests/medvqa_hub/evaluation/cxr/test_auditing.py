"""The audit tells scripted answerers apart and recovers the shares of mixtures."""

import hashlib
import json
from collections import Counter

import numpy as np
import pytest
from builds import build_release
from tracking_double import RecordingTracker

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import Prediction
from medvqa_hub import tracking
from medvqa_hub.cli import run
from medvqa_hub.evaluation.cxr import auditing
from medvqa_hub.evaluation.cxr.audit_conditions import list_items, make_conditions, read_boxes
from medvqa_hub.evaluation.cxr.auditing import audit_source, find_synthetic_boxes, summarize
from medvqa_hub.evaluation.cxr.evaluation_data import open_data
from medvqa_hub.evaluation.cxr.options import DataOptions

ANSWERS = {"positive": "Yes.", "negative": "No."}
OTHER = {"positive": "negative", "negative": "positive"}


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=110, size=64)


@pytest.fixture(scope="module")
def data(build):
    return open_data(DataOptions(build.workspace.root, "train", image_root=build.tree))


@pytest.fixture(scope="module")
def boxes(build, data):
    return find_synthetic_boxes(build.tree, data)


class Scripted:
    """Answers each question by the strategy that a hash of its id chooses, in the given shares."""

    governance = Governance.OPEN
    model = {"name": "scripted"}
    generation = {}

    def __init__(self, data, **shares: float) -> None:
        items = list_items(data.studies)
        self.labels = {(path.stem, i.category): i.label for i in items for path in i.study.images}
        counts = Counter((item.category, item.label) for item in items)
        self.prior = {i.category: max(ANSWERS, key=lambda label: counts[i.category, label]) for i in items}
        self.shares = shares

    def predict(self, studies, path, governance, digests):
        return [[self._answer(study, row) for row in study.rows] for study in studies], Counter()

    def _answer(self, study, row) -> Prediction:
        place = int(hashlib.sha256(row["qa_id"].encode()).hexdigest()[:8], 16) / 16**8
        ends = np.cumsum(list(self.shares.values()))
        strategy = list(self.shares)[int(np.searchsorted(ends[:-1], place, side="right"))]
        label = getattr(self, f"_{strategy}")(study, row["category"])
        return Prediction(row["qa_id"], row["qa_id"], ANSWERS[label])

    def _prior(self, study, category):
        return self.prior[category]

    def _text(self, study, category):
        stated = study.indication or ""
        return {"Known": "positive", "No": "negative"}.get(stated.split(" ")[0], self.prior[category])

    def _looker(self, study, category, hidden="covered"):
        for path in study.images:
            if path is not None and f"-{hidden}-" in path.name:
                return "negative"
        stems = [path.stem.split("-covered")[0].split("-control")[0] for path in study.images if path is not None]
        found = [self.labels[stem, category] for stem in stems if (stem, category) in self.labels]
        return found[0] if found else self.prior[category]

    def _wrong_region(self, study, category):
        return self._looker(study, category, "control")


@pytest.fixture(scope="module", autouse=True)
def conditions(data, boxes, tmp_path_factory):
    """The changed images are written once."""
    made = make_conditions(list_items(data.studies), boxes, tmp_path_factory.mktemp("audit") / "images")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "make_conditions", lambda *_: dict(made))
        yield made


def audit(data, boxes, out, **shares):
    return audit_source(Scripted(data, **shares), data, out, boxes, with_text=True)["shares"]


# strategy -> looking, following the text, guessing, region
ALONE = {"looker": (1, 0, 0, 1), "prior": (0, 0, 1, 0), "text": (0, 1, 0, 0), "wrong_region": (1, 0, 0, -1)}


@pytest.mark.parametrize(
    "strategy",
    ["text", "wrong_region", *(pytest.param(name, marks=pytest.mark.slow) for name in ("looker", "prior"))],
)
def test_answerers_are_told_apart(strategy, data, boxes, tmp_path):
    found = audit(data, boxes, tmp_path, **{strategy: 1.0})
    names = ("looking", "following_text", "guessing", "region")
    assert [found[name]["value"] for name in names] == pytest.approx(ALONE[strategy], abs=1e-9)
    assert found["looking"]["studies"] > 40 and found["region"]["rows"] > 50
    rows = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert all(row["polarity"].keys() >= {"own", "blank", "noise", "low_pass"} for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("others", ["prior", "text", "wrong_region"])
def test_shares_of_mixtures_are_recovered(share, others, data, boxes, tmp_path):
    found = audit(data, boxes, tmp_path, looker=share, **{others: 1 - share})
    looking = 1.0 if others == "wrong_region" else share
    assert found["looking"]["value"] == pytest.approx(looking, abs=0.05)
    assert found["guessing"]["value"] == pytest.approx(1 - share if others == "prior" else 0, abs=0.05)
    assert found["following_text"]["value"] == pytest.approx(1 - share if others == "text" else 0, abs=0.05)
    assert found["region"]["value"] == pytest.approx(share - (1 - share) * (others == "wrong_region"), abs=0.05)


def test_covered_and_control_are_different_images_of_the_same_findings(conditions):
    assert conditions["covered"].keys() == conditions["control"].keys() and len(conditions["covered"]) > 20
    for number, study in conditions["covered"].items():
        assert study.images != conditions["control"][number].images != conditions["own"][number].images


def test_boxes_are_fractions(tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text("dicom_id,finding,left,top,right,bottom\na,Edema,0.1,0.2,0.5,0.6\n")
    assert read_boxes(path) == {("a", "Edema"): [(0.1, 0.2, 0.5, 0.6)]}
    path.write_text("dicom_id,finding,left,top,right,bottom\na,Edema,10,20,50,60\n")
    with pytest.raises(InputError, match="row 1.*fractions"):
        read_boxes(path)


def test_an_audit_does_not_take_a_file_of_answers(build, tmp_path, capsys):
    arguments = ["audit", "cxr", "--data", str(build.workspace.root), "--out", str(tmp_path / "out")]
    assert run([*arguments, "--image-root", str(build.tree)]) == 1
    assert "--model" in capsys.readouterr().err


def test_the_numbers_of_an_audit_reach_a_tracker(tmp_path, monkeypatch, capsys):
    rows = [
        {"study_id": study, "label_value": "positive", "polarity": {"own": "positive", "opposite": opposite}}
        for study, opposite in enumerate(["positive", "negative", "negative", "negative"])
    ]
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
        "audit/shares/looking": 0.75, "audit/shares/guessing": 0.25,
    }  # fmt: skip
    ((step, numbers),) = tracker.numbers
    assert step == 0 and numbers == pytest.approx(expected) and tracker.closed and not tracker.samples
