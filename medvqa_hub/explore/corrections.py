"""Corrected annotations as the page sends them. `rjua_meddqa.corrections` saves them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from medvqa_core.errors import InputError, quote_value
from rjua_meddqa.annotation.drafts import REASONS
from rjua_meddqa.schema import IMAGE_QUALITIES, IMAGE_TYPES, IS_NORMAL_VALUES, Annotation, TableRow

CHOICES = {"image_type": IMAGE_TYPES, "image_quality": IMAGE_QUALITIES}
LONGEST = 20_000  # characters of a field


def read_correction(given: Mapping[str, Any], before: Annotation) -> Annotation:
    """Validate a correction from the page.

    Args:
        given: `key_values` as pairs, `table` as rows of four, report_type, image_type and image_quality.
        before: the annotation that was corrected. Its id and extra columns are kept.

    Raises:
        InputError: a field is missing, not a text, too long or not an allowed value.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"{before.img_path}: expected the fields of an annotation, found {type(given).__name__}")
    key_values = tuple((key, value) for key, value in _rows(given, "key_values", 2))
    table = tuple(TableRow(*row) for row in _rows(given, "table", 4))
    for number, row in enumerate(table, start=1):
        if row.is_normal not in IS_NORMAL_VALUES:
            allowed = ", ".join(IS_NORMAL_VALUES)
            raise InputError(f"table row {number}: is_normal is {quote_value(row.is_normal)}. Expected {allowed}.")
    chosen = {name: _text(given.get(name), name).strip() for name in ("report_type", *CHOICES)}
    for name, choices in CHOICES.items():
        if chosen[name] not in choices:
            raise InputError(f"{name} is {quote_value(chosen[name])}. Expected {', '.join(choices)}.")
    if not chosen["report_type"]:
        raise InputError("report_type is empty. Enter the kind of report.")
    extra = dict(before.extra)
    if REASONS in extra:
        extra[REASONS] = json.dumps(_reasons(table, before), ensure_ascii=False)
    report_type, image_type, image_quality = chosen.values()
    return replace(
        before, key_values=key_values, table=table, extra=extra, report_type=report_type, image_type=image_type,
        image_quality=image_quality,
    )  # fmt: skip


def read_reasons(annotation: Annotation) -> list[str]:
    """The reason for the verdict of each row of a draft, or ""."""
    try:
        reasons = json.loads(annotation.extra.get(REASONS) or "[]")
    except (ValueError, RecursionError):
        reasons = []
    if not isinstance(reasons, list) or len(reasons) != len(annotation.table):
        return [""] * len(annotation.table)
    return [str(reason) for reason in reasons]


def _reasons(table: tuple[TableRow, ...], before: Annotation) -> list[str]:
    known = dict(zip(before.table, read_reasons(before), strict=True))
    return [known.get(row, "") for row in table]


def _rows(given: Mapping[str, Any], name: str, fields: int) -> list[list[str]]:
    rows = given.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == fields for row in rows):
        raise InputError(f"{name}: expected a list of rows of {fields} texts")
    return [[_text(field, f"{name} {number}") for field in row] for number, row in enumerate(rows, start=1)]


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where}: expected a text, found {type(value).__name__}")
    if len(value) > LONGEST:
        raise InputError(f"{where} has {len(value):,} characters. The limit is {LONGEST:,}.")
    return value
