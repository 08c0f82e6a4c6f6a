"""Report text -> its findings, impression and indication.

A report is a run of sections, each opened by a heading (`headings`) and ended by the next one. A heading is

- a known name in any case with `:` or `;`, at the start of a line or after the end of a sentence; in capitals also
  anywhere else, so that several headings on one line are told apart; a misspelling of one (`FINDGINGS:`) likewise;
- `FINDINGS`, `IMPRESSION`, `INDICATION`, `FINAL REPORT`, `WET READ` or `ADDENDUM` in capitals alone on its line,
  `INDICATION` also with text behind it;
- other words in capitals with a colon at the start of a line, outside the findings and the impression. Inside them any
  words that are no known name (`LUNGS:`, `NG TUBE:`, `PNEUMOTHORAX:`) are a sub-heading and belong to the section.

In the middle of a line of the findings or the impression the name of an exam's section ("Stable. Comparison: none.
Heart is large.") claims its own sentence only.

What counts as findings, in this order:

1. the findings sections, `FINDINGS AND IMPRESSION:` and its variants included; several are joined, but those behind
   an addendum replace those before it, and those of a final report those of a wet read;
2. sections headed by the view (`PA AND LATERAL CHEST RADIOGRAPHS:`) or by an organ (`LUNGS:`);
3. paragraphs that no section claims, where the report has no impression heading either: all for a report with no
   heading at all, and what follows the first paragraph of the last section otherwise (MIMIC-CXR's `last_paragraph`).
   A line of title (`AP CHEST, 5:16 A.M., ___`) is left out.

An empty findings section is never filled from the impression: such a report has no findings. White space in the
results is folded to single blanks; `___` stays.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mimic_cxr_vqa.headings import INDICATION_ORDER, alternatives, kind_of, misspelt

_FINDINGS = ("findings", "findings and impression", "other findings")
_BODY = (*_FINDINGS, "view", "impression")  # sections whose unknown sub-headings are their own
_RESTART = ("addendum", "final report", "wet read")  # findings behind it replace those before it
_CLAIMS_A_SENTENCE = {kind: ("exam", *INDICATION_ORDER) for kind in _BODY} | {"preamble": ("exam",)}  # in mid-line

_VIEW = re.compile(r"\b(?:CHEST|RADIOGRAPHS?|X-?RAYS?|FRONTAL|LATERAL|PORTABLE|VIEWS?)\b")
_ORGAN = re.compile(r"LUNGS?|HEART|CARDIAC|CARDIOMEDIASTIN\w+|MEDIASTINUM|PLEURA\w*")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n|\Z")
_TITLE = """a and am ap at by cxr cr chest date dated exam examination film films for from frontal hour hours hrs image
images lateral of on one only or pa pm portable radiograph radiographs radiography routine semi semierect semiupright
erect upright supine single studies study the three time two view views x xray ray rays a.m p.m"""
_TITLE_WORDS = frozenset(_TITLE.split())
_WORD = re.compile(r"[a-z]+(?:\.[a-z]+)*")


def _compile_headings() -> re.Pattern[str]:
    """One pattern for all that may be a heading.

    Groups: a known name at a line's start or behind a sentence, a known name in capitals elsewhere, a name alone on its
    line, a bare INDICATION, words that may misspell a name, an unknown name in capitals. No quantifier is nested, so
    that a search takes linear time.
    """
    names = alternatives()
    line_start = r"(?:(?<=\n)|\A)[ \t]{0,40}"
    boundary = rf"(?:{line_start}|(?<=[.!?;_)][ ])[ ]?)"
    alone = r"FINDINGS?|IMPRESSIONS?|INDICATIONS?|WET READ|(?:FINAL )?ADDENDUM|(?:FINAL|PRELIMINARY) REPORT"
    return re.compile(
        rf"{boundary}(?P<known>(?i:{names}))[ \t]{{0,4}}[:;]"
        rf"|(?<![A-Za-z])(?P<inline>{alternatives(in_line=True)})[ \t]{{0,4}}:"
        rf"|{line_start}(?P<alone>{alone})[ \t\r]{{0,40}}(?=\n)"
        rf"|(?:(?<=\n)|\A)[ \t_*]{{0,120}}(?P<centred>(?i:(?:FINAL|PRELIMINARY) REPORT))[ \t_*]{{0,120}}(?=\n|\Z)"
        rf"|{line_start}(?P<bare>INDICATION)[ \t]{{1,4}}(?=\S)"
        rf"|{boundary}(?P<typed>[A-Za-z]{{6,14}}(?:[ \t]+[A-Za-z]{{2,13}}){{0,2}})[ \t]{{0,4}}:"
        rf"|(?<![A-Za-z])(?P<typo>[A-Z]{{6,14}})[ \t]{{0,4}}:"
        rf"|{line_start}(?P<unknown>[A-Z][A-Z0-9 ,./()&'_-]{{2,80}}):(?=\s|\Z)"
    )


_HEADING = _compile_headings()
_INSIDE = re.compile(rf"(?<![A-Za-z])(?:{alternatives(in_line=True)})[ \t]{{0,4}}:")


@dataclass(frozen=True)
class Section:
    """One piece of a report: its kind, its heading as the report has it (empty where it goes on), what follows it."""

    kind: str
    heading: str
    text: str


@dataclass(frozen=True)
class Sections:
    """The sections of one report; None where the report has none, or an empty one.

    Attributes:
        rules: names of the rules that the report met (`RULES`), for the statistics.
    """

    findings: str | None
    impression: str | None
    indication: str | None
    rules: frozenset[str] = field(default=frozenset(), compare=False)


NO_FINDINGS = "no findings"
# What `Sections.rules` may name: where the findings were found, then what was done on the way.
RULES = (
    "findings heading",
    "findings and impression in one",
    "view heading",
    "no heading",
    "last paragraph",
    NO_FINDINGS,
    "official sections",  # `physionet` with a file of sections
    "sub-heading kept",
    "misspelt heading",
    "heading in mid-line",
    "several findings sections",
    "title left out",
    "wet read left out",
    "addendum",
)


def split_sections(text: str) -> Sections:
    """Split a report into the sections that the dataset uses, by the rules in the module's docstring.

    Any string is accepted; time is linear in its length.

    Raises:
        TypeError: `text` is not a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"split_sections takes a report's text (str), got {type(text).__name__}")
    rules: set[str] = set()
    sections = list(_cut(_one_line_ends(text), rules))
    kinds = {section.kind for section in sections}
    findings, impression = _findings(sections, kinds, rules), _last_with_text(sections, "impression")
    for kind, rule in (("wet read", "wet read left out"), ("addendum", "addendum")):
        if kind in kinds:
            rules.add(rule)
    if findings is None:
        rules.add(NO_FINDINGS)
    return Sections(findings, impression, _indication(sections), frozenset(rules))


