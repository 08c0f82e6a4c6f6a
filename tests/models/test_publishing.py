"""Weights without the right to be uploaded stay, also where nothing but the model's own code is there."""

import importlib
import inspect
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from pushing import SAVE, TEXTS, save_model
from transformers import AutoModelForImageTextToText, AutoProcessor, PreTrainedModel

from medvqa_core.governance import Governance
from medvqa_core.upload_guards import declare_part
from medvqa_hub.families.registry import FAMILIES, find_family


def test_every_family_is_tried_here():
    assert SAVE.keys() == FAMILIES.keys()


@pytest.fixture(params=SAVE)
def kind(request) -> str:
    return request.param


@pytest.fixture
def model(kind, tmp_path) -> PreTrainedModel:
    SAVE[kind](tmp_path / "tiny", TEXTS, 0)
    find_family(kind).register()
    return AutoModelForImageTextToText.from_pretrained(tmp_path / "tiny")


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    def left(*_args, **_kwargs):
        raise AssertionError("left the machine")

    for name in ("create_commit", "upload_folder"):
        monkeypatch.setattr(f"huggingface_hub.HfApi.{name}", left)
    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", lambda *_args, **_kwargs: SimpleNamespace(repo_id="me/x"))


@pytest.mark.parametrize("governance", [None, "share-alike", "no-derivatives", "credentialed"])
def test_restricted_weights_are_not_uploaded(model, governance, tmp_path):
    model.config.governance = governance
    for part in (model, model.model):
        part.config.governance = governance
        with pytest.raises(PermissionError, match="Only open ones"):
            part.push_to_hub("me/model")
        with pytest.raises(PermissionError, match="Only open ones"):
            part.save_pretrained(tmp_path / "saved", push_to_hub=True)


def guard_of(kind: str) -> type:
    return importlib.import_module(f"{kind}.publishing_{kind}").GuardedPush


def test_the_guards_are_the_same_file():
    """Each goes to the Hub with its own model's folder, and none may be behind the others."""
    files = {kind: Path(inspect.getfile(guard_of(kind))) for kind in SAVE}
    assert len(set(files.values())) == len(SAVE)
    (content,) = {path.read_bytes() for path in files.values()}
    assert content.count(b"\n") <= 40


def test_the_models_own_guard_needs_nothing_else(kind):
    """The Hub copy has no other guard than this one."""

    class Saved:
        def push_to_hub(self, repository):
            return f"pushed to {repository}"

    class Model(guard_of(kind), Saved):
        config = SimpleNamespace(governance=None)

    for governance in (None, "share-alike", "no-derivatives", "credentialed"):
        Model.config.governance = governance
        with pytest.raises(PermissionError, match="Only open ones"):
            Model().push_to_hub("me/model")
    Model.config.governance = "public"
    with pytest.raises(ValueError, match="'public'.*open, share-alike"):
        Model().push_to_hub("me/model")
    Model.config.governance = "open"
    assert Model().push_to_hub("me/model") == "pushed to me/model"


def test_the_class_and_the_guard_travel_with_the_weights(kind, model, tmp_path):
    model.config.governance = "credentialed"
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["governance"] == "credentialed"
    assert (tmp_path / f"publishing_{kind}.py").is_file()
    assert type(model).from_pretrained(tmp_path).config.governance == "credentialed"


def test_the_processor_states_the_class_in_its_own_file(kind, tmp_path):
    folder = save_model(tmp_path / "model", kind)
    processor = AutoProcessor.from_pretrained(folder)
    declare_part(processor, Governance.CREDENTIALED)
    processor.save_pretrained(tmp_path / "saved")
    saved = tmp_path / "saved" / "processor_config.json"
    assert json.loads(saved.read_text())["governance"] == "credentialed"
    assert AutoProcessor.from_pretrained(tmp_path / "saved").governance == "credentialed"
