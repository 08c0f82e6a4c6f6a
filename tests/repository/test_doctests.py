"""Examples in the docstrings of everything that the Python reference shows: they exist, and they run as written."""

import doctest
import importlib
import inspect
import re
from typing import Any

import pytest
from paths import REPOSITORY

REFERENCE = REPOSITORY / "docs" / "reference"
NAMES = sorted(
    name for page in REFERENCE.glob("*.md") for name in re.findall(r"^::: (\S+)", page.read_text("utf-8"), re.MULTILINE)
)
WITHOUT = {  # a function without an example in its docstring -> where one is
    "blip2_multiview.convert_blip2_multiview": "needs released weights: tests/medvqa_hub/test_released_weights.py",
    "swin_ved.convert_swin_ved": "needs released weights: models/README.md",
    "swin_ved.load_vocabulary": "needs a released vocabulary: models/README.md",
    "medvqa_core.llm.connecting.connect_model": "needs a server: examples/own_engine.py",
    "medvqa_core.metrics.bert_score.bert_scores": "needs an encoder: tests/medvqa_core/metrics/test_bert_score.py",
    "medvqa_core.metrics.meteor.meteor_scores": "needs Java: tests/medvqa_core/metrics/test_meteor.py",
    "medvqa_core.runs.inference.ask_all": "needs an engine: tests/medvqa_core/runs",
    "medvqa_hub.evaluation.cxr.evaluating.evaluate_cxr": "takes seconds: examples/evaluate.py",
    "medvqa_hub.training.run.train": "takes seconds: examples/train.py",
    "rjua_meddqa.annotation.checking.check_file": "docs/meddqa.md",
    "rjua_meddqa.annotation.drafts.draft": "docs/meddqa.md",
    "rjua_meddqa.restoration.pages.restore_folder": "needs OCR: docs/meddqa.md",
    "rjua_meddqa.restoration.pages.restore_page": "needs OCR: docs/meddqa.md",
    "rjua_meddqa.restoration.rectify.rectify": "needs OCR: docs/meddqa.md",
}


def find(name: str) -> tuple[Any, dict[str, Any]]:
    """The object of a dotted name, and the names of the module that defines it."""
    try:
        found: Any = importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        found = getattr(importlib.import_module(module), attribute)
    module = found if inspect.ismodule(found) else importlib.import_module(found.__module__)
    return found, vars(module)


def examples(name: str) -> list[doctest.DocTest]:
    found, scope = find(name)
    tests = doctest.DocTestFinder(exclude_empty=True).find(found, name, globs=dict(scope))
    return [test for test in tests if test.examples]


def test_the_reference_shows_objects():
    assert len(NAMES) > 60 and len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_everything_in_the_reference_is_documented(name):
    found, _ = find(name)
    assert (inspect.getdoc(found) or "").strip(), name
    if inspect.isfunction(found):
        assert bool(examples(name)) != (name in WITHOUT), name


@pytest.mark.parametrize("name", [name for name in NAMES if examples(name)])
def test_examples_run_as_written(name):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    report: list[str] = []
    for test in examples(name):
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