def partition(text: str) -> list[Section]:
    """All pieces of a report in their order: headings and texts joined are the report (with `\\n` for line ends)."""
    return list(_cut(_one_line_ends(text), set()))


def _one_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _cut(text: str, rules: set[str]) -> Iterator[Section]:
    """Yield the pieces; what stands before the first heading is of the kind `preamble`. Names met rules in `rules`."""
    kind, heading, start, place = "preamble", "", 0, 0
    while match := _HEADING.search(text, place):
        place = match.end()
        following = _kind(text, match, kind, rules)
        if following is None:
            if match["unknown"] and (inside := _INSIDE.search(text, match.start() + 1, match.end())):
                place = inside.start()  # "COPD FINDINGS:" at the start of a line
            continue
        yield Section(kind, heading, text[start : match.start()])
        first = match.end() if following != "organ" else match.start()
        if following in _CLAIMS_A_SENTENCE.get(kind, ()) and not _starts_line(text, match.start()):
            rules.add("heading in mid-line")
            end = _SENTENCE_END.search(text, first).end()
            yield Section(following, match[0], text[first:end])
            heading, start = "", end
            place = max(place, end - 1)  # what comes next may need the blank before it
            continue
        kind, heading, start = "view" if following == "organ" else following, text[match.start() : first], first
    yield Section(kind, heading, text[start:])


