"""`push model`: what goes, with which card and licence; what does not; what people do with it afterwards."""

import io
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from evaluation_models import texts_of
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import GatedRepoError
from PIL import Image
from pushing import SAVE, run_stranger, save_model
from transformers import AutoModelForImageTextToText

from medvqa_core import minimum_class
from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from medvqa_hub.families.checkpoint import open_checkpoint
from medvqa_hub.publishing.check_conditions import check_generation_settings
from medvqa_hub.publishing.model import ModelPush, push_model
from medvqa_hub.publishing.staging import MARK
from medvqa_hub.training.trainer import SupervisedTrainer
from mimic_cxr_vqa.parquet_files import read_table
from mimic_cxr_vqa.release import open_release

WORDS = "I hold the agreement, and my institution agreed to a gated release."


def push(hub, api, folder, repo_id="me/model", **options):
    return push_model(ModelPush(folder, repo_id, **options), hub=api, log=lambda line: None)


def metadata_of(card: bytes) -> dict:
    return yaml.safe_load(card.decode().split("---\n")[1])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {kind: save_model(tmp_path_factory.mktemp(kind), kind) for kind in SAVE}


@pytest.mark.parametrize("kind", SAVE)
def test_a_pushed_model_is_complete_and_its_own(kind, folders, hub, api):
    push(hub, api, folders[kind])
    files = hub.model("me/model").files
    code = {name for name in files if name.endswith(".py")}
    assert {f"{part}_{kind}.py" for part in ("configuration", "modeling", "processing", "publishing")} <= code
    assert not {f"convert_{kind}.py", "__init__.py"} & code
    named = {"README.md", MARK, "config.json", "model.safetensors", "processor_config.json", "training.json"}
    assert named | {"tokenizer.json", "tokenizer_config.json", "governance.json"} <= set(files)
    metadata = metadata_of(files["README.md"])
    assert (metadata["license"], metadata["pipeline_tag"]) == ("apache-2.0", "image-text-to-text")
    assert "governance-open" in metadata["tags"] and "extra_gated_prompt" not in metadata
    card = files["README.md"].decode()
    assert "not been evaluated" in card and "| 1.50 |" in card and "17, 472" in card
    assert hub.model("me/model").gated is False


def test_a_dataset_without_scores_is_an_error(folders, hub, api):
    with pytest.raises(ConfigError, match="--dataset-id .*--scores"):
        push(hub, api, folders["swin_ved"], dataset_id="me/cxr")
    assert not hub.requests


@pytest.mark.parametrize("missing", ["findings", "table_4"])
def test_scores_on_other_questions_are_refused_by_name(missing, folders, hub, api, tmp_path):
    """Public sets have no labels to find, and report pages no Table 4: the card has no place for either."""
    fingerprint = open_checkpoint(str(folders["swin_ved"])).fingerprint
    parts = ("data", "table_4", "counts", "findings", "by_category", "scored_with", "libraries", "images")
    result = {part: {} for part in parts if part != missing} | {"model": {"fingerprint": fingerprint}}
    (tmp_path / "results.json").write_text(json.dumps(result))
    with pytest.raises(InputError, match=f"results.json.*{missing}.*evaluate cxr"):
        push(hub, api, folders["swin_ved"], scores=tmp_path)
    assert not hub.requests


def test_only_named_files_go(folders, hub, api, tmp_path):
    """Whatever else lies in the folder stays there: notes, reports, archives, code that somebody changed."""
    folder = shutil.copytree(folders["swin_ved"], tmp_path / "model")
    for name in ("notes.md", "predictions.jsonl", "reports.zip", "optimizer.pt", "evil.py", "manifest2.json"):
        (folder / name).write_text("The patient has an effusion.")
    (folder / "modeling_swin_ved.py").write_text("import os\n")
    (folder / "images").mkdir()
    (folder / "images" / "a.jpg").write_bytes(b"\xff\xd8\xff")
    push(hub, api, folder)
    files = hub.model("me/model").files
    assert not {"notes.md", "predictions.jsonl", "reports.zip", "optimizer.pt", "evil.py", "images/a.jpg"} & set(files)
    assert b"class SwinVed" in files["modeling_swin_ved.py"]


@pytest.mark.parametrize("shard", ["notes.md", "../model.safetensors", 3])
def test_an_index_names_weights_and_nothing_else(shard, folders, hub, api, tmp_path):
    folder = shutil.copytree(folders["swin_ved"], tmp_path / "model")
    (folder / "notes.md").write_text("The patient has an effusion.")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": shard}}))
    with pytest.raises(InputError, match="weight_map"):
        push(hub, api, folder)
    assert not hub.requests


