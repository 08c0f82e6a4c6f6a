"""Exported `evaluate` modules load without this package and give the same values."""

import ast
import subprocess
import sys

import pytest
import yaml

from medvqa_core.errors import ConfigError
from medvqa_core.metrics import FOLDER, MODULES, load
from medvqa_core.metrics.exporting import export_module
from medvqa_hub.cli import run

CALLS = {
    "cxr_vqa": {"predictions": ["no effusion"], "references": ["no effusion is seen"]},
    "agreement": {
        "ratings": ["no", "no", "yes", "no"],
        "raters": ["a", "b", "a", "b"],
        "items": ["1", "1", "2", "2"],
        "order": ["no", "yes"],
        "resamples": 0,
    },
    "soft_accuracy": {"predictions": ["a;b"], "references": ["a;c"], "answer_types": ["multi_entity"]},
    "meddqa": {
        "predictions": ["a"],
        "references": ["a"],
        "tasks": ["entity_qa"],
        "answer_types": ["single_entity"],
    },
}
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("medvqa_core", "medvqa_hub"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Block())
import evaluate
print(repr(sorted(evaluate.load(sys.argv[1]).compute(**eval(sys.argv[2])).items(), key=str)))
"""


@pytest.mark.parametrize(
    "name", ["cxr_vqa", *(pytest.param(name, marks=pytest.mark.slow) for name in MODULES if name != "cxr_vqa")]
)
def test_a_copy_loads_without_the_package(name, tmp_path):
    out = tmp_path / name
    assert run(["export", "metric", name, "--out", str(out)]) == 0
    command = [sys.executable, "-c", BLOCK, str(out / f"{name}.py"), repr(CALLS[name])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found, expected = dict(ast.literal_eval(done.stdout.splitlines()[-1])), load(name).compute(**CALLS[name])
    for values in (found, expected):
        values.pop("libraries", None)  # names the package, where it is installed
    assert found == ast.literal_eval(repr(expected))


@pytest.mark.parametrize("name", MODULES)
def test_the_card_is_that_of_a_space(name, tmp_path):
    files = export_module(name, tmp_path)
    card = (tmp_path / "README.md").read_text()
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["sdk"] == "gradio" and front["app_file"] in files and front["title"]
    assert "medvqa_core" not in card and "evaluate.load" in card
    assert "numpy" in (tmp_path / "requirements.txt").read_text() or name == "soft_accuracy"
    copied = "".join((tmp_path / file).read_text() for file in files if file.endswith(".py"))
    assert "from medvqa_core" not in copied and "import medvqa_core." not in copied


def test_wrong_names_and_used_folders_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="'bleu'.*cxr_vqa"):
        export_module("bleu", tmp_path)
    export_module("agreement", tmp_path)
    with pytest.raises(ConfigError, match="not empty"):
        export_module("agreement", tmp_path)
    assert (FOLDER / "agreement" / "agreement.py").is_file()