def _kind(text: str, match: re.Match[str], current: str, rules: set[str]) -> str | None:
    """The kind of the section that `match` opens in a section `current`; None where it opens none."""
    if name := match["known"] or match["inline"] or match["alone"] or match["centred"] or match["bare"]:
        kind = kind_of(name)
        return None if kind == "other findings" and current in (*_FINDINGS, "view") else kind
    name = match["typed"] or match["typo"] or match["unknown"]
    if kind := misspelt(name):
        rules.add("misspelt heading")
        return kind
    if not name.isupper() or not _starts_line(text, match.start()) or _INSIDE.search(text, match.start(), match.end()):
        return None
    if current in _BODY:
        rules.add("sub-heading kept")
        return None
    if _ORGAN.match(name):
        return "organ"
    return "view" if _VIEW.search(name) else "unknown"


def _starts_line(text: str, start: int) -> bool:
    return not text[text.rfind("\n", 0, start) + 1 : start].strip()


def _findings(sections: list[Section], kinds: set[str], rules: set[str]) -> str | None:
    for wanted, rule in ((_FINDINGS, "findings heading"), (("view",), "view heading")):
        if found := _joined(sections, wanted, rules):
            both = wanted is _FINDINGS and "findings and impression" in kinds
            rules.add("findings and impression in one" if both else rule)
            return found
    if kinds & {*_FINDINGS, "impression"}:
        return None
    if found := _unclaimed_text(sections, rules):
        rules.add("no heading" if sections[-1].kind in ("preamble", "final report") else "last paragraph")
    return found


def _joined(sections: list[Section], wanted: tuple[str, ...], rules: set[str]) -> str | None:
    """The texts of the wanted sections, from the last restart on that has any."""
    found: list[str] = []
    started = 0  # sections of their own heading among them
    restarted = False
    for section in sections:
        restarted = restarted or section.kind in _RESTART
        if section.kind in wanted and (folded := _fold(section.text)):
            if restarted and section.heading:
                found, started, restarted = [], 0, False
            found.append(folded)
            started += bool(section.heading)
    if started > 1 and wanted is _FINDINGS:
        rules.add("several findings sections")
    return " ".join(found) or None


def _last_with_text(sections: list[Section], wanted: str) -> str | None:
    """The last section of a kind that has text, with the pieces that go on with it."""
    texts: list[str] = []
    for section in sections:
        if section.kind == wanted and section.text.strip():
            texts = [section.text] if section.heading else [*texts, section.text]
    return _fold(" ".join(texts))


def _indication(sections: list[Section]) -> str | None:
    """The text of the first heading of `INDICATION_ORDER` that has any, up to a blank line: the body may follow it."""
    for wanted in INDICATION_ORDER:
        for section in sections:
            if section.kind == wanted and (folded := _fold(_BLANK_LINE.split(section.text, maxsplit=1)[0])):
                return folded
    return None


def _unclaimed_text(sections: list[Section], rules: set[str]) -> str | None:
    """Rule 3: the paragraphs of a report that has neither a findings nor an impression heading."""
    last = sections[-1]
    texts = [section.text for section in sections if section.kind == last.kind]
    paragraphs = _BLANK_LINE.split(" ".join(texts) if last.kind == "preamble" else last.text)
    if last.kind in ("wet read", "addendum"):
        return None
    if last.kind not in ("preamble", "final report"):
        paragraphs = paragraphs[1:]  # the first belongs to the heading
    kept = [paragraph for paragraph in paragraphs if not is_title(paragraph)]
    if any(map(is_title, paragraphs)):
        rules.add("title left out")
    return _fold(" ".join(kept))


def is_title(paragraph: str) -> bool:
    """Whether a paragraph names the examination and says nothing: all its words are those of titles."""
    words = _WORD.findall(paragraph.lower())
    return bool(words) and _TITLE_WORDS.issuperset(words) and bool(_VIEW.search(paragraph.upper()))


def _fold(text: str) -> str | None:
    return " ".join(text.split()) or None
