"""Names of laboratory items that differ by little and are other measurements: a family on each line of siblings.txt."""

from pathlib import Path

_FILE = Path(__file__).parents[1] / "rjua_meddqa" / "annotation" / "siblings.txt"
SIBLINGS = tuple(tuple(line.split()) for line in _FILE.read_text(encoding="utf-8").splitlines())
