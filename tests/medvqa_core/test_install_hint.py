"""The install commands of errors work from a checkout, and an old Python is refused in one line."""

import shlex
import subprocess
import sys
from pathlib import Path

from paths import REPOSITORY

from medvqa_core import install_hint
from medvqa_core.install_hint import install


def test_a_checkout_is_named_by_its_folder():
    assert shlex.split(install("app")) == ["pip", "install", "-e", f"{REPOSITORY}[app]"]


def test_an_installed_package_names_the_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(install_hint, "__file__", str(tmp_path / "medvqa_core" / "install_hint.py"))
    assert install("ocr") == "pip install '.[ocr]' in a checkout of medvqa-hub"


def test_no_message_names_a_package_that_no_index_has():
    sources = [path for name in ("medvqa_core", "medvqa_hub", "rjua_meddqa", "mimic_cxr_vqa") for path in files(name)]
    assert len(sources) > 200
    assert not [path for path in sources if "pip install 'medvqa-hub" in path.read_text(encoding="utf-8")]


def files(package: str) -> list[Path]:
    return sorted((REPOSITORY / package).rglob("*.py"))


def test_an_old_python_ends_the_installation():
    code = "import sys; sys.version_info = (3, 10); exec(open('setup.py').read())"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr == (
        "medvqa-hub needs Python 3.11 or newer. Run: python3.11 -m venv .venv\n"
    )
