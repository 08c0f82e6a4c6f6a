"""The cues around a finding, from `cues.tsv`: negation, doubt, change over time, and the study where it was seen.

A row has a kind, the direction in which the finding is (a cue `before` a finding applies to the words after it, one
`after` it to the words before it, and one `next` to it to the word directly before it), a regular expression, and an
example with its expected reading, which is a test. To add a cue, add a row. Where several cues match at one place, the
first row wins. A row of the kind `macro` names a part of other expressions. The other kinds are

    denial, doubt    the finding is absent, or uncertain
    change           only a change is denied ("no change in"), so the finding is present
    end              ends the scope of an earlier cue
    new, larger, smaller, unchanged, resolved      the temporal status of the finding
    other, earlier   the finding was seen on another modality, or on an earlier study
    here             it is also seen on this image
    past             the finding belongs to the patient's history and is not mentioned at all

Many cues are common to NegEx (Chapman et al. 2001), ConText (Harkema et al. 2009) and the CheXpert labeler (Irvin et
al. 2019). The expressions are our own.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

POLARITY = ("denial", "doubt", "change", "end")
STATUS = ("new", "larger", "smaller", "unchanged", "resolved")
PLACE = ("other", "earlier", "here", "past")


@dataclass(frozen=True)
class CueRow:
    """One row of `cues.tsv`."""

    kind: str
    direction: str
    text: str
    example: str
    reading: str


@dataclass(frozen=True)
class Cue:
    """A cue found in a clause at `start:end`."""

    row: CueRow
    start: int
    end: int

    @property
    def is_size(self) -> bool:
        """Whether the cue compares sizes, of two times or of two sides."""
        return self.row.kind in ("larger", "smaller")

    def is_kind(self, kind: str, direction: str) -> bool:
        """Whether the cue has a kind and a direction."""
        return self.row.kind == kind and self.row.direction in (direction, "both")


@cache
def read_rows() -> tuple[CueRow, ...]:
    """The rows of `cues.tsv` with their macros filled in."""
    rows: list[CueRow] = []
    for line in Path(__file__).with_name("cues.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        row = CueRow(*line.split("\t"))
        rows.append(replace(row, text=re.sub(r"\{([a-z]+)\}", lambda name: _macro(name[1], rows), row.text)))
    return tuple(rows)


def _macro(name: str, rows: Iterable[CueRow]) -> str:
    return next(row.text for row in rows if (row.kind, row.direction) == ("macro", name))


def find_cues(text: str, kinds: tuple[str, ...]) -> Iterator[Cue]:
    """The cues of these kinds in a text in lower case, in their order."""
    rows, pattern = _compile(kinds)
    for match in pattern.finditer(text):
        yield Cue(rows[int(match.lastgroup[1:])], *match.span())  # type: ignore[index]


@cache
def _compile(kinds: tuple[str, ...]) -> tuple[tuple[CueRow, ...], re.Pattern[str]]:
    rows = tuple(row for row in read_rows() if row.kind in kinds)
    parts = []
    for number, row in enumerate(rows):
        boundary = "" if row.text.startswith(("(?<", ",", "^")) else r"\b"
        parts.append(f"(?P<c{number}>{boundary}(?:{row.text}))(?!(?<=\\w)\\w)")
    return rows, re.compile("|".join(parts))


SIZED_COMMA = re.compile(rf",\s*(?={_macro('size', read_rows())}\b)")
