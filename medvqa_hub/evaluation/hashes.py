"""Hashes of an evaluation's rows, by which its results are bound to the data, the predictions and their scores.

    data           ids, questions and references
    predictions    ids, answers and reasons of failures
    scores         whole rows

They do not depend on the order of the rows. Evaluations of the same questions have the same hash of the data, wherever
they were made.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from medvqa_core.digests import digest
from medvqa_core.errors import InputError

# The names in rows of `evaluate cxr`, and the names in rows of `evaluate meddqa`.
_CXR = {"data": ("qa_id", "question", "reference"), "predictions": ("qa_id", "answer", "error")}
_MEDDQA = {"data": ("id", "question", "answer"), "predictions": ("id", "prediction", "error")}
LENGTH = 32  # hex digits


def hash_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The hashes of scored rows of one evaluation."""
    rows = list(rows)
    names = _CXR if rows and "qa_id" in rows[0] else _MEDDQA
    parts = {part: [[row.get(name) for name in columns] for row in rows] for part, columns in names.items()}
    return {**{part: _hash(values) for part, values in parts.items()}, "scores": _hash(rows)}


def check_hashes(stated: object, rows: Iterable[Mapping[str, Any]], where: Path) -> bool:
    """Whether results state hashes of these rows. False for results without hashes.

    Raises:
        InputError: the rows are not those of the results.
    """
    if not isinstance(stated, Mapping):
        return False
    found = hash_rows(rows)
    changed = [part for part, value in found.items() if stated.get(part) != value]
    if changed:
        raise InputError(
            f"{where} was changed after the evaluation: its {' and '.join(changed)} do not have the hash in the "
            "results. Evaluate again with --scored"
        )
    return True


def _hash(values: Iterable[Any]) -> str:
    lines = sorted(json.dumps(value, sort_keys=True, ensure_ascii=True) for value in values)
    return digest("\n".join(lines))[:LENGTH]
