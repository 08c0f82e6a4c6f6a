"""Classifies why an answer about a report's content is wrong (paper, Section 5.4).

The keys, or the items and columns, that a question asks for are matched with their annotated values. The first part
that the prediction lacks gives the cause:

    format only          the value is present except for signs, spaces and zeros at the end (3.10 for 3.1)
    abstained            无 although there is a value
    cut at a line end    the beginning of the value, up to the end of a line of the page
    incomplete           another part of the value, or of the parts asked for
    wrong column         another cell of the same row
    wrong row            a cell of another row, or another key's value
    misread              the value with a few wrong characters
    hallucinated         a text that is not in page or annotation, or any value where 无 is right
    other                none of these, and all numerical and clinical reasoning

The cause is derived from the annotation. Without a restored page, "hallucinated" may be text that was not annotated.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from medvqa_core.metrics.chinese import fold_signs
from medvqa_core.metrics.meddqa_scores import abstains
from rjua_meddqa.annotation.items import find_row
from rjua_meddqa.annotation.report_words import fold, similarity
from rjua_meddqa.answers import is_missing, write_value
from rjua_meddqa.inference.reading import RANGE, RESULT, find_key, read_cells, read_keys
from rjua_meddqa.schema import ANSWER_SEPARATOR, ENTITY, TABLE, Annotation

FORMAT, ABSTAINED, CUT, INCOMPLETE = "format only", "abstained", "cut at a line end", "incomplete"
COLUMN, ROW, MISREAD, HALLUCINATED, OTHER = "wrong column", "wrong row", "misread", "hallucinated", "other"
CAUSES = (ROW, COLUMN, INCOMPLETE, CUT, HALLUCINATED, FORMAT, ABSTAINED, MISREAD, OTHER)
ALIKE = 0.8  # smallest similarity of a misread value
_NUMBER = re.compile(r"\d+\.\d+")


@dataclass(frozen=True)
class Part:
    """One part of a question.

    Attributes:
        beside: other cells of the same row.
        elsewhere: cells of other rows, or other keys' values.
    """

    label: str
    value: str
    beside: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


def parts_asked(question: str, task: str, answer_type: str, annotation: Annotation) -> list[Part]:
    """Return the parts that `question` asks for, with the annotated values. Empty if they are not recognised."""
    if task == ENTITY:
        return list(_keys_asked(question, answer_type, annotation))
    return list(_cells_asked(question, annotation)) if task == TABLE else []


def find_cause(
    question: str,
    answer: str,
    task: str,
    answer_type: str,
    prediction: str,
    annotation: Annotation | None,
    page: str | None = None,
) -> str:
    """Return one of CAUSES for a prediction that is wrong or partly right.

    Args:
        page: the restored text of the page, if available.
    """
    if task not in (ENTITY, TABLE) or annotation is None:
        return OTHER
    parts = parts_asked(question, task, answer_type, annotation) or [Part("", answer)]
    given = [text.strip() for text in re.split("[;；]", prediction)]
    for place, part in enumerate(parts):
        if fold_signs(part.value).strip() in fold_signs(prediction):
            continue
        own = given[place] if len(given) == len(parts) else prediction if len(parts) == 1 else ""
        if not own:  # fewer or more parts than were asked for
            own = given[place] if place < len(given) else ""
        if not _bare(own):
            return INCOMPLETE if prediction.strip() else OTHER
        if is_missing(part.value):
            return _explain_excess(part, own)
        return _explain_difference(part, own, prediction, annotation, page)
    return OTHER


def _explain_excess(part: Part, own: str) -> str:
    """The cause of an answer to a question without a value."""
    return OTHER if abstains(own) else _find_cell(part, _bare(own)) or HALLUCINATED


def _explain_difference(part: Part, own: str, prediction: str, annotation: Annotation, page: str | None) -> str:
    given, expected = _bare(own), _bare(part.value)
    if expected in given or expected in _bare(prediction):
        return FORMAT
    if abstains(own):
        return ABSTAINED
    if _is_part(given, expected):
        return CUT if expected.startswith(given) and _ends_a_line(given, expected, part.value, page) else INCOMPLETE
    if cause := _find_cell(part, given):
        return cause
    if similarity(given, expected) >= ALIKE:
        return MISREAD
    return OTHER if _is_present(given, annotation, page) else HALLUCINATED


def _find_cell(part: Part, given: str) -> str:
    """Return COLUMN or ROW if another cell has the given text, else ""."""
    for cells, cause in ((part.beside, COLUMN), (part.elsewhere, ROW)):
        if any(_bare(cell) == given for cell in cells if not is_missing(cell)):
            return cause
    return ""


def _keys_asked(question: str, answer_type: str, annotation: Annotation) -> Iterator[Part]:
    keys = [key for key, _ in annotation.key_values]
    for asked in read_keys(question, keys, is_multi=answer_type.startswith("multi")):
        value = find_key(asked, annotation.key_values)
        others = tuple(other for key, other in annotation.key_values if other != value)
        cells = tuple(cell for row in annotation.table for cell in (row.result, row.range))
        yield Part(asked, write_value(value), (), (*others, *cells))


def _cells_asked(question: str, annotation: Annotation) -> Iterator[Part]:
    asked = read_cells(question, annotation.table)
    for item in asked.items:
        row = find_row(item, annotation.table)
        cells = {} if row is None else {RESULT: row.result, RANGE: row.range}
        elsewhere = tuple(
            cell for other in annotation.table if other is not row for cell in (other.result, other.range, other.item)
        )
        for column in asked.columns or (RESULT, RANGE):
            if column in (RESULT, RANGE):
                beside = tuple(cell for name, cell in cells.items() if name != column) + ((row.item,) if row else ())
                yield Part(item, write_value(cells.get(column, "")), beside, elsewhere)


def _bare(text: str) -> str:
    """Reduce to letters, digits and decimal points, without trailing zeros of numbers."""
    numbers = _NUMBER.sub(lambda match: f"{Decimal(match[0]).normalize():f}", fold(fold_signs(text)))
    return "".join(re.findall(r"\d+\.\d+|[^\W_]|[-<>+~]", numbers))


def _is_part(given: str, expected: str) -> bool:
    """Whether `given` is a proper part of `expected` that does not cut a number."""
    start = expected.find(given)
    if start < 0 or given == expected:
        return False
    end = start + len(given)
    cuts_before = start > 0 and _in_number(expected[start - 1], expected[start])
    cuts_after = end < len(expected) and _in_number(expected[end - 1], expected[end])
    return not cuts_before and not cuts_after


def _in_number(left: str, right: str) -> bool:
    return left in "0123456789." and right in "0123456789."


def _ends_a_line(given: str, expected: str, value: str, page: str | None) -> bool:
    """Whether a line of the value or page ends where `given` does, and the next line begins with the rest."""
    for text in (value, page or ""):
        lines = [_bare(line) for line in text.split("\n")]
        for above, below in zip(lines, lines[1:], strict=False):
            rest = expected[len(given) :]
            if (
                above
                and above.endswith(given[-len(above) :])
                and below
                and (rest.startswith(below[: len(rest)]) or below.startswith(rest[: len(below)]))
            ):
                return True
    return False


def _is_present(given: str, annotation: Annotation, page: str | None) -> bool:
    cells: Sequence[str] = [cell for row in annotation.table for cell in (row.item, row.result, row.range)]
    texts = [*(text for pair in annotation.key_values for text in pair), *cells, page or ""]
    return any(given in _bare(text) for text in texts if not is_missing(text))


assert ANSWER_SEPARATOR == ";"  # `find_cause` splits predictions at both widths of it
