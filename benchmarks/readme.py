"""Write the README's tables of figures from the result files.

`python benchmarks/readme.py` replaces the text between the markers, and a test compares it. The tables are built in
`readme_speed.py` (speed), `readme_learning.py` (training) and `readme_meddqa.py` (report images).
"""

from pathlib import Path

from readme_learning import make_learning
from readme_meddqa import make_meddqa
from readme_speed import make_speed

README = Path(__file__).parent.parent / "README.md"
TABLES = {"figures": make_speed, "learning": make_learning, "meddqa": make_meddqa}
START, END = "<!-- {}: python benchmarks/readme.py -->\n", "<!-- end of {} -->"


def replace_tables(text: str) -> str:
    """Replace the text between each pair of markers by its table."""
    for name, make in TABLES.items():
        start, end = START.format(name), END.format(name)
        before, rest = text.split(start)
        _, after = rest.split(end)
        text = f"{before}{start}{make()}{end}{after}"
    return text


if __name__ == "__main__":
    README.write_text(replace_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