def test_places_of_this_machine_stay_here(folders, hub, api, tmp_path):
    folder = shutil.copytree(folders["swin_ved"], tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["_name_or_path"] = config["encoder"]["_name_or_path"] = str(folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "recipe.yaml").write_text(
        f"model:\n  kind: swin_ved\n  pretrained_encoder: {folder}\n  tokenizer: null\n"
    )
    push(hub, api, folder)
    files = hub.model("me/model").files
    assert not [name for name, content in files.items() if str(tmp_path).encode() in content]
    assert yaml.safe_load(files["recipe.yaml"])["model"]["pretrained_encoder"] == "model"


def with_class(folder, tmp_path, name="model", config="open", file="open", manifest=None, run=None):
    """A copy of a model folder whose parts state these classes; None: they state none."""
    copy = shutil.copytree(folder, tmp_path / name / "best")
    values = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**values, "governance": config}))
    for path, stated in ((copy, file), (tmp_path / name, run)):
        (path / "governance.json").unlink(missing_ok=True)
        if stated is not None:
            (path / "governance.json").write_text(json.dumps({"governance": stated, "format": 2}))
    if manifest is not None:
        (copy / "manifest.json").write_text(json.dumps({"kind": "trained-model", "governance": manifest}))
    return tmp_path / name


ATTACKS = [
    {"config": "credentialed"},
    {"config": None, "file": None},
    {"file": "credentialed"},
    {"manifest": "credentialed"},
    {"run": "credentialed"},
    {"config": "no-derivatives"},
    {"file": "no-derivatives"},
    {"manifest": "no-derivatives"},
    {"run": "no-derivatives"},
    {"config": "public"},
    {"manifest": "share-alike and more"},
]


@pytest.mark.parametrize("said", ATTACKS, ids=str)
@pytest.mark.parametrize("public", [None, False, True])
def test_one_strict_word_is_enough_and_an_edited_other_one_undoes_nothing(said, public, folders, hub, api, tmp_path):
    folder = with_class(folders["swin_ved"], tmp_path, **said)
    with pytest.raises(GovernanceError):
        push(hub, api, folder, public=public)
    shutil.move(folder, tmp_path / "swin-ved-open-phantom")
    with pytest.raises(GovernanceError):
        push(hub, api, tmp_path / "swin-ved-open-phantom", public=public)
    assert not hub.requests


def test_no_derivatives_are_refused_whatever_is_acknowledged(folders, hub, api, tmp_path):
    folder = with_class(folders["swin_ved"], tmp_path, config="no-derivatives")
    with pytest.raises(GovernanceError, match="no-derivatives"):
        push(hub, api, folder, acknowledgement=WORDS)


def test_linked_weights_are_refused(folders, hub, api, tmp_path):
    folder = shutil.copytree(folders["swin_ved"], tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(folders["swin_ved"] / "model.safetensors")
    with pytest.raises(InputError, match="is a symbolic link"):
        push(hub, api, folder)
    assert not hub.requests


def test_a_vocabulary_with_ids_is_refused(hub, api, tmp_path):
    folder = save_model(tmp_path, texts=["the study s50414267 of p10000032"])
    with pytest.raises(GovernanceError, match="tokenizer.json"):
        push(hub, api, folder)
    assert not hub.requests


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "processor_config.json").unlink(), "processor_config.json"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no \\*.safetensors weights"),
        (lambda folder: (folder / "config.json").unlink(), "no model found"),
        (lambda folder: (folder / "adapter_config.json").touch(), "LoRA adapter"),
        (lambda folder: (folder / "processor_config.json").write_text("{}"), "no auto_map for AutoProcessor"),
    ],
)
def test_a_folder_that_is_no_whole_model(damage, message, folders, hub, api, tmp_path):
    folder = shutil.copytree(folders["swin_ved"], tmp_path / "model")
    damage(folder)
    with pytest.raises(InputError, match=message):
        push(hub, api, folder)


def test_llama_s_outputs_ask_for_its_name_and_notice(hub, api, tmp_path):
    folder = save_model(tmp_path / "a", answers={"engine": "server", "model": "meta-llama/Llama-3.1-70B-Instruct"})
    with pytest.raises(ConfigError, match="Push to me/Llama-swin-ved"):
        push(hub, api, folder, "me/swin-ved")
    push(hub, api, folder, "me/Llama-swin-ved")
    files = hub.model("me/Llama-swin-ved").files
    assert metadata_of(files["README.md"])["license"] == "llama3.1"
    assert b"**Built with Llama.**" in files["README.md"] and b"Llama 3.1 Community License" in files["NOTICE.txt"]
    old = save_model(tmp_path / "b", answers={"engine": "server", "model": "llama2:70b"})
    with pytest.raises(GovernanceError, match="Llama 2"):
        push(hub, api, old, "me/Llama-2-swin-ved")
    authors = save_model(tmp_path / "c", source="the authors' release", answers={})
    with pytest.raises(ConfigError, match="outputs of Llama 3.1"):
        push(hub, api, authors, "me/swin-ved")


