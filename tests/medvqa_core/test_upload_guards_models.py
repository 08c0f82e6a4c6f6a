"""Weights and parts of models that were trained on restricted rows are not uploaded, and unrelated ones are."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
import wrapt
from datasets import Dataset
from hub_server import HubDouble
from tokenizers import Tokenizer, models
from torch.utils.data import ConcatDataset, Subset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GenerationConfig,
    PreTrainedTokenizerFast,
    ProcessorMixin,
    Trainer,
    TrainingArguments,
    pipeline,
)
from transformers.feature_extraction_utils import FeatureExtractionMixin
from transformers.image_processing_base import ImageProcessingMixin
from transformers.video_processing_utils import VideoProcessorMixin

import mimic_cxr_vqa  # noqa: F401 - registers the builder, and with it the guards
from medvqa_core.dataset_class import declare
from medvqa_core.errors import GovernanceError
from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_core.upload_guards import UPLOADS, declare_part


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    """Fail when a file reaches the client of the Hub."""

    def left(*_args, **_kwargs):
        raise AssertionError("left the machine")

    for name in ("create_commit", "upload_folder", "upload_file", "preupload_lfs_files"):
        monkeypatch.setattr(f"huggingface_hub.HfApi.{name}", left)
    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", lambda *_args, **_kwargs: SimpleNamespace(repo_id="me/x"))


def small(governance: str | None = None) -> BertForSequenceClassification:
    model = BertForSequenceClassification(
        BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
    )
    if governance is not None:
        model.config.governance = governance
    return model


def rows(governance: str | None) -> Dataset:
    made = Dataset.from_dict({"input_ids": [[1, 2]], "labels": [0]})
    return made if governance is None else declare(made, governance)


@pytest.mark.parametrize("governance", ["no-derivatives", "credentialed"])
def test_a_model_is_not_pushed(governance, tmp_path):
    with pytest.raises(GovernanceError, match="BertForSequenceClassification .*the Hub"):
        small(governance).push_to_hub("me/model")
    with pytest.raises(GovernanceError):
        small(governance).save_pretrained(tmp_path / "model", push_to_hub=True, repo_id="me/model")


@pytest.mark.parametrize("governance", [None, "open", "share-alike", "of another project"])
def test_an_open_or_unrelated_model_passes(governance):
    with pytest.raises(AssertionError, match="left the machine"):
        small(governance).push_to_hub("me/model")


def tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")), pad_token="a")


class Feature(FeatureExtractionMixin):
    pass


class Picture(ImageProcessingMixin):
    pass


class Video(VideoProcessorMixin):
    pass


class Processor(ProcessorMixin):
    tokenizer_class = "PreTrainedTokenizerFast"

    def __init__(self, tokenizer=None):
        super().__init__(tokenizer)


PARTS = {
    "model": small, "configuration": BertConfig, "generation": GenerationConfig, "tokenizer": tokenizer,
    "processor": lambda: Processor(tokenizer()), "features": Feature, "images": Picture, "video": Video,
}  # fmt: skip


@pytest.mark.parametrize("make", PARTS.values(), ids=PARTS)
def test_every_part_is_refused_if_it_declares_a_restricted_class(make, tmp_path):
    part = make()
    with pytest.raises(AssertionError, match="left the machine"):  # without evidence
        part.push_to_hub("me/part")
    with pytest.raises(AssertionError, match="left the machine"):
        part.save_pretrained(str(tmp_path / "saved"), push_to_hub=True, repo_id="me/part")
    declare_part(part, Governance.CREDENTIALED)
    with pytest.raises(GovernanceError, match="credentialed"):
        part.push_to_hub("me/part")
    with pytest.raises(GovernanceError, match="credentialed"):
        part.save_pretrained(str(tmp_path / "refused"), push_to_hub=True, repo_id="me/part")
    assert not (tmp_path / "refused").exists()
    part.save_pretrained(tmp_path / "local")
    if make is not small:
        assert "credentialed" in "".join(path.read_text() for path in (tmp_path / "local").glob("*.json"))


def test_a_declared_class_survives_saving_and_loading(tmp_path):
    for make, load in ((tokenizer, PreTrainedTokenizerFast), (GenerationConfig, GenerationConfig)):
        part = make()
        declare_part(part, Governance.NO_DERIVATIVES)
        part.save_pretrained(tmp_path)
        with pytest.raises(GovernanceError, match="no-derivatives"):
            load.from_pretrained(tmp_path).push_to_hub("me/part")


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in UPLOADS.items() for name in names])
def test_every_patched_class_still_has_the_method(module, name):
    """Fails if a library moves a class, or gives `save_pretrained` another argument."""
    pytest.importorskip(module.partition(".")[0])
    kind = getattr(importlib.import_module(module), name)
    assert isinstance(inspect.getattr_static(kind, "push_to_hub"), wrapt.FunctionWrapper)
    if "save_pretrained" in vars(kind) and kind.__name__ != "BaseModel":  # whose method pushes nothing
        names = inspect.signature(kind.save_pretrained).parameters
        assert "push_to_hub" in names or "kwargs" in names


def test_patched_trainer_methods():
    for name in ("init_hf_repo", "push_to_hub", "train"):
        assert isinstance(inspect.getattr_static(Trainer, name), wrapt.FunctionWrapper)
    peft_model, integration = map(importlib.import_module, ("peft.peft_model", "transformers.integrations.peft"))
    assert isinstance(inspect.getattr_static(peft_model.PeftModel, "save_pretrained"), wrapt.FunctionWrapper)
    for kind in (peft_model.PeftModel, integration.PeftAdapterMixin):
        assert isinstance(inspect.getattr_static(kind, "load_adapter"), wrapt.FunctionWrapper)


# class of the model's configuration, of the rows -> refused
TRAINERS = [
    (None, None, False),
    (None, "credentialed", True),
    (None, "no-derivatives", True),
    (None, "open", False),
    ("open", "credentialed", True),
    ("open", None, False),
    ("open", "open", False),
    ("share-alike", "open", False),
    ("credentialed", "open", True),
]


@pytest.mark.parametrize(("model", "data", "refused"), TRAINERS)
def test_every_upload_of_a_trainer(model, data, refused, tmp_path):
    arguments = TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, hub_model_id="me/model")
    trainer = Trainer(small(model), arguments, train_dataset=rows(data))
    expected = GovernanceError if refused else AssertionError
    with pytest.raises(expected, match="the Hub" if refused else "left the machine"):
        trainer.push_to_hub()
    if refused:
        with pytest.raises(GovernanceError):
            trainer.init_hf_repo()


def test_a_model_that_was_trained_on_restricted_rows_keeps_their_class(tmp_path):
    arguments = TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, max_steps=1, save_strategy="no")
    data = rows("credentialed").add_column("attention_mask", [[1, 1]])
    trainer = Trainer(model := small(), arguments, train_dataset=data, processing_class=(words := tokenizer()))
    trainer.train()
    for part in (model, words):
        with pytest.raises(GovernanceError, match="credentialed"):
            part.push_to_hub("me/part")


@pytest.mark.parametrize("wrap", [lambda data: Subset(data, [0]), lambda data: ConcatDataset([rows(None), data])])
def test_datasets_within_torch_datasets_count(wrap, tmp_path):
    arguments = TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, hub_model_id="me/model")
    for governance, expected in (("credentialed", GovernanceError), (None, AssertionError)):
        with pytest.raises(expected):
            Trainer(small(), arguments, train_dataset=wrap(rows(governance))).push_to_hub()


def test_an_adapter_of_a_restricted_model_is_saved_with_its_class(tmp_path):
    from peft import LoraConfig, PeftModel, get_peft_model

    for governance in (None, "open", "credentialed"):
        folder = tmp_path / str(governance)
        get_peft_model(small(governance), LoraConfig(r=1, target_modules=["query"])).save_pretrained(folder)
        assert (folder / "governance.json").exists() == (governance == "credentialed")
    with pytest.raises(GovernanceError):
        PeftModel.from_pretrained(small(), tmp_path / "credentialed").merge_and_unload().push_to_hub("me/model")


def test_a_pipeline_has_the_class_of_its_model():
    for governance, expected in ((None, AssertionError), ("open", AssertionError), ("credentialed", GovernanceError)):
        with pytest.raises(expected):
            pipeline("text-classification", model=small(governance), tokenizer=tokenizer()).push_to_hub("me/model")


def test_rows_that_are_only_validated_on_count_too(tmp_path):
    arguments = TrainingArguments(str(tmp_path), report_to=[], use_cpu=True)
    splits = {"mine": rows("open"), "theirs": rows("credentialed")}
    trainer = Trainer(small("open"), arguments, train_dataset=rows("open"), eval_dataset=splits)
    with pytest.raises(GovernanceError):
        trainer.push_to_hub()


def test_a_trainer_that_pushes_while_it_trains_does_not_start(tmp_path):
    arguments = TrainingArguments(
        str(tmp_path), report_to=[], use_cpu=True, push_to_hub=True, hub_model_id="me/model", hub_strategy="every_save"
    )
    with pytest.raises(GovernanceError):
        Trainer(small(), arguments, train_dataset=rows("credentialed"))


def test_a_trainer_of_ours_knows_its_class(tmp_path):
    arguments = TrainingArguments(str(tmp_path), report_to=[], use_cpu=True)
    trainer = Trainer(small("open"), arguments, train_dataset=rows("open"))
    trainer.governance = Governance.CREDENTIALED
    with pytest.raises(GovernanceError):
        trainer.push_to_hub()


SCRIPT = """
import sys
if sys.argv[1] == "with":
    import mimic_cxr_vqa
