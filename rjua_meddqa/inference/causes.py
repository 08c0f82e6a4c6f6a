"""Why an answer about a report's content is wrong, as far as the annotation of its page tells (paper, Section 5.4).

A question is read for the keys, or the items and columns, that it asks for; each has its expected value. The first part
that the prediction lacks gives the cause:

    format only          the value is there but for signs, spaces and zeros at the end (3.10 for 3.1)
    abstained            无 is said where a value stands
    cut at a line end    the beginning of the value, up to where a line of the page ends
    incomplete           another part of the value, or of the parts asked for
    wrong column         another cell of the row asked for
    wrong row            a cell of another row, or another key's value
    misread              the value but for few characters
    hallucinated         a text that neither page nor annotation holds, or any value where 无 is right
    other                none of these; all about numerical and clinical reasoning

A reading of the annotation, not a judge: "hallucinated" may be a page's text that nobody annotated where there is no
restored page to look at.
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
ALIKE = 0.8  # of a misread value
_NUMBER = re.compile(r"\d+\.\d+")


@dataclass(frozen=True)
class Part:
    """What one part of a question asks for.

    Attributes:
        beside: other cells of the same row.
        elsewhere: cells of other rows, or other keys' values.
    """

    label: str
    value: str
    beside: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


def parts_asked(question: str, task: str, answer_type: str, annotation: Annotation) -> list[Part]:
    """What `question` asks for, with the annotated values; empty where it cannot be told."""
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
    """One of CAUSES for a prediction that is wrong or only partly right.

    Args:
        page: its restored text, where there is one.
    """
    if task not in (ENTITY, TABLE) or annotation is None:
        return OTHER
    parts = parts_asked(question, task, answer_type, annotation) or [Part("", answer)]
    said = [text.strip() for text in re.split("[;；]", prediction)]
    for place, part in enumerate(parts):
        if fold_signs(part.value).strip() in fold_signs(prediction):
            continue
        own = said[place] if len(said) == len(parts) else prediction if len(parts) == 1 else ""
        if not own:  # fewer or more parts than were asked for
            own = said[place] if place < len(said) else ""
        return _cause(part, own, prediction, annotation, page)
    return OTHER


def _cause(part: Part, own: str, prediction: str, annotation: Annotation, page: str | None) -> str:
    said, expected = _bare(own), _bare(part.value)
    if not said:
        return INCOMPLETE if prediction.strip() else OTHER
    is_nothing = is_missing(part.value)
    if not is_nothing and (expected in said or expected in _bare(prediction)):
        return FORMAT
    if abstains(own):
        return OTHER if is_nothing else ABSTAINED
    if not is_nothing and _is_part(said, expected):
        return CUT if expected.startswith(said) and _ends_a_line(said, expected, part.value, page) else INCOMPLETE
    if any(_bare(cell) == said for cell in part.beside if not is_missing(cell)):
        return COLUMN
    if any(_bare(cell) == said for cell in part.elsewhere if not is_missing(cell)):
        return ROW
    if not is_nothing and similarity(said, expected) >= ALIKE:
        return MISREAD
    if is_nothing or not _stands_there(said, annotation, page):
        return HALLUCINATED
    return OTHER


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
    """Letters, digits and the points within numbers, numbers without zeros at their end."""
    numbers = _NUMBER.sub(lambda match: f"{Decimal(match[0]).normalize():f}", fold(fold_signs(text)))
    return "".join(re.findall(r"\d+\.\d+|[^\W_]|[-<>+~]", numbers))


def _is_part(said: str, expected: str) -> bool:
    """Whether `said` is a proper part of `expected` that cuts no number."""
    start = expected.find(said)
    if start < 0 or said == expected:
        return False
    end = start + len(said)
    cuts_before = start > 0 and _in_number(expected[start - 1], expected[start])
    cuts_after = end < len(expected) and _in_number(expected[end - 1], expected[end])
    return not cuts_before and not cuts_after


def _in_number(left: str, right: str) -> bool:
    return left in "0123456789." and right in "0123456789."


def _ends_a_line(said: str, expected: str, value: str, page: str | None) -> bool:
    """Whether a line of the value, or of the page, ends where `said` does, and the rest of the value begins below."""
    for text in (value, page or ""):
        lines = [_bare(line) for line in text.split("\n")]
        for above, below in zip(lines, lines[1:], strict=False):
            rest = expected[len(said) :]
            if (
                above
                and above.endswith(said[-len(above) :])
                and below
                and (rest.startswith(below[: len(rest)]) or below.startswith(rest[: len(below)]))
            ):
                return True
    return False


def _stands_there(said: str, annotation: Annotation, page: str | None) -> bool:
    cells: Sequence[str] = [cell for row in annotation.table for cell in (row.item, row.result, row.range)]
    texts = [*(text for pair in annotation.key_values for text in pair), *cells, page or ""]
    return any(said in _bare(text) for text in texts if not is_missing(text))


assert ANSWER_SEPARATOR == ";"  # what `find_cause` cuts a prediction at, in both widths