@pytest.mark.parametrize("governance", ["open", "credentialed"])
def test_a_model_of_another_source_does_not_get_the_licence_of_mimic(governance, hub, api, tmp_path, monkeypatch):
    monkeypatch.setitem(minimum_class.SOURCES, "hospital", Governance(governance))
    folder = save_model(tmp_path, governance=governance, source="hospital")
    assert not (folder / "README.md").exists()  # push_to_hub would upload it
    if governance == "credentialed":
        with pytest.raises(GovernanceError, match="'hospital'"):
            push(hub, api, folder, acknowledgement=WORDS, scores=tmp_path, workspace=tmp_path)
        assert not hub.requests
        return
    push(hub, api, folder)
    card = hub.model("me/model").files["README.md"]
    assert metadata_of(card)["license"] == "other" and metadata_of(card)["license_name"] == "that-of-the-source"
    assert b"source `hospital`" in card and not re.search(b"PhysioNet|synthetic data only", card)


def test_share_alike_weights_keep_their_licence(folders, hub, api, tmp_path):
    push(hub, api, with_class(folders["swin_ved"], tmp_path, config="share-alike", file="share-alike"))
    card = hub.model("me/model").files["README.md"]
    assert metadata_of(card)["license"] == "cc-by-nc-sa-4.0" and b"Jin et al." in card


