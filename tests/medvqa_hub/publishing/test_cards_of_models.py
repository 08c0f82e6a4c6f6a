"""The command and our trainer write the card of training. A bare `push_to_hub` makes no claims, or is refused."""

import json
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import HfApi, constants
from pushing import SAVE, save_model
from transformers import AutoModelForImageTextToText, Trainer, TrainingArguments

import mimic_cxr_vqa  # noqa: F401 - registers the builder, and with it the guards
from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_hub.families.registry import find_family
from medvqa_hub.publishing.model import ModelPush, push_model
from medvqa_hub.training.trainer import SupervisedTrainer


@pytest.fixture(autouse=True)
def their_client(hub, monkeypatch):
    """transformers asks the client of this process, at its address."""
    client = HfApi(endpoint=hub.endpoint, token=hub.token)
    for module in ("transformers.utils.hub", "transformers.modeling_utils", "transformers.trainer"):
        monkeypatch.setattr(f"{module}.hf_api", lambda: client)
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setenv("HF_TOKEN", hub.token)
    for kind in SAVE:
        find_family(kind).register()


@pytest.fixture(scope="module", params=SAVE)
def folder(request, tmp_path_factory):
    return save_model(tmp_path_factory.mktemp(request.param), request.param)


def card(hub, repo_id: str) -> str:
    return hub.model(repo_id).files["README.md"].decode().replace(repo_id, "REPOSITORY")


def trainer_of(model, out, repo_id) -> Trainer:
    arguments = TrainingArguments(
        str(out), hub_model_id=repo_id, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no"
    )
    return Trainer(model, arguments)


def test_the_command_and_our_trainer_write_the_folder_s_card(folder, hub, api, tmp_path):
    push_model(ModelPush(folder, "me/command"), hub=api, log=lambda line: None)
    ours = SupervisedTrainer.__new__(SupervisedTrainer)
    ours.args, ours.out = SimpleNamespace(hub_model_id="me/ours"), tmp_path / "ours"
    ours.out.mkdir()
    (ours.out / "best").symlink_to(folder)
    ours.push_to_hub(hub=api)
    expected = card(hub, "me/command")
    assert "| 1.50 |" in expected and 'repository = "REPOSITORY"' in expected and "OWNER/NAME" not in expected
    assert card(hub, "me/ours") == expected
    assert (folder / "README.md").read_text().replace("OWNER/NAME", "REPOSITORY") == expected


def test_a_bare_push_of_open_weights_makes_no_claims(folder, hub, tmp_path):
    """transformers writes its own card, with nothing of the folder's history. Other classes need the command."""
    model = AutoModelForImageTextToText.from_pretrained(folder)
    with torch.no_grad():
        next(p for p in model.parameters() if p.dtype.is_floating_point).add_(1)
    model.push_to_hub("me/model")
    model.save_pretrained(tmp_path / "saved", push_to_hub=True, repo_id="me/saved")
    trainer_of(model, tmp_path / "run", "me/plain").push_to_hub()
    for repo_id in ("me/model", "me/saved", "me/plain"):
        assert "1.50" not in card(hub, repo_id) and "model.safetensors" in hub.model(repo_id).files
    model.config.governance = "share-alike"
    for push in (lambda: model.push_to_hub("me/x"), lambda: trainer_of(model, tmp_path / "x", "me/x").push_to_hub()):
        with pytest.raises(PermissionError, match="medvqa-hub push model"):
            push()


@pytest.mark.parametrize("kind", SAVE)
@pytest.mark.parametrize("answers", ["meta-llama/Llama-3.1-70B-Instruct", "llama2:70b"])
def test_what_the_command_refuses_for_its_licence_is_refused_here(kind, answers, hub, api, tmp_path):
    folder = save_model(tmp_path / "model", kind, answers={"engine": "server", "model": answers})
    assert not (folder / "README.md").exists()
    with pytest.raises((ConfigError, GovernanceError)):
        push_model(ModelPush(folder, "me/model"), hub=api)
    model = AutoModelForImageTextToText.from_pretrained(folder)
    for push in (
        lambda: model.push_to_hub("me/model"),
        lambda: model.save_pretrained(tmp_path / "saved", push_to_hub=True, repo_id="me/model"),
        lambda: trainer_of(model, tmp_path / "run", "me/model").push_to_hub(),
    ):
        with pytest.raises(PermissionError, match="medvqa-hub push model"):
            push()
    assert not [asked for asked in hub.requests if "/commit/" in asked or "/preupload" in asked]


@pytest.mark.parametrize("governance", ["no-derivatives", "credentialed"])
def test_a_restricted_model_has_no_card_to_push(governance, hub, tmp_path):
    folder = save_model(tmp_path / "model", governance=governance)
    assert not (folder / "README.md").exists()
    assert json.loads((folder / "config.json").read_text())["governance"] == governance
    model = AutoModelForImageTextToText.from_pretrained(folder)
    for push in (lambda: model.push_to_hub("me/x"), lambda: trainer_of(model, tmp_path, "me/x").push_to_hub()):
        with pytest.raises((PermissionError, GovernanceError)):
            push()
    assert not hub.requests
