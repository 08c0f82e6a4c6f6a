"""Writes docs/first_hour.ipynb from docs/first_hour.md.

Run: python docs/make_notebook.py

`python` blocks become code cells, `bash` blocks become shell cells. Everything else is text, including `sh` blocks with
commands that need a terminal or a server. The notebook lacks outputs.
"""

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PAGE, NOTEBOOK = DOCS / "first_hour.md", DOCS / "first_hour.ipynb"
RUN = re.compile(r"^```(python|bash)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
SHELL = "%%bash -e\n"  # -e: stop at the first error


def make_notebook(page: str) -> dict[str, Any]:
    """Convert the page to a notebook (nbformat 4.5) without outputs."""
    cells: list[dict[str, Any]] = []
    parts = RUN.split(page)  # text, language, code, text, language, code, ..., text
    for text, language, code in zip(parts[::3], [*parts[1::3], None], [*parts[2::3], None], strict=True):
        if text.strip():
            cells.append(_cell(len(cells), "markdown", text))
        if code is not None:
            source = SHELL + code if language == "bash" else code
            cells.append(_cell(len(cells), "code", source) | {"execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _cell(number: int, kind: str, source: str) -> dict[str, Any]:
    lines = source.strip().splitlines(keepends=True)
    return {"cell_type": kind, "id": f"cell-{number:02}", "metadata": {}, "source": lines}


def format_notebook(notebook: dict[str, Any]) -> str:
    """The text of the notebook's file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(format_notebook(make_notebook(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")
