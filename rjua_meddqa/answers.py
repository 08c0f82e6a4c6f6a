"""How answers are written: parts joined by ";", 无 for nothing, 正常, 异常 or 无法判断 for a result.

`answer_length` of the released questions is the number of characters of the answer, ";" and line breaks included.
"""

import unicodedata
from collections.abc import Iterable

from rjua_meddqa.schema import ANSWER_SEPARATOR, IS_NORMAL_VALUES, MISSING, NO_ABNORMAL, STATUS_WORDS, TableRow

ABNORMAL_WORD = "异常"


def write_value(value: str) -> str:
    """A value as an answer: as the annotators wrote it, 无 where there is none."""
    return value if value.strip() else MISSING


def is_missing(value: str) -> bool:
    return write_value(value).strip() == MISSING


def join_parts(parts: Iterable[str]) -> str:
    """The answer to a question about several things, each as `write_value` writes it."""
    return ANSWER_SEPARATOR.join(write_value(part) for part in parts)


def read_is_normal(value: str) -> str | None:
    """One of IS_NORMAL_VALUES from an annotator's cell; None where it is none of them.

    Full-width brackets, white space and a closing bracket that nothing opens (`是)`) are slips of the pen.
    """
    folded = "".join(unicodedata.normalize("NFKC", value).split())
    if ")" in folded and "(" not in folded:
        folded = folded.replace(")", "")
    return folded if folded in IS_NORMAL_VALUES else None


def write_status(row: TableRow) -> str | None:
    """正常, 异常 or 无法判断 for a row; None where its `is_normal` cannot be read."""
    value = read_is_normal(row.is_normal)
    return STATUS_WORDS[value] if value is not None else None


def write_abnormal(rows: Iterable[TableRow]) -> str:
    """The items out of range, joined; 无异常结果 where there is none. What cannot be judged is not out of range."""
    items = [row.item for row in rows if write_status(row) == ABNORMAL_WORD]
    return join_parts(items) if items else NO_ABNORMAL


def answer_length(answer: str) -> int:
    return len(answer)
