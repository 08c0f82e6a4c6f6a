"""Weights that learned from restricted rows do not leave: models, their parts, and every upload of a Trainer."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from datasets import Dataset
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, Trainer, TrainingArguments

import mimic_cxr_vqa  # noqa: F401 - registers the builder, and with it the guards
from medvqa_core.dataset_class import declare
from medvqa_core.errors import GovernanceError
from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    """A file that reaches the client of the Hub has left: the guards act before. Repositories are made as asked."""

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


@pytest.mark.parametrize("governance", [None, "no-derivatives", "credentialed"])
def test_a_model_is_not_pushed(governance, tmp_path):
    with pytest.raises(GovernanceError, match="BertForSequenceClassification is of class .* must not go to the Hub"):
        small(governance).push_to_hub("me/model")
    with pytest.raises(GovernanceError):
        small(governance).save_pretrained(tmp_path / "model", push_to_hub=True, repo_id="me/model")


@pytest.mark.parametrize("governance", ["open", "share-alike"])
def test_an_open_model_passes(governance):
    with pytest.raises(AssertionError, match="left the machine"):
        small(governance).push_to_hub("me/model")


def test_a_class_that_nobody_knows_is_no_pass():
    with pytest.raises(GovernanceError, match="'public' is unknown"):
        small("public").push_to_hub("me/model")


def test_a_part_that_states_a_class_is_held_to_it():
    config = BertConfig()
    config.governance = "credentialed"
    with pytest.raises(GovernanceError):
        config.push_to_hub("me/model")
    from tokenizers import Tokenizer, models

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))
    with pytest.raises(AssertionError, match="left the machine"):  # nobody said anything of it
        tokenizer.push_to_hub("me/tokenizer")


# class of the model's configuration, of the rows -> refused
TRAINERS = [
    (None, None, True),
    (None, "credentialed", True),
    (None, "no-derivatives", True),
    (None, "open", False),
    ("open", "credentialed", True),
    ("open", None, True),
    ("open", "open", False),
    ("share-alike", "open", False),
    ("credentialed", "open", True),
]


@pytest.mark.parametrize(("model", "data", "refused"), TRAINERS)
def test_every_upload_of_a_trainer(model, data, refused, tmp_path):
    arguments = TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, hub_model_id="me/model")
    trainer = Trainer(small(model), arguments, train_dataset=rows(data))
    expected = GovernanceError if refused else AssertionError
    with pytest.raises(expected, match="must not go to the Hub" if refused else "left the machine"):
        trainer.push_to_hub()
    if refused:
        for upload in (trainer.init_hf_repo, lambda: trainer._push_from_checkpoint(str(tmp_path))):
            with pytest.raises(GovernanceError):
                upload()


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
import transformers
import rjua_meddqa
from transformers import BertConfig, BertModel
try:
    BertModel(BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1)).push_to_hub("a/b")
except Exception as error:
    print(type(error).__name__)
"""


def test_models_are_guarded_in_a_script_that_only_imports_a_dataset():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "GovernanceError", done.stderr


@pytest.mark.parametrize("how", ["peft", "transformers", "merged"])
@pytest.mark.parametrize(
    ("base", "adapter", "refused"),
    [("open", "open", False), ("open", "credentialed", True), ("open", None, True), (None, "open", True),
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
