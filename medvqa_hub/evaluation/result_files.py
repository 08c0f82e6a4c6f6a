"""The files of an evaluation: figures as JSON, rows as JSON lines, each whole or not there, private if they must be."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from medvqa_core.files import atomic_file, make_folder, writing
from medvqa_core.governance import Governance


def make_out(out: Path, governance: Governance) -> Path:
    """Make the folder of an evaluation; its owner's alone for credentialed data. Raises OutputError."""
    make_folder(out)
    if governance is Governance.CREDENTIALED:
        with writing(out):
            out.chmod(0o700)
    return out


def write_figures(path: Path, figures: Mapping[str, Any], governance: Governance) -> None:
    """Write `figures` as JSON. Raises OutputError."""
    with atomic_file(path, "w", private=governance is Governance.CREDENTIALED) as file:
        json.dump(figures, file, indent=1, ensure_ascii=False)
        file.write("\n")


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], governance: Governance) -> None:
    """Write `rows` as JSON lines. Raises OutputError."""
    with atomic_file(path, "w", private=governance is Governance.CREDENTIALED) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
