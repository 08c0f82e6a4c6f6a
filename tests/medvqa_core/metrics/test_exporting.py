"""Exported `evaluate` modules load without this package and give the same values."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from medvqa_core.errors import ConfigError
from medvqa_core.metrics import FOLDER, load
from medvqa_core.metrics.exporting import export_module
from medvqa_hub.cli import run
from mimic_cxr_vqa import cxr_findings

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
    "cxr_findings": {"predictions": ["small left effusion"], "references": ["large left effusion and edema"]},
}
OTHERS = {"cxr_findings": Path(cxr_findings.__file__).parent}
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("medvqa_core", "medvqa_hub", "mimic_cxr_vqa"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Block())
import evaluate
print(repr(sorted(evaluate.load(sys.argv[1]).compute(**eval(sys.argv[2])).items(), key=str)))
"""


def loaded(name):
    return cxr_findings.load() if name == "cxr_findings" else load(name)


@pytest.mark.parametrize(
    "name", ["cxr_vqa", *(pytest.param(name, marks=pytest.mark.slow) for name in CALLS if name != "cxr_vqa")]
)
def test_a_copy_loads_without_the_package(name, tmp_path):
    out = tmp_path / name
    assert run(["export", "metric", name, "--out", str(out)]) == 0
    command = [sys.executable, "-c", BLOCK, str(out / f"{name}.py"), repr(CALLS[name])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found, expected = dict(ast.literal_eval(done.stdout.splitlines()[-1])), loaded(name).compute(**CALLS[name])
    for values in (found, expected):
        values.pop("libraries", None)  # names the package, where it is installed
    assert found == ast.literal_eval(repr(expected))


@pytest.mark.parametrize("name", CALLS)
def test_the_card_is_that_of_a_space(name, tmp_path):
    files = export_module(name, tmp_path, OTHERS)
    card = (tmp_path / "README.md").read_text()
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["sdk"] == "gradio" and front["app_file"] in files and front["title"]
    assert "medvqa_core" not in card and "mimic_cxr_vqa import" not in card and "evaluate.load" in card
    assert "evaluate" in (tmp_path / "requirements.txt").read_text().split()
    copied = "".join((tmp_path / file).read_text() for file in files if file.endswith(".py"))
    assert (
        not re.search(r"(from|import) (medvqa_core|mimic_cxr_vqa)\b", copied)
        and "Path(__file__).with_name" not in copied
    )


def test_wrong_names_and_used_folders_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="'bleu'.*cxr_vqa"):
        export_module("bleu", tmp_path)
    export_module("agreement", tmp_path)
    with pytest.raises(ConfigError, match="not empty"):
        export_module("agreement", tmp_path)
    assert (FOLDER / "agreement" / "agreement.py").is_file()
