"""The first hour: its notebook is the page's, runs to its end, prints what the page shows, and means what it says."""

import json
import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from paths import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGE = (DOCS / "first_hour.md").read_text(encoding="utf-8")


@pytest.fixture
def make_notebook(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import make_notebook

    return make_notebook


def test_the_notebook_is_the_page_without_outputs(make_notebook):
    written = make_notebook.format_notebook(make_notebook.make_notebook(PAGE))
    assert (DOCS / "first_hour.ipynb").read_text(encoding="utf-8") == written, "run: python docs/make_notebook.py"


def test_run_blocks_become_cells_and_all_other_text_is_kept(make_notebook):
    page = "# A\n\n```python\nx = 1\n```\n\n```bash\nls\n```\nB\n\n```sh\nserve\n```\n\n```text\nseen\n```\n"
    notebook = make_notebook.make_notebook(page)
    nbformat.validate(nbformat.from_dict(notebook))
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert cells == [
        ("markdown", "# A"),
        ("code", "x = 1"),
        ("code", "%%bash -e\nls"),
        ("markdown", "B\n\n```sh\nserve\n```\n\n```text\nseen\n```"),
    ]


def shown_after_each_cell(cells) -> list[tuple[str, list[str]]]:
    """What each code cell printed, with the lines of the `text` block that follows it."""
    pairs = []
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        block = following and re.match(r"```text\n(.*?)```", following.source, re.DOTALL)
        if cell.cell_type == "code" and block:
            printed = "".join(output.get("text", "") for output in cell.outputs)
            pairs.append((printed, block[1].splitlines()))
    return pairs


@pytest.mark.slow
def test_the_notebook_runs_and_prints_what_the_page_shows(tmp_path, monkeypatch):
    """A cell that fails stops it; lines of a `text` block stand in the output, spaces aside: drawn data are equal."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache" / "huggingface"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("COLUMNS", "80")
    notebook = nbformat.read(DOCS / "first_hour.ipynb", as_version=4)
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = shown_after_each_cell(notebook.cells)
    assert len(shown) == PAGE.count("```text\n")
    for printed, lines in shown:
        for line in lines:
            assert " ".join(line.split()) in " ".join(printed.split()), f"{line!r} is not in:\n{printed}"
    pictures = [
        output for cell in notebook.cells for output in cell.get("outputs", ()) if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 3
    _check_that_the_model_does_not_look(tmp_path / "out/hour/scores")


def _check_that_the_model_does_not_look(scores: Path) -> None:
    """Section 6's lesson, whatever the last digits are on this machine."""
    own, shuffled = (json.loads((scores / name).read_text()) for name in ("results.json", "results-shuffled.json"))
    assert own["table_4"]["bleu_1"] > 0.1 and own["table_4"]["rouge_l"] > 0.2
    assert abs(own["table_4"]["rouge_l"] - shuffled["table_4"]["rouge_l"]) < 0.03
    assert abs(own["findings"]["accuracy"] - shuffled["findings"]["accuracy"]) < 0.06
    assert own["findings"]["accuracy"] < own["findings"]["majority"]
