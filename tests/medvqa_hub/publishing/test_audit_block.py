"""The block of a model's card with its audit, and audits of other models."""

import json

import pytest
from pushing import save_model

from medvqa_core.errors import InputError
from medvqa_hub.families.checkpoint import open_checkpoint
from medvqa_hub.publishing.model import ModelPush, push_model


def estimate(value, interval=(0.4, 0.6)):
    return {"value": value, "interval": interval, "rows": 10, "studies": 5}


@pytest.fixture
def folder(tmp_path):
    return save_model(tmp_path / "model", "swin_ved")


@pytest.fixture
def audit(folder, tmp_path):
    shares = {"looking": estimate(0.5), "following_text": None, "guessing": estimate(0.5, None)}
    summary = {
        "kind": "cxr-audit",
        "model": {"name": "m", "fingerprint": open_checkpoint(str(folder)).fingerprint},
        "data": {"split": "test", "source": "phantom", "fingerprint": "abc", "studies": 1200, "questions": 3},
        "parts": {"images": {"accuracy": estimate(0.8), "looking": estimate(0.5), "guessing": estimate(0.3)}},
        "shares": shares,
        "behaviour": {},
        "calibration": None,
        "by_finding": {"Edema": {"shares": shares}, "Fracture": {"shares": {"looking": None}}},
    }
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "audit.json").write_text(json.dumps(summary))
    return tmp_path / "audit"


def test_the_card_shows_the_audit(folder, audit, hub, api):
    push_model(ModelPush(folder, "me/model", audit=audit), hub=api, log=lambda line: None)
    card = hub.model("me/model").files["README.md"].decode()
    assert "### Does the model look at the images?" in card and "1,200 studies" in card
    assert "Accuracy 0.80 = 0.50 from the images + 0.30 right without them." in card
    assert "| looking | 0.50 [0.40, 0.60] |" in card and "| guessing | 0.50 |" in card
    assert "following text" not in card and "calibration" not in card  # not measured
    assert "| Edema | 0.50 [0.40, 0.60] |" in card and "| Fracture |" not in card


def test_a_card_without_an_audit_has_no_block(folder, hub, api):
    push_model(ModelPush(folder, "me/model"), hub=api, log=lambda line: None)
    assert "look at the images" not in hub.model("me/model").files["README.md"].decode()


def test_audits_of_other_models_are_refused(folder, audit, hub, api, tmp_path):
    path = audit / "audit.json"
    path.write_text(path.read_text().replace(open_checkpoint(str(folder)).fingerprint, "0" * 16))
    with pytest.raises(InputError, match="not an audit of this model"):
        push_model(ModelPush(folder, "me/model", audit=audit), hub=api)
    with pytest.raises(InputError, match="audit cxr"):
        push_model(ModelPush(folder, "me/model", audit=tmp_path), hub=api)
    assert not hub.requests
