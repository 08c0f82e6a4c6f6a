"""`model.push_to_hub`, a plain Trainer, ours and the command write one card, of the weights that they send."""

import json
from types import SimpleNamespace

import pytest
import torch
import yaml
from huggingface_hub import HfApi, constants
from pushing import save_model
from transformers import AutoModelForImageTextToText, Trainer, TrainingArguments

import mimic_cxr_vqa  # noqa: F401 - registers the builder, and with it the guards
from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_hub.families.registry import find_family
from medvqa_hub.publishing.model import ModelPush, push_model
from medvqa_hub.training.trainer import SupervisedTrainer

KINDS = ("swin_ved", "blip2_multiview")


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
    for kind in KINDS:
        find_family(kind).register()


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory):
    return save_model(tmp_path_factory.mktemp(request.param), request.param)


def card(hub, repo_id: str) -> str:
    return hub.model(repo_id).files["README.md"].decode().replace(repo_id, "REPOSITORY")


def trainer_of(model, out, repo_id) -> Trainer:
    arguments = TrainingArguments(
        str(out), hub_model_id=repo_id, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no"
    )
    return Trainer(model, arguments)


def test_one_folder_has_one_card(folder, hub, api, tmp_path):
    push_model(ModelPush(folder, "me/command"), hub=api, log=lambda line: None)
    AutoModelForImageTextToText.from_pretrained(folder).push_to_hub("me/model")
    saved = AutoModelForImageTextToText.from_pretrained(folder)
    saved.save_pretrained(tmp_path / "saved", push_to_hub=True, repo_id="me/saved")
    trainer_of(AutoModelForImageTextToText.from_pretrained(folder), tmp_path / "run", "me/plain").push_to_hub()
    ours = SupervisedTrainer.__new__(SupervisedTrainer)
    ours.args, ours.out = SimpleNamespace(hub_model_id="me/ours"), tmp_path / "ours"
    ours.out.mkdir()
    (ours.out / "best").symlink_to(folder)
    ours.push_to_hub(hub=api)
    expected = card(hub, "me/command")
    assert "| 1.50 |" in expected and 'repository = "REPOSITORY"' in expected and "OWNER/NAME" not in expected
    for repo_id in ("me/model", "me/saved", "me/plain", "me/ours"):
        assert card(hub, repo_id) == expected, repo_id
    assert (folder / "README.md").read_text().replace("OWNER/NAME", "REPOSITORY") == expected


def change(model) -> None:
    with torch.no_grad():
        next(p for p in model.parameters() if p.dtype.is_floating_point).add_(1)


def test_other_weights_do_not_get_the_folder_s_card(folder, hub, tmp_path):
    """Trained on, raised in class, or saved over the folder itself: nothing of the old history is said of them."""
    model = AutoModelForImageTextToText.from_pretrained(folder)
    change(model)
    model.push_to_hub("me/changed")
    trainer_of(model, tmp_path / "run", "me/trained").push_to_hub()
    raised = AutoModelForImageTextToText.from_pretrained(folder)
    raised.config.governance = "share-alike"
    raised.push_to_hub("me/raised")
    licences = {"me/changed": "apache-2.0", "me/trained": "apache-2.0", "me/raised": "cc-by-nc-sa-4.0"}
    for repo_id, licence in licences.items():
        text = card(hub, repo_id)
        assert "are not described here" in text and "1.50" not in text and type(model).__name__ in text
        metadata = yaml.safe_load(text.split("---\n")[1])
        assert (metadata["license"], metadata["pipeline_tag"]) == (licence, "image-text-to-text")
    assert "Jin et al." in card(hub, "me/raised") and "governance-share-alike" in card(hub, "me/raised")


def test_an_older_card_does_not_stay_over_other_weights(folder, hub):
    model = AutoModelForImageTextToText.from_pretrained(folder)
    model.push_to_hub("me/model")
    change(model)
    model.push_to_hub("me/model")
    assert "are not described here" in card(hub, "me/model")


@pytest.mark.parametrize("kind", KINDS)
def test_saving_over_the_folder_does_not_keep_its_history(kind, hub, tmp_path):
    folder = save_model(tmp_path / "model", kind)
    model = AutoModelForImageTextToText.from_pretrained(folder)
    change(model)
    model.save_pretrained(folder, push_to_hub=True, repo_id="me/over")
    assert "are not described here" in card(hub, "me/over")


def test_a_folder_beside_us_is_not_where_a_fresh_model_came_from(folder, hub, monkeypatch):
    """A model that was never loaded has no folder, wherever the program runs."""
    monkeypatch.chdir(folder)
    model = AutoModelForImageTextToText.from_config(AutoModelForImageTextToText.from_pretrained(folder).config)
    model.name_or_path = ""
    model.push_to_hub("me/fresh")
    assert "are not described here" in card(hub, "me/fresh")


@pytest.mark.parametrize("kind", KINDS)
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
