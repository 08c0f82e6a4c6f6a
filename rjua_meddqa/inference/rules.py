"""Rule-based answers to questions about an image's content, from its restored text and without a model.

The question is read for the key, or the items and columns, that it asks for. The page's draft (`annotation/drafts.py`)
is searched for them, and the values are written like the released answers. The answer for missing content is 无.
"""

from functools import lru_cache

from medvqa_core.errors import InputError
from rjua_meddqa.annotation.drafts import Draft, draft
from rjua_meddqa.annotation.items import find_row
from rjua_meddqa.answers import join_parts, write_abnormal, write_status, write_value
from rjua_meddqa.inference.reading import (
    RANGE,
    RESULT,
    STATUS,
    CellQuestion,
    find_key,
    read_cells,
    read_keys,
)
from rjua_meddqa.schema import (
    CONTENT_TASKS,
    ENTITY,
    HIGH,
    LOW,
    MISSING,
    NO_ABNORMAL,
    NORMAL,
    STATUS_WORDS,
    TABLE,
    UNDECIDED,
    Page,
    RestoredText,
    TableRow,
)

NAME, VERSION = "esra-rules", "6"
PAGES_KEPT = 64  # questions are grouped by image


def answer(question: str, task: str, answer_type: str, page: Page) -> str:
    """Answer `question` from the restored text of `page`.

    Raises:
        InputError: `task` is not about the content of a page.
    """
    return answer_from_draft(question, task, answer_type, _draft(page.restored))


def answer_from_draft(question: str, task: str, answer_type: str, drafted: Draft) -> str:
    """Like `answer`, from a draft or an annotation converted to one. Raises InputError for an unknown task."""
    if task == ENTITY:
        keys = read_keys(question, [key for key, _ in drafted.key_values], is_multi=answer_type.startswith("multi"))
        return join_parts(find_key(key, drafted.key_values) for key in keys)
    if task not in CONTENT_TASKS:
        raise InputError(f"{NAME}: task {task!r} is not supported. Expected one of {', '.join(CONTENT_TASKS)}")
    asked = read_cells(question, drafted.table)
    if asked.items:
        return _cells(asked, drafted.table, task, answer_type)
    return _which(question, drafted.table)


@lru_cache(maxsize=PAGES_KEPT)
def _draft(restored: RestoredText) -> Draft:
    return draft(restored)


def _cells(asked: CellQuestion, table: tuple[TableRow, ...], task: str, answer_type: str) -> str:
    """Return the result, range or status of one item, or of several, each after its name."""
    columns = asked.columns or ((RESULT, RANGE) if task == TABLE else (STATUS,))
    parts = [[_cell(find_row(item, table), column) for column in columns] for item in asked.items]
    if len(asked.items) == 1:
        return join_parts(parts[0])
    return ";".join(",".join([item, *cells]) for item, cells in zip(asked.items, parts, strict=True))


def _cell(row: TableRow | None, column: str) -> str:
    if column == STATUS:
        return (write_status(row) if row is not None else None) or STATUS_WORDS[UNDECIDED]
    if row is None:
        return MISSING
    return write_value(row.result if column == RESULT else row.range)


def _which(question: str, table: tuple[TableRow, ...]) -> str:
    """Return the items that are out of range, or those that are high, low or normal if the question asks for them."""
    for words, verdict in ((("偏高", "升高", "高于"), HIGH), (("偏低", "降低", "低于"), LOW)):
        if any(word in question for word in words):
            return join_parts(row.item for row in table if row.is_normal == verdict) or NO_ABNORMAL
    if "不在" not in question and "异常" not in question and "不正常" not in question and "正常" in question:
        return join_parts(row.item for row in table if row.is_normal == NORMAL) or MISSING
    return write_abnormal(table)
