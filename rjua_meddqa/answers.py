"""The format of answers: parts joined by ";", 无 for nothing, 正常, 异常 or 无法判断 for a result."""

import unicodedata
from collections.abc import Iterable

from rjua_meddqa.schema import ANSWER_SEPARATOR, IS_NORMAL_VALUES, MISSING, NO_ABNORMAL, STATUS_WORDS, TableRow

ABNORMAL_WORD = "异常"


def write_value(value: str) -> str:
    """Format a value as an answer: unchanged, or 无 if it is empty."""
    return value if value.strip() else MISSING


def is_missing(value: str) -> bool:
    return write_value(value).strip() == MISSING


def join_parts(parts: Iterable[str]) -> str:
    """Format the answer to a question about several things."""
    return ANSWER_SEPARATOR.join(write_value(part) for part in parts)


def read_is_normal(value: str) -> str | None:
    """Parse an annotator's cell into one of IS_NORMAL_VALUES, or None.

    Full-width brackets, white space and an unmatched closing bracket (`是)`) are tolerated.
    """
    folded = "".join(unicodedata.normalize("NFKC", value).split())
    if ")" in folded and "(" not in folded:
        folded = folded.replace(")", "")
    return folded if folded in IS_NORMAL_VALUES else None


def write_status(row: TableRow) -> str | None:
    """正常, 异常 or 无法判断 for a row, None if its `is_normal` cannot be read."""
    value = read_is_normal(row.is_normal)
    return STATUS_WORDS[value] if value is not None else None


def write_abnormal(rows: Iterable[TableRow]) -> str:
    """Join the items out of range, or return 无异常结果. Undecided items are not out of range."""
    items = [row.item for row in rows if write_status(row) == ABNORMAL_WORD]
    return join_parts(items) if items else NO_ABNORMAL