def test_a_dry_run_shows_everything_and_asks_nobody(folders, hub, capsys):
    assert run(["push", "model", str(folders["swin_ved"]), "--repo-id", "me/model", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "dry run: nothing is sent to me/model" in printed and "governance class: open, gate: none" in printed
    assert "# SwinVED for medical" in printed and re.search(r"model\.safetensors +[\d,]+ bytes", printed)
    assert not hub.requests


def study(folder) -> None:
    for name in ("frontal.png", "lateral.png"):
        Image.effect_noise((90, 110), 60).save(folder / name)


def snippets_of(repository) -> list[str]:
    return re.findall(r"```python\n(.*?)```", repository.files["README.md"].decode(), re.DOTALL)


TRAIN_ON = """
assert len(answers) == 2 and all(isinstance(answer, str) for answer in answers)
assert type(model).__module__.startswith("transformers_modules")
import inspect
views = {"views": [["PA"]]} if "views" in inspect.signature(processor.__call__).parameters else {}
inputs = processor(images=[[Image.open("frontal.png")]], text=["is there edema?"], answers=["no edema ."], **views)
import torch
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
first = model(**inputs).loss
first.backward()
optimizer.step()
assert model(**inputs).loss < first
assert model.config.governance == "open"
model.save_pretrained("again")
processor.save_pretrained("again")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAVE)
def test_a_stranger_uses_the_card_trains_on_and_pushes_again(kind, folders, hub, api, tmp_path):
    """The card's snippets as they stand, without our package, in another process; one more step; the old one by its
    tag."""
    first = push(hub, api, folders[kind])
    study(tmp_path)
    plain, _, *more = snippets_of(hub.model("me/model"))
    run_stranger(hub, plain + TRAIN_ON + "".join(more), tmp_path)
    second = push(hub, api, tmp_path / "again")
    assert (first.tag, second.tag) == ("v1.0.0", "v1.1.0")
    old, new = (
        Path(api.snapshot_download("me/model", revision=tag, cache_dir=tmp_path / "snapshots"))
        for tag in (first.tag, second.tag)
    )
    assert open_checkpoint(str(old)).fingerprint == open_checkpoint(str(folders[kind])).fingerprint
    weights = [AutoModelForImageTextToText.from_pretrained(folder).state_dict() for folder in (old, new)]
    assert any(not torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


def test_the_snippet_for_people_with_this_package(folders, hub, api, monkeypatch):
    """Both models by one server: transformers keeps the client, and so the address, that it first asked with."""
    monkeypatch.setattr("transformers.utils.hub._hf_api", None)
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    template = hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    for kind in SAVE:
        push(hub, api, folders[kind], f"me/{kind}", public=True)
        names = {}
        exec(snippets_of(hub.model(f"me/{kind}"))[1], names)
        assert type(names["model"]).__module__.startswith(f"{kind}.")


def credentialed(build, tmp_path):
    """A workspace and a model of the class, and the model's scores. The reports are drawn ones, said to be MIMIC's."""
    workspace = tmp_path / "cxr"
    shutil.copytree(build.workspace.root, workspace)
    for part in ("questions", "release"):
        manifest = json.loads((workspace / part / "manifest.json").read_text())
        text = json.dumps({**manifest, "governance": "credentialed", "source": "physionet"})
        (workspace / part / "manifest.json").write_text(text)
    release = open_release(workspace)
    data = {"source": "physionet", "fingerprint": release.fingerprint}
    folder = save_model(tmp_path / "model", governance="credentialed", texts=texts_of(release), **data)
    arguments = ["evaluate", "cxr", "--model", str(folder), "--data", str(workspace), "--image-root", str(build.tree)]
    arguments += ["--out", str(tmp_path / "scores"), "--split", "train", "--limit", "6", "--max-new-tokens", "32"]
    assert run([*arguments, "--encoder", "none", "--blank-images"]) == 0
    return {"folder": folder, "scores": tmp_path / "scores", "workspace": workspace}


@pytest.fixture(scope="module")
def signed(built, tmp_path_factory):
    return credentialed(built, tmp_path_factory.mktemp("credentialed"))


def test_weights_of_credentialed_training_go_behind_a_gate_with_their_check(signed, hub, api, tmp_path):
    options = {**signed, "acknowledgement": WORDS, "dataset_id": "me/cxr"}
    for folder in (signed["folder"], signed["scores"]):
        (folder / "chart.png").write_bytes(b"a radiograph")
    push(hub, api, options.pop("folder"), **options)
    repository = hub.model("me/model")
    assert (repository.visibility, repository.gated) == ("private", "manual")
    card, metadata = repository.files["README.md"].decode(), metadata_of(repository.files["README.md"])
    assert metadata["license"] == "other" and "physionet" in metadata["license_name"] + metadata["license_link"]
    assert "1.5.0" in metadata["extra_gated_prompt"] and len(metadata["extra_gated_fields"]) == 5
    for part in (
        "### Memorisation check",
        "**Agreement.**",
        "**Risk.**",
        "**Source.**",
        f'"{WORDS}"',
        "| none (blank) |",
        "](chart.png)",
    ):
        assert part in card
    with Image.open(io.BytesIO(repository.files["chart.png"])) as chart:  # drawn again from the numbers
        assert chart.format == "PNG" and chart.width == 1560
    entries = yaml.safe_load(repository.files[".eval_results/mimic_cxr_vqa.yaml"])
    own = json.loads((signed["scores"] / "results.json").read_text())
    found = {entry["dataset"]["task_id"]: entry["value"] for entry in entries}
    assert found["bleu_1"] == pytest.approx(own["table_4"]["bleu_1"], abs=1e-4) and len(found) > 4
    assert f"| the study's own | {own['table_4']['bleu_1']:.4f} |" in card
    reader = HfApi(endpoint=hub.endpoint, token=hub.reader_token)
    push(hub, api, signed["folder"], **options, public=True)
    with pytest.raises(GatedRepoError):
        reader.hf_hub_download("me/model", "model.safetensors", cache_dir=tmp_path)


def test_settings_that_do_nothing_hold_nothing_back(tmp_path):
    path = tmp_path / "generation_config.json"
    path.write_text(
        json.dumps({"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "bad_words_ids": None, "top_k": 9})
    )
    model = SimpleNamespace(foreign=False, checkpoint=SimpleNamespace(folder=tmp_path), config={"image_token_id": 4})
    check_generation_settings(model, {"max_new_tokens": None})
    path.write_text(json.dumps({"suppress_tokens": [4]}))
    check_generation_settings(model, {})
    for tokens in ([5], [4, 5]):
        path.write_text(json.dumps({"suppress_tokens": tokens}))
        with pytest.raises(InputError, match="suppress_tokens"):
            check_generation_settings(model, {})
    path.write_text(json.dumps({"repetition_penalty": 1.2}))
    with pytest.raises(InputError, match="repetition_penalty"):
        check_generation_settings(model, {"max_new_tokens": 32})


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("scores/results.json", {"generation": {"max_new_tokens": 9}}, "limited to 9 tokens"),
        ("scores/results-blank.json", {"generation": {"max_new_tokens": 1}}, "limited to 1 tokens"),
        ("model/generation_config.json", {"max_new_tokens": 1}, r"max_new_tokens 1"),
        ("model/generation_config.json", {"no_repeat_ngram_size": 2, "bad_words_ids": [[3]]}, "bad_words_ids, no_rep"),
        ("model/generation_config.json", {"eos_token_id": [1, 2, 3, 4]}, "4 end-of-answer tokens"),
    ],
)
def test_a_check_that_could_not_hear_the_model_is_none(name, fields, message, signed, hub, api, tmp_path):
    """The settings go with the weights; whoever gets both drops the settings."""
    for part in ("scores", "folder"):
        shutil.copytree(signed[part], tmp_path / ("model" if part == "folder" else part))
    path = tmp_path / name
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    same = open_checkpoint(str(tmp_path / "model")).fingerprint  # as after an evaluation of this very folder
    for found in (tmp_path / "scores").glob("results*.json"):
        values = json.loads(found.read_text())
        found.write_text(json.dumps(values | {"model": values["model"] | {"fingerprint": same}}))
    options = {**signed, "scores": tmp_path / "scores", "acknowledgement": WORDS}
    del options["folder"]
    with pytest.raises(InputError, match=message):
        push(hub, api, tmp_path / "model", **options)
    assert not hub.requests


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"acknowledgement": None}, GovernanceError, "--acknowledge-credentialed-training"),
        ({"acknowledgement": "yes"}, GovernanceError, "--acknowledge-credentialed-training"),
        ({"workspace": None}, ConfigError, "--workspace"),
        ({"scores": None}, ConfigError, "--scores"),
    ],
)
def test_credentialed_weights_without_the_words_or_the_check(change, error, message, signed, hub, api):
    options = {**signed, "acknowledgement": WORDS, **change}
    with pytest.raises(error, match=message):
        push(hub, api, options.pop("folder"), **options)
    assert not hub.requests


def test_a_report_s_sentence_in_the_acknowledgement_does_not_leave(signed, hub, api):
    rows = read_table(signed["workspace"] / "questions" / "studies.parquet").to_pylist()
    report = max((row["findings"] or "" for row in rows), key=len)
    options = {**signed, "acknowledgement": f"As in: {report}"}
    with pytest.raises(GovernanceError, match="README.md .*report"):
        push(hub, api, options.pop("folder"), **options)
    assert not hub.requests


def test_scores_and_workspace_have_to_be_this_model_s(signed, built, folders, hub, api):
    with pytest.raises(InputError, match="another model"):
        push(hub, api, folders["swin_ved"], scores=signed["scores"])
    with pytest.raises(ConfigError, match="other data"):
        options = {**signed, "acknowledgement": WORDS, "workspace": built.workspace.root}
        push(hub, api, options.pop("folder"), **options)
    assert not hub.requests


@pytest.mark.parametrize("file", ["tokenizer_config.json", "processor_config.json"])
def test_report_sentences_are_found_in_every_text_file_of_an_open_model(file, built, folders, hub, api, tmp_path):
    folder = shutil.copytree(folders["swin_ved"], tmp_path / "model")
    options = ModelPush(folder, "me/model", workspace=built.workspace.root)
    push_model(options, dry_run=True, hub=api, log=lambda line: None)  # nothing is quoted
    rows = read_table(built.workspace.questions / "studies.parquet").to_pylist()
    report = max((row["findings"] or "" for row in rows), key=len)
    content = json.loads((folder / file).read_text(encoding="utf-8"))
    (folder / file).write_text(json.dumps(content | {"note": {"seen": [report.upper()]}}), encoding="utf-8")
    with pytest.raises(GovernanceError, match=f"{file}.* consecutive words of a report"):
        push_model(options, hub=api)
    assert not hub.requests


def test_our_trainer_pushes_its_best_model_by_the_same_way(folders, hub, api, tmp_path):
    """The run's folder decides, not what the caller says of it."""
    trainer = SupervisedTrainer.__new__(SupervisedTrainer)
    trainer.args = SimpleNamespace(hub_model_id=None)
    trainer.out = with_class(folders["swin_ved"], tmp_path)
    with pytest.raises(ConfigError, match="repo_id="):
        trainer.push_to_hub(hub=api)
    assert trainer.push_to_hub("me/model", hub=api).tag == "v1.0.0"
    push(hub, api, trainer.out, "me/command")
    theirs = hub.model("me/model").files["README.md"].replace(b"me/model", b"me/command")
    assert theirs == hub.model("me/command").files["README.md"]
    trainer.out = with_class(folders["swin_ved"], tmp_path, "strict", file="credentialed")
    with pytest.raises(GovernanceError, match="--acknowledge-credentialed-training"):
        trainer.push_to_hub("me/other", hub=api)
    assert ("model", "me/other") not in hub.repositories
