"""README and performance page: their tables are those of the result files, and the documentation stays short."""

import re

import pytest
from paths import REPOSITORY

GENERATED = re.compile(r"<!-- (\w+): python benchmarks/readme\.py -->.*?<!-- end of \1 -->", re.DOTALL)

WORDS = {"README.md": 1_400, "README.md and docs": 15_000}


@pytest.mark.parametrize("page", ["README.md", "docs/performance.md"])
def test_tables_are_those_of_the_result_files(page, monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import readme

    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert readme.replace_tables(page, text) == text, "run: python benchmarks/readme.py"
    assert page in readme.PAGES and len(readme.PAGES) == 2


def test_the_documentation_stays_short():
    """The tables and the page of columns are generated, and not counted as text by hand."""

    def count(*files) -> int:
        return sum(len(GENERATED.sub("", file.read_text(encoding="utf-8")).split()) for file in files)

    home = REPOSITORY / "README.md"
    assert len(home.read_text(encoding="utf-8").split()) <= WORDS["README.md"]
    pages = [page for page in (REPOSITORY / "docs").rglob("*.md") if page.name != "columns.md"]
    counted = {"README.md": count(home), "README.md and docs": count(home, *pages)}
    assert {name: words for name, words in counted.items() if words > WORDS[name]} == {}
