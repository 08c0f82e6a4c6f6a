"""The loading commands of the README and of the cards, typed in fresh processes with fresh caches."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builds import build_release
from paths import REPOSITORY

CALL = re.compile(r"load_dataset\([^\n]*?\)")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("typed"), studies=12)


def type_in(code: str, cache: Path, release: Path) -> str:
    environment = {**os.environ, "HF_HOME": str(cache), "MIMIC_CXR_VQA_DIR": str(release)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False, cwd=cache.parent
    )
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout


def snippets(text: str) -> list[str]:
    return [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "load_dataset" in code]


def place(code: str, built) -> str:
    """The placeholders of the documents as real folders."""
    folders = {
        "out/cxr": built.workspace.root, "out/cxr/release": built.workspace.release, "/data/mimic-cxr-jpg": built.tree,
        "<this folder>": built.workspace.release, "<folder of the images>": built.tree,
    }  # fmt: skip
    for name, folder in folders.items():
        code = code.replace(f'"{name}"', repr(str(folder)))
    return code


@pytest.mark.slow
def test_the_commands_of_readme_and_card_in_two_fresh_caches(built, tmp_path):
    card = (built.workspace.release / "README.md").read_text()
    readme = snippets((REPOSITORY / "README.md").read_text())[0]
    code = [readme, *snippets(card)]
    assert any('load_dataset("<this folder>")' in text for text in code[1:])
    outputs = []
    for cache in ("first", "second"):
        (tmp_path / cache).mkdir()
        lines = []
        for text in code:
            counted = CALL.sub(lambda match: f"print({match[0]})", place(text, built))
            lines.append(type_in(counted, tmp_path / cache / "hf", built.workspace.release))
        outputs.append(lines)
    assert outputs[0] == outputs[1]
    assert all("train" in printed for printed in outputs[0])
    rows = re.search(r"num_rows: (\d+)", outputs[0][-1])
    assert rows and int(rows[1]) == built.manifest["splits"]["train"]["rows"]