from datasets import Dataset, DatasetDict
from tokenizers import Tokenizer, models
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, Trainer, TrainingArguments
import torch
torch.manual_seed(0)
rows = Dataset.from_dict({"input_ids": [[1, 2]], "labels": [0], "attention_mask": [[1, 1]]})
rows.push_to_hub("me/rows")
rows.to_iterable_dataset().push_to_hub("me/stream")
DatasetDict(train=rows, test=rows).push_to_hub("me/splits")
sizes = dict(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
model = BertForSequenceClassification(BertConfig(**sizes))
model.push_to_hub("me/model")
model.save_pretrained(sys.argv[2] + "/m", push_to_hub=True, repo_id="me/saved")
words = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")), pad_token="a")
words.push_to_hub("me/words")
arguments = TrainingArguments(
    sys.argv[2] + "/run", report_to=[], use_cpu=True, max_steps=1, push_to_hub=True, hub_model_id="me/trained"
)
trainer = Trainer(model, arguments, train_dataset=rows, processing_class=words)
trainer.train()
trainer.push_to_hub()
"""


@pytest.mark.slow
def test_unrelated_uploads_send_the_same_requests_with_and_without_the_import(tmp_path):
    found = {}
    for how in ("with", "without"):
        with HubDouble() as hub:
            environment = {
                **os.environ, "HF_ENDPOINT": hub.endpoint, "HF_TOKEN": hub.token, "HF_HUB_DISABLE_XET": "1",
                "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / how), "HF_HUB_DISABLE_TELEMETRY": "1",
            }  # fmt: skip
            command = [sys.executable, "-c", SCRIPT, how, str(tmp_path / f"{how}-out")]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            assert done.returncode == 0, done.stderr[-2000:]
            files = {name: sorted(repository.files) for name, repository in hub.repositories.items()}
            found[how] = (Counter(re.sub(r"[0-9a-f]{40,}", "HASH", request) for request in hub.requests), files)
    assert found["with"] == found["without"] and len(found["with"][1]) == 7


@pytest.mark.parametrize("how", ["peft", "transformers", "merged"])
@pytest.mark.parametrize(
    ("base", "adapter", "refused"),
    [("open", "open", False), ("open", "credentialed", True), ("open", None, False), (None, "open", False),
     ("no-derivatives", "open", True)],
)  # fmt: skip
def test_a_model_takes_on_the_class_of_an_adapter_that_it_loads(how, base, adapter, refused, tmp_path):
    from peft import LoraConfig, PeftModel, get_peft_model

    get_peft_model(small(), LoraConfig(r=1, target_modules=["query"])).save_pretrained(tmp_path)
    if adapter is not None:
        write_governance(tmp_path, Governance(adapter))
    model = small(base)
    if how == "transformers":
        model.load_adapter(str(tmp_path))
    else:
        model = PeftModel.from_pretrained(model, tmp_path)
        model = model.merge_and_unload() if how == "merged" else model
    with pytest.raises(GovernanceError if refused else AssertionError):
        model.push_to_hub("me/model")
