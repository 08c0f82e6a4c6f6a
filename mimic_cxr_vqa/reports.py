"""Report text -> its findings, impression and indication.

A report is a run of sections, each opened by a heading and ended by the next one. A heading is

- a known name (`FINDINGS`, `Reason for exam`, ...) in any case with `:` or `;`, at the start of a line or after the
  end of a sentence; in capitals also anywhere else, so that several headings on one line are told apart;
- `FINDINGS`, `IMPRESSION` or `INDICATION` in capitals alone on its line, `INDICATION` also with text behind it;
- any other words in capitals with a colon at the start of a line (`RECOMMENDATION(S):`). Inside the findings the name
  of a body part (`LUNGS:`, `HEART:`) is not a heading but a part of the findings.

What counts as findings, in this order:

1. a findings section, `FINDINGS AND IMPRESSION:` and its variants included; of several the last that has text, as an
   addendum or a second reading comes after what it replaces;
2. a section headed by the view (`PA AND LATERAL CHEST RADIOGRAPHS:`);
3. paragraphs that no section claims, where the report has no impression heading either: all but a title for a
   report with no heading at all, and what follows the first paragraph of the last section otherwise (MIMIC-CXR's
   `last_paragraph`).

An empty findings section is never filled from the impression: such a report has no findings. The wet read, a
preliminary reading that the final report replaces, is neither. White space in the results is folded to single blanks;
`___` stays.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Section kind -> heading names, each a pattern on text in capitals. Longer names come first where one begins another.
_HEADINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "findings",
        (
            r"FINDINGS?\s{0,3}(?:AND|&|/)\s{0,3}IMPRESSIONS?",
            r"IMPRESSIONS?\s{0,3}(?:AND|&|/)\s{0,3}FINDINGS?",
            r"(?:ADDITIONAL |PERTINENT |CHEST )?FINDINGS?",
        ),
    ),
    ("impression", (r"(?:FINAL )?IMPRESSIONS?", r"CONCLUSIONS?", r"OPINION")),
    ("clinical information", (r"CLINICAL INFORMATION",)),
    ("clinical history", (r"CLINICAL HISTORY",)),
    ("reason for examination", (r"REASON FOR (?:THE )?EXAMINATION",)),
    ("reason for exam", (r"REASON FOR EXAM", r"REASON FOR (?:THIS )?STUDY")),
    ("reason for the exam", (r"REASON FOR THE EXAM",)),
    ("indication", (r"(?:CLINICAL )?INDICATIONS?",)),
    ("history", (r"(?:PATIENT |MEDICAL )?HISTORY",)),
    ("wet read", (r"(?:PRELIMINARY )?WET READ",)),
    (
        "other",
        (
            r"(?:TYPE OF )?EXAMINATION",
            r"(?:TYPE OF )?EXAM",
            r"STUDY",
            r"PROCEDURE",
            r"TECHNIQUE",
            r"VIEWS?",
            r"COMPARISONS?(?: EXAMS?| FILMS?| STUDY| STUDIES)?",
            r"REFERENCE EXAM",
            r"ADDENDUM",
            r"NOTIFICATIONS?",
            r"RECOMMENDATIONS?(?:\(S\))?",
            r"COMMENTS?",
            r"FINAL REPORT",
            r"DATE(?: OF EXAM| OF SERVICE)?",
            r"DOSE",
        ),
    ),
)
# FACTS.md: the headings of the indication in the order in which they are tried.
INDICATION_ORDER = (
    "indication",
    "history",
    "clinical information",
    "reason for examination",
    "clinical history",
    "reason for exam",
    "reason for the exam",
)
_PARTS = re.compile(  # structured findings: these name a part of the chest, not a section
    r"LUNGS?|PLEURA|HEART|CARDI|MEDIASTIN|HIL[AU]|BON[EY]|OSSEOUS|SKELET|SOFT TISSUE|CHEST WALL|DIAPHRAGM|"
    r"UPPER ABDOMEN|"
    r"ABDOMEN|LINES?\b|TUBES?\b|DEVICES?|SUPPORT|AIRWAY|TRACHEA|VASC|AORTA|OTHERS?\b|RIGHT|LEFT|SPINE|RIBS?\b"
)
_VIEW = re.compile(r"\b(?:CHEST|RADIOGRAPHS?|X-?RAYS?|FRONTAL|LATERAL|PORTABLE|VIEWS?)\b")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_TITLE = re.compile(r"^[ \t_*]{0,120}(?:FINAL|PRELIMINARY) REPORT[ \t_*]{0,120}$", re.IGNORECASE | re.MULTILINE)


def _compile_headings() -> re.Pattern[str]:
    """One pattern for all headings.

    Groups: a known name at a line's start or behind a sentence, a known name in capitals elsewhere, a name alone on its
    line, a bare INDICATION, an unknown name in capitals. No quantifier is nested, so that a search takes linear time.
    """
    names = "|".join(name.replace(" ", r"[ \t]+") for _, patterns in _HEADINGS for name in patterns)
    line_start = r"(?:(?<=\n)|\A)[ \t]{0,40}"
    return re.compile(
        rf"(?:{line_start}|(?<=[.!?;_)][ ])[ ]?)(?P<known>(?i:{names}))[ \t]{{0,4}}[:;]"
        rf"|(?<![A-Za-z])(?P<inline>{names})[ \t]{{0,4}}:"
        rf"|{line_start}(?P<alone>FINDINGS?|IMPRESSIONS?|INDICATIONS?)[ \t\r]{{0,40}}(?=\n)"
        rf"|{line_start}(?P<bare>INDICATION)[ \t]{{1,4}}(?=\S)"
        rf"|{line_start}(?P<unknown>[A-Z][A-Z0-9 ,./()&'_-]{{2,80}}):(?=\s|\Z)"
    )


_HEADING = _compile_headings()
_KINDS = tuple(
    (kind, re.compile("|".join(p.replace(" ", r"[ \t]+") for p in patterns), re.IGNORECASE))
    for kind, patterns in _HEADINGS
)


@dataclass(frozen=True)
class Sections:
    """The sections of one report; None where the report has none, or an empty one."""

    findings: str | None
    impression: str | None
    indication: str | None


def split_sections(text: str) -> Sections:
    """Split a report into the sections that the dataset uses, by the rules in the module's docstring.

    Any string is accepted; time is linear in its length.

    Raises:
        TypeError: `text` is not a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"split_sections takes a report's text (str), got {type(text).__name__}")
    sections = list(_sections(text.replace("\r\n", "\n").replace("\r", "\n")))
    headings = {kind for kind, _ in sections}
    findings = _last_with_text(sections, "findings") or _last_with_text(sections, "view")
    if findings is None and not headings & {"findings", "impression"}:
        findings = _unclaimed_text(sections)
    return Sections(findings, _last_with_text(sections, "impression"), _indication(sections))


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) in the report's order; the kind of what stands before the first heading is `preamble`."""
    kind, start = "preamble", 0
    for match in _HEADING.finditer(text):
        following = _kind(match)
        if match["unknown"] and kind in ("findings", "view") and _PARTS.match(match["unknown"]):
            continue
        yield kind, text[start : match.start()]
        kind, start = following, match.end()
    yield kind, text[start:]


