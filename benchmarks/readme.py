"""Write the tables of figures in README.md and docs/performance.md from the result files.

`python benchmarks/readme.py` replaces the text between the markers, and a test compares it. The tables are built in
`readme_results.py` (the README's), `readme_speed.py`, `readme_learning.py` (training), `readme_parity.py` and
`readme_meddqa.py` (report images).
"""

from collections.abc import Callable
from pathlib import Path

from readme_learning import make_learning
from readme_meddqa import make_meddqa
from readme_parity import make_parity
from readme_results import make_results
from readme_speed import make_speed

REPOSITORY = Path(__file__).parent.parent
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"results": make_results},
    "docs/performance.md": {
        "figures": make_speed,
        "learning": make_learning,
        "parity": make_parity,
        "meddqa": make_meddqa,
    },
}
START, END = "<!-- {}: python benchmarks/readme.py -->\n", "<!-- end of {} -->"


def replace_tables(page: str, text: str) -> str:
    """Replace the text between each pair of markers of a page by its table."""
    for name, make in PAGES[page].items():
        start, end = START.format(name), END.format(name)
        before, rest = text.split(start)
        _, after = rest.split(end)
        text = f"{before}{start}{make()}{end}{after}"
    return text


if __name__ == "__main__":
    for page in PAGES:
        file = REPOSITORY / page
        file.write_text(replace_tables(page, file.read_text(encoding="utf-8")), encoding="utf-8")
