"""`push model` of what `train vlm` writes: adapters, and whole image-text models of no family of ours."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from builds import Build
from PIL import Image
from pushing import run_stranger
from tiny_language_models import write_image_text_model
from vlm_runs import run_vlm, vlm_recipe, write_model

from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from medvqa_hub.publishing.licences import check_llama_base, find_base_llama, get_foreign_licence
from medvqa_hub.publishing.model import ModelPush, push_model
from mimic_cxr_vqa.workspace import Workspace

BASE = "me/tiny-llava"
WORDS = "I hold the agreement, and my institution agreed to a gated release."
ADAPTER = {"lora__rank": 8, "training__vision": "false", "training__max_steps": 2}


def push(hub, api, folder, repo_id="me/adapter", base_model=BASE, **options):
    return push_model(ModelPush(folder, repo_id, base_model=base_model, **options), hub=api, log=lambda line: None)


def metadata_of(repository) -> dict:
    return yaml.safe_load(repository.files["README.md"].decode().split("---\n")[1])


def snippet_of(repository) -> str:
    (snippet,) = re.findall(r"```python\n(.*?)```", repository.files["README.md"].decode(), re.DOTALL)
    return snippet


@pytest.fixture(scope="module")
def model(built, tmp_path_factory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "tiny", built)


@pytest.fixture(scope="module")
def adapter(built, model, tmp_path_factory) -> Path:
    """The output of a run that trained an adapter."""
    out = tmp_path_factory.mktemp("adapter") / "run"
    run_vlm(built, model, out, vlm_recipe(**ADAPTER))
    return out


def test_training_leaves_its_history_beside_the_adapter(adapter, model, built):
    (stage,) = json.loads((adapter / "best" / "training.json").read_text())["stages"]
    assert (stage["kind"], stage["stage"], stage["reward"], stage["base"]) == ("vlm", "sft", None, "tiny")
    assert (stage["steps"], stage["data"]["source"], stage["data"]["governance"]) == (2, "phantom", "open")
    assert stage["data"]["studies"] == 2 and stage["data"]["questions"] > 2 and stage["data"]["answers"]


def test_an_adapter_is_complete_and_names_its_base_and_nothing_of_this_machine(adapter, hub, api, tmp_path):
    push(hub, api, adapter)
    repository = hub.model("me/adapter")
    files = set(repository.files)
    named = {"adapter_config.json", "adapter_model.safetensors", "processor_config.json", "tokenizer.json"}
    assert named | {"README.md", "governance.json", "recipe.yaml", "training.json", "chat_template.jinja"} <= files
    assert not [name for name in files if name.endswith((".py", ".bin", ".pt")) or name == "manifest.json"]
    assert json.loads(repository.files["adapter_config.json"])["base_model_name_or_path"] == BASE
    root = str(adapter.parent.parent).encode()
    assert not [name for name, content in repository.files.items() if root in content]
    metadata, card = metadata_of(repository), repository.files["README.md"].decode()
    assert (metadata["base_model"], metadata["base_model_relation"]) == ([BASE], "adapter")
    assert (metadata["library_name"], metadata["license"]) == ("peft", "other")
    assert metadata["license_link"] == f"https://huggingface.co/{BASE}" and "custom_code" not in metadata["tags"]
    assert "Started from" not in card and "A LoRA adapter of rank 8" in card and "was not checked" in card
    assert "| reference answers (SFT) | phantom" in card and "not been evaluated" in card


@pytest.mark.slow
def test_a_stranger_uses_both_cards(model, adapter, hub, api, tmp_path):
    """The whole model first, which is the adapter's base; without our package, each card's snippet as it stands."""
    push(hub, api, model, BASE, base_model=None)
    push(hub, api, adapter)
    assert metadata_of(hub.model(BASE))["license"] == "unknown"
    assert "The published model behind it is not known" in hub.model(BASE).files["README.md"].decode()
    for name in ("frontal.png", "lateral.png"):
        Image.effect_noise((90, 110), 60).save(tmp_path / name)
    end = "\nassert isinstance(answer, str)\nprint(type(model).__module__, float(model(**inputs).logits.sum()))\n"
    said = [run_stranger(hub, snippet_of(hub.model(name)) + end, tmp_path).split() for name in (BASE, "me/adapter")]
    assert said[0][-2].startswith("transformers.models.llava") and said[1][-2].startswith("peft.")
    assert said[0][-1] != said[1][-1]


def test_an_adapter_of_a_folder_needs_the_repository_of_its_base(adapter, hub, api, tmp_path):
    with pytest.raises(ConfigError, match=r"tiny.*--base-model OWNER/NAME"):
        push(hub, api, adapter, base_model=None)
    with pytest.raises(ConfigError, match="expected a repository"):
        push(hub, api, adapter, base_model="tiny")
    named = of_hub(adapter, tmp_path, "Qwen/Qwen3-VL-2B-Instruct")
    with pytest.raises(ConfigError, match="made from Qwen/Qwen3-VL-2B-Instruct"):
        push(hub, api, named)
    push(hub, api, named, base_model=None)
    assert metadata_of(hub.model("me/adapter"))["base_model"] == ["Qwen/Qwen3-VL-2B-Instruct"]


def of_hub(adapter, tmp_path, base, answers=None):
    """A copy of the run whose adapter was trained on a model of the Hub, as its cache names it."""
    copy = shutil.copytree(adapter, tmp_path / base.replace("/", "-"))
    owner, _, name = base.partition("/")
    config = json.loads((copy / "best" / "adapter_config.json").read_text())
    cached = tmp_path / "hub" / f"models--{owner}--{name}" / "snapshots" / "0123abcd"
    config["base_model_name_or_path"] = str(cached)
    (copy / "best" / "adapter_config.json").write_text(json.dumps(config))
    history = json.loads((copy / "best" / "training.json").read_text())
    history["stages"][-1]["base"] = base
    if answers is not None:
        history["stages"][-1]["data"]["answers"] = answers
    (copy / "best" / "training.json").write_text(json.dumps(history))
    return copy


def with_marks(adapter, tmp_path, run="open", file="open", manifest="open", source="phantom", rows="open"):
    """A copy of the run whose parts state these classes; None: the part is taken away."""
    copy = shutil.copytree(adapter, tmp_path / "run")
    for path, stated in ((copy, run), (copy / "best", file)):
        (path / "governance.json").unlink(missing_ok=True)
        if stated is not None:
            write_governance(path, Governance(stated))
    path = copy / "best" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "governance": manifest}))
    if manifest is None:
        path.unlink()
    path = copy / "best" / "training.json"
    history = json.loads(path.read_text())
    history["stages"][-1]["data"] |= {"source": source, "governance": rows}
    path.write_text(json.dumps(history))
    if source is None:
        path.unlink()
    return copy


ATTACKS = [
    {"file": "credentialed"},
    {"run": "credentialed"},
    {"manifest": "credentialed"},
    {"rows": "credentialed"},
    {"source": "physionet"},
    {"source": "somewhere"},
    {"file": None},
    {"file": None, "manifest": None, "run": None, "source": None},
    {"file": "no-derivatives"},
    {"manifest": "no-derivatives"},
    {"source": "openi"},
]


@pytest.mark.parametrize("said", ATTACKS, ids=str)
@pytest.mark.parametrize("part", [".", "best"])
def test_one_strict_word_is_enough_and_a_mark_that_is_gone_opens_nothing(said, part, adapter, hub, api, tmp_path):
    with pytest.raises(GovernanceError):
        push(hub, api, with_marks(adapter, tmp_path, **said) / part)
    assert not hub.requests


def test_the_class_of_a_base_that_lies_here_counts(adapter, model, hub, api, tmp_path):
    base = shutil.copytree(model, tmp_path / "base")
    write_governance(base, Governance.CREDENTIALED)
    copy = shutil.copytree(adapter, tmp_path / "run")
    path = copy / "best" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": str(base)}))
    with pytest.raises(GovernanceError, match="--acknowledge-credentialed-training"):
        push(hub, api, copy)
    assert not hub.requests


def test_a_whole_model_that_does_not_say_its_class_is_credentialed(model, hub, api, tmp_path):
    silent = shutil.copytree(model, tmp_path / "silent")
    (silent / "governance.json").unlink()
    config = json.loads((silent / "config.json").read_text())
    (silent / "config.json").write_text(json.dumps({**config, "governance": None}))
    with pytest.raises(GovernanceError, match="--acknowledge-credentialed-training"):
        push(hub, api, silent, base_model=None)


def add(path: Path, **values) -> None:
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "modeling_x.py").touch(), "modeling_x.py is code"),
        (lambda folder: (folder / "training_args.bin").touch(), "training_args.bin is a pickle"),
        (lambda folder: (folder / "adapter_model.safetensors").unlink(), "no adapter_model.safetensors"),
        (lambda folder: (folder / "processor_config.json").unlink(), "has no processor"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer.json"),
        (lambda folder: add(folder / "processor_config.json", auto_map={"AutoProcessor": "x.Y"}), "auto_map"),
        (lambda folder: add(folder / "adapter_config.json", auto_mapping={"parent_library": "os"}), "peft import"),
        (lambda folder: add(folder / "adapter_config.json", megatron_config={"a": 1}), "peft import"),
        (lambda folder: add(folder / "config.json", model_type="swin_ved"), "merge_and_unload"),
    ],
)
def test_code_pickles_and_what_is_not_whole(damage, message, adapter, hub, api, tmp_path):
    folder = shutil.copytree(adapter / "best", tmp_path / "best")
    damage(folder)
    with pytest.raises(InputError, match=message):
        push(hub, api, folder)
    assert not hub.requests


def test_a_whole_model_with_code_or_of_another_kind(model, hub, api, tmp_path):
    for name, values, message in (
        ("code", {"auto_map": {"AutoModel": "x.Y"}}, "auto_map"),
        ("text", {"model_type": "qwen2"}, "not an image-text model"),
    ):
        folder = shutil.copytree(model, tmp_path / name)
        add(folder / "config.json", **values)
        with pytest.raises(InputError, match=message):
            push(hub, api, folder, base_model=None)
    assert not hub.requests


def test_llama_s_name_and_notice_by_base_and_by_answers(adapter, hub, api, tmp_path):
    vision = of_hub(adapter, tmp_path, "meta-llama/Llama-3.2-11B-Vision-Instruct")
    with pytest.raises(ConfigError, match="made from Llama 3.2.*Push to me/Llama-adapter"):
        push(hub, api, vision, base_model=None)
    push(hub, api, vision, "me/Llama-adapter", base_model=None)
    repository = hub.model("me/Llama-adapter")
    assert metadata_of(repository)["license"] == "llama3.2" and b"Llama 3.2 Community" in repository.files["NOTICE.txt"]
    assert b"**Built with Llama**" in repository.files["README.md"]
    answers = {"engine": "server", "model": "meta-llama/Llama-3.1-70B-Instruct"}
    qwen = of_hub(adapter, tmp_path, "Qwen/Qwen3-VL-2B-Instruct", answers)
    with pytest.raises(ConfigError, match="outputs of Llama 3.1.*Push to me/Llama-adapter"):
        push(hub, api, qwen, base_model=None)
    push(hub, api, qwen, "me/Llama-qwen", base_model=None)
    repository = hub.model("me/Llama-qwen")
    assert metadata_of(repository)["license_name"] == "as-the-base-model-and-llama3.1"
    assert b"Llama 3.1 Community" in repository.files["NOTICE.txt"]


def test_llama_s_versions_and_licences():
    assert (
        find_base_llama("unsloth/Meta-Llama-3.1-8B", {}) == "3.1" and find_base_llama("llava-hf/llava-1.5", {}) is None
    )
    assert (
        find_base_llama(None, {"model_type": "mllama"}) == "3.2"
        and find_base_llama("me/x", {"text_config": {}}) is None
    )
    with pytest.raises(ConfigError, match="Push to me/Llama-3-x"):
        check_llama_base("3", "me/x")
    check_llama_base("2", "me/x")
    assert get_foreign_licence(Governance.SHARE_ALIKE, "me/b", None, None).card == {"license": "cc-by-nc-sa-4.0"}
    both = get_foreign_licence(Governance.OPEN, "me/b", "3.1", "3.2").card
    assert both["license_name"] == "llama3.2-and-llama3.1"
    assert "extra_gated_prompt" in get_foreign_licence(Governance.CREDENTIALED, "me/b", None, None).card


@pytest.fixture(scope="module")
def signed(built, tmp_path_factory):
    """An adapter of rows that are said to be MIMIC's, its scores, and the workspace. Its base's answers are long."""
    folder = tmp_path_factory.mktemp("signed")
    write_governance(write_image_text_model(folder / "base"), Governance.OPEN)
    workspace = shutil.copytree(built.workspace.root, folder / "cxr")
    for part in ("questions", "release"):
        add(workspace / part / "manifest.json", governance="credentialed", source="physionet")
    build = Build(built.tree, Workspace(workspace), built.manifest)
    run_vlm(build, folder / "base", folder / "run", vlm_recipe(**ADAPTER))
    words = ["evaluate", "cxr", "--data", workspace, "--image-root", built.tree, "--split", "train", "--limit", "2"]
    words += ["--engine", f"transformers:{folder / 'run' / 'best'}", "--bare-question", "--max-new-tokens", "48"]
    words += ["--examples", "0", "--encoder", "none", "--failed", "empty", "--out", folder / "scores"]
    with pytest.MonkeyPatch.context() as patch:  # random weights also write control characters
        patch.setattr("medvqa_core.llm.completions.is_storable", lambda value: True)
        assert run([str(word) for word in words]) == 0
    return {"folder": folder / "run", "scores": folder / "scores", "workspace": workspace}


@pytest.mark.slow
def test_an_adapter_of_credentialed_rows_goes_behind_a_gate_with_its_check(signed, adapter, hub, api, tmp_path):
    options = {**signed, "acknowledgement": WORDS}
    folder = options.pop("folder")
    for change, error, message in (
        ({"acknowledgement": None}, GovernanceError, "--acknowledge-credentialed-training"),
        ({"workspace": None}, ConfigError, "--workspace"),
        ({"scores": None, "workspace": None}, ConfigError, "--scores and --workspace"),
    ):
        with pytest.raises(error, match=message):
            push(hub, api, folder, **{**options, **change})
    with pytest.raises(InputError, match="another model"):
        push(hub, api, adapter, scores=signed["scores"])
    assert not hub.requests
    push(hub, api, folder, **options)
    repository = hub.model("me/adapter")
    assert (repository.visibility, repository.gated) == ("private", "manual")
    card, metadata = repository.files["README.md"].decode(), metadata_of(repository)
    assert metadata["license"] == "other" and "physionet" in metadata["license_name"] and metadata["inference"] is False
    own = json.loads((signed["scores"] / "results.json").read_text())
    assert f"| the study's own | {own['table_4']['bleu_1']:.4f} |" in card
    for part in ("### Memorisation check", "**Agreement.**", f'"{WORDS}"', "terms of the training data"):
        assert part in card
    # the mark is taken off, the manifest edited: the history still says whose rows they were
    bare = shutil.copytree(folder, tmp_path / "bare")
    for path in (bare, bare / "best"):
        write_governance(path, Governance.OPEN)
    add(bare / "best" / "manifest.json", governance="open")
    with pytest.raises(GovernanceError, match="--acknowledge-credentialed-training"):
        push(hub, api, bare, "me/other")
    assert ("model", "me/other") not in hub.repositories
