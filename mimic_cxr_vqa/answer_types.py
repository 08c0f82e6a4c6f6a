"""The type of an answer, open or closed (paper, Section 2 and Table 1).

Closed answers are "yes/no or single-word choices", that is one word without punctuation. Everything else is open, also
an empty answer. A word is a run between white space that has a letter or a digit, so "Yes.", "- none -" and
"left-sided" have one word, "No effusion" and "yes / no" two.

The rule is implemented for one answer, and as a regular expression for columns of millions. A test compares them.
"""

from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

OPEN: Final = "open"
CLOSED: Final = "closed"

# The rule for ASCII text. The white space is that of `str.split` (tab to carriage return, 0x1c to space), which RE2's
# \s does not match.
_ONE_WORD = r"^[^0-9A-Za-z]*[0-9A-Za-z][^\t-\r\x1c-\x20]*[^0-9A-Za-z]*$"


def answer_type(answer: str) -> Literal["open", "closed"]:
    """Return the type of one answer."""
    words = sum(any(character.isalnum() for character in run) for run in answer.split())
    return CLOSED if words == 1 else OPEN


def answer_types(answers: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the type of each answer in a string column. Nulls stay null."""
    if isinstance(answers, pa.ChunkedArray):
        return pa.chunked_array([answer_types(chunk) for chunk in answers.chunks], pa.string())
    types = pc.if_else(pc.match_substring_regex(answers, _ONE_WORD), CLOSED, OPEN)
    is_ascii = pc.string_is_ascii(answers)
    if pc.all(is_ascii).as_py() is False:
        others = pc.invert(is_ascii)
        one_by_one = [answer_type(answer) for answer in answers.filter(others).to_pylist()]
        types = pc.replace_with_mask(types, pc.fill_null(others, False), pa.array(one_by_one, pa.string()))
    return types
