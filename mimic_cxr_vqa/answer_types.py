"""Open or closed: the type of an answer (paper, Section 2 and Table 1).

Closed is "yes/no or single-word choices": one word once punctuation is taken away. Everything else, an empty answer
too, is open. A word is a run between white space that holds a letter or a digit, so "Yes.", "- none -" and "left-sided"
are one word each, "No effusion" and "yes / no" are two.

Stated twice: for one answer, and for a column of 3.2 million as one regular expression. Tests hold them equal.
"""

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

OPEN, CLOSED = "open", "closed"

# The same rule for ASCII text: nothing alphanumeric, one run without white space, nothing alphanumeric. White space is
# what `str.split` takes for it (tab to carriage return, 0x1c to space), which RE2's \s is not.
_ONE_WORD = r"^[^0-9A-Za-z]*[0-9A-Za-z][^\t-\r\x1c-\x20]*[^0-9A-Za-z]*$"


def answer_type(answer: str) -> Literal["open", "closed"]:
    """The type of one answer."""
    words = sum(any(character.isalnum() for character in run) for run in answer.split())
    return CLOSED if words == 1 else OPEN


def answer_types(answers: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The types of a string column, same length and kind; null stays null. Equal to `answer_type` of each answer."""
    if isinstance(answers, pa.ChunkedArray):
        return pa.chunked_array([answer_types(chunk) for chunk in answers.chunks], pa.string())
    closed = pc.match_substring_regex(answers, _ONE_WORD)
    types = pc.if_else(closed, CLOSED, OPEN)
    is_ascii = pc.string_is_ascii(answers)
    if pc.all(is_ascii).as_py() is False:  # the expression knows no other letters or spaces: those few one by one
        others = pc.invert(is_ascii)
        one_by_one = [answer_type(answer) for answer in answers.filter(others).to_pylist()]
        types = pc.replace_with_mask(types, pc.fill_null(others, False), pa.array(one_by_one, pa.string()))
    return types
