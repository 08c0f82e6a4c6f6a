"""The governance class of an evaluation's results, from its predictions."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from medvqa_core.governance import Governance, check_not_lowered, parse
from medvqa_core.minimum_class import check_minimum_class, minimum_class_for_ids
from medvqa_core.runs.predictions import FILE

_ID = re.compile(r'"id": ?"([^"]*)"')


def stated_class(path: Path) -> Governance | None:
    """The class in the header of a file of predictions, or None. Raises GovernanceError if it is unknown."""
    try:
        with open(path, "rb") as lines:
            header = json.loads(lines.readline())
    except (OSError, ValueError):
        return None
    return parse(str(header.get("governance", "")), str(path)) if isinstance(header, dict) else None


def check_stated(run: Path, stated: object) -> Governance:
    """The declared class of a run's results, checked against its predictions.

    Raises:
        GovernanceError: the header or the ids of its predictions require a stricter class.
    """
    path = run / FILE
    governance = check_not_lowered(stated_class(path) or Governance.OPEN, parse(str(stated), str(run)), str(path))
    return check_minimum_class(
        governance, minimum_class_for_ids(_ids_in(path)), str(run), f"an id of MIMIC's range in {FILE}"
    )


def _ids_in(path: Path) -> Iterator[str]:
    """The ids in a file of predictions, if it exists."""
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                yield from _ID.findall(line)
    except FileNotFoundError:
        return