def _kind(match: re.Match[str]) -> str:
    if match["unknown"]:
        return "view" if _VIEW.search(match["unknown"]) else "other"
    name = match["known"] or match["inline"] or match["alone"] or match["bare"]
    return next(kind for kind, pattern in _KINDS if pattern.fullmatch(name))


def _last_with_text(sections: list[tuple[str, str]], wanted: str) -> str | None:
    return next((folded for kind, text in reversed(sections) if kind == wanted and (folded := _fold(text))), None)


def _indication(sections: list[tuple[str, str]]) -> str | None:
    """The text of the first heading of `INDICATION_ORDER` that has any, up to a blank line: the body may follow it."""
    for wanted in INDICATION_ORDER:
        for kind, text in sections:
            if kind == wanted and (folded := _fold(_BLANK_LINE.split(text, maxsplit=1)[0])):
                return folded
    return None


def _unclaimed_text(sections: list[tuple[str, str]]) -> str | None:
    """Rule 3: the paragraphs of a report that has neither a findings nor an impression heading."""
    kind, text = sections[-1]
    paragraphs = _BLANK_LINE.split(_TITLE.sub("", text))
    if kind == "wet read":
        return None
    if kind != "preamble":
        paragraphs = paragraphs[1:]  # the first belongs to the heading
    return _fold(" ".join(paragraphs))


def _fold(text: str) -> str | None:
    return " ".join(text.split()) or None
