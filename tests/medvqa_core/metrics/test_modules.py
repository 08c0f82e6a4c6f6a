"""The `evaluate` modules: they load offline from the installed package, their examples hold, arguments are named."""

import doctest
import inspect
import subprocess
import sys

import pytest

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics import FOLDER, MODULES, load
from medvqa_core.metrics.caption_row import METRICS


@pytest.fixture(scope="module")
def modules() -> dict:
    return {name: load(name) for name in MODULES}


def test_every_folder_is_a_module_with_a_card():
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(MODULES)
    for name in MODULES:
        assert (FOLDER / name / f"{name}.py").is_file()
        card = (FOLDER / name / "README.md").read_text(encoding="utf-8")
        assert card.startswith("---\ntitle: ") and f"# {name}\n" in card


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(modules, name):
    text = modules[name].inputs_description
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_no_argument_disappears_in_a_catch_all(modules, name):
    parameters = inspect.signature(modules[name]._compute).parameters.values()
    assert not [p for p in parameters if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def test_cxr_vqa_takes_one_or_several_references_and_returns_samples(modules):
    metric = modules["cxr_vqa"]
    one = metric.compute(predictions=["a b", ""], references=["a b", "c"], samples=True)
    assert [name for name in one if name in METRICS] == list(METRICS)
    assert one["samples"]["rouge_l"] == [1, 0] and one["rouge_l"] == 0.5
    assert one["profile"] == "default" and "PTB" in one["tokenizer"] and one["libraries"]["medvqa-hub"]
    several = metric.compute(predictions=["a b"], references=[["c", "a b"]])
    assert several["rouge_l"] == 1 and "samples" not in several
    with pytest.raises(ConfigError, match="'coco' is unknown"):
        metric.compute(predictions=["a"], references=["a"], profile="coco")


def test_batches_add_up(modules):
    metric = modules["cxr_vqa"]
    for prediction, reference in (("a b", "a b"), ("a", "c")):
        metric.add_batch(predictions=[prediction], references=[reference])
    assert metric.compute()["rouge_l"] == 0.5


def test_answers_are_not_written_below_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("evaluate.config.HF_METRICS_CACHE", tmp_path)
    metric = load("cxr_vqa")
    metric.add_batch(predictions=["a"], references=["a"])
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
    assert metric.compute()["rouge_l"] == 1


def test_agreement_refuses_a_second_rating_and_takes_missing_ones(modules):
    columns = {"raters": ["a", "b", "a", "b"], "items": ["1", "1", "2", "2"]}
    result = modules["agreement"].compute(ratings=["x", "x", "y", None], order=["x", "y"], **columns, resamples=0)
    assert (result["ratings"], result["items_rated_twice"], result["ac1"]) == (3, 1, 1.0)
    columns["items"] = ["1", "1", "1", "2"]
    with pytest.raises(InputError, match="rater 'a' judged item '1' twice"):
        modules["agreement"].compute(ratings=["x", "x", "y", "y"], order=["x", "y"], **columns)


def test_soft_accuracy_counts_failures(modules):
    result = modules["soft_accuracy"].compute(
        predictions=["12", None, "3"], references=["2", "x", ""], answer_types=["SA"] * 3, samples=True
    )
    counts = {"questions": 3, "failed": 1, "unscorable": 1}
    assert result == {"soft_accuracy": 0.5, "profile": "ours", **counts, "samples": [1, 0, None]}


def test_meddqa_returns_tables_and_samples(modules):
    columns = {"tasks": ["entity_qa"] * 2, "answer_types": ["single_entity"] * 2, "image_qualities": ["high", None]}
    result = modules["meddqa"].compute(predictions=["盆腔", None], references=["盆腔", "无"], **columns, samples=True)
    assert result["table_5"]["entity_accuracy"] == 0.5 and result["samples"]["accuracy"] == [1, 0]
    assert result["hallucination"]["unanswerable"] == 1 and result["hallucination"]["answered"] == 0


def test_unknown_modules_are_refused():
    with pytest.raises(ConfigError, match="'bleu'.*cxr_vqa, agreement"):
        load("bleu")


def test_scoring_without_an_encoder_imports_no_deep_learning_library(tmp_path):
    probe = (
        "import sys; from medvqa_core.metrics.caption_row import score_row; score_row(['a'], ['a']);"
        "from medvqa_core.metrics.meddqa_scores import score_meddqa; score_meddqa(['a'], ['a'], ['entity_qa'], ['SA']);"
        "print(sorted({'torch', 'transformers', 'datasets', 'evaluate', 'jieba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.strip() == "[]"
