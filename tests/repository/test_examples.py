"""The scripts of examples/: all run, in the order that their page gives, on what the ones before made."""

import re
import runpy
import sys

import pytest
from paths import REPOSITORY

PAGE = (REPOSITORY / "examples" / "README.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"^python examples/(\w+\.py) ", PAGE, re.MULTILINE)
SAYS = {
    "build.py": "the release:",
    "load.py": "first image: (72, 72) L",
    "own_engine.py": "'failed': 0",
    "train.py": "the best model:",
    "evaluate.py": "'cider'",
    "own_metric.py": "'same_first_word'",
    "own_ocr.py": "report.png -> 钾",
}


def test_the_page_lists_every_script():
    assert sorted(SCRIPTS) == sorted(path.name for path in (REPOSITORY / "examples").glob("*.py"))


@pytest.mark.slow
def test_the_scripts_run_in_this_order(tmp_path, monkeypatch, capsys):
    for name in SCRIPTS:
        monkeypatch.setattr(sys, "argv", [name, str(tmp_path / "out")])
        runpy.run_path(str(REPOSITORY / "examples" / name), run_name="__main__")
        assert SAYS[name] in capsys.readouterr().out, name
