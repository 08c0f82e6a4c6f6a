"""Split a report into findings, impression and indication.

A section starts at a heading (`headings`) and ends at the next one. A heading is

- a known name with `:` or `;`, or a misspelling of one (`FINDGINGS:`), at the start of a line or after a sentence, and
  in capitals also anywhere else in a line. A qualifier (`FINDINGS (REPEAT):`) may follow the name;
- a known name with a dash (`FINDINGS -`) at the start of a line;
- `FINDINGS`, `IMPRESSION`, `INDICATION`, `FINAL REPORT`, `WET READ` or `ADDENDUM` in capitals or title case alone on a
  line, and `INDICATION` also with text after it;
- the attestation of the attending physician, which begins a closing section;
- other words in capitals with a colon at the start of a line. Within the findings or the impression these (`LUNGS:`,
  `NG TUBE:`) are sub-headings and belong to the section.

Within a line of the findings or the impression an exam heading ("Stable. Comparison: none. Heart is large.") only takes
its own sentence.

The findings are the first of these that has text:

1. the findings sections, including `FINDINGS AND IMPRESSION:`. Several are joined, but sections after an addendum
   replace those before it, and sections of a final report replace those of a wet read.
2. sections with the view (`PA AND LATERAL CHEST RADIOGRAPHS:`) or an organ (`LUNGS:`) as heading.
3. for a report without an impression, paragraphs outside of sections: all of them, or those after the first paragraph
   of the last section (MIMIC-CXR's `last_paragraph`). Titles (`AP CHEST, 5:16 A.M., ___`) are left out.

An empty findings section is not filled from the impression. White space in the results is folded to single blanks.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mimic_cxr_vqa.headings import INDICATION_ORDER, alternatives, find_kind, find_misspelt_kind

_FINDINGS = ("findings", "findings and impression", "other findings")
_BODY = (*_FINDINGS, "view", "impression")  # sections that contain sub-headings
_RESTART = ("addendum", "final report", "wet read")  # later findings replace earlier ones
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


# How the attending physician signs, at the end of a report.
_ATTESTED = (
    r"(?i:I,? (?:the )?(?:undersigned|attending|dr\.?|[\w. ]{1,40},)[^.\n]{0,40}(?:reviewed|attest|agree|supervised)"
    r"|I (?:have |was )?(?:personally )?(?:reviewed|attest|agree|supervised)"
    r"|(?:as |the )?(?:the )?(?:attending|teaching) (?:radiologist|physician)\b"
    r"|electronically (?:signed|approved)|(?:this )?report (?:was )?(?:electronically )?(?:signed|approved|dictated) )"
)


def _compile_headings() -> re.Pattern[str]:
    """One pattern for every possible heading. Without nested quantifiers, a search takes linear time."""
    names = alternatives()
    line_start = r"(?:(?<=\n)|\A)[ \t]{0,40}"
    boundary = rf"(?:{line_start}|(?<=[.!?;_)][ ])[ ]?)"
    end = r"[ \t]{0,4}(?:\([^()\n]{1,30}\)[ \t]{0,4})?"  # a qualifier: "FINDINGS (REPEAT):"
    titled = r"Findings?|Impressions?|Indications?|Wet Read|(?:Final )?Addendum|Final Report"
    alone = r"FINDINGS?|IMPRESSIONS?|INDICATIONS?|WET READ|(?:FINAL )?ADDENDUM|(?:FINAL|PRELIMINARY) REPORT"
    return re.compile(
        rf"{boundary}(?P<known>(?i:{names})){end}[:;]"
        rf"|{line_start}(?P<dashed>(?i:{names})){end}(?:--?|–|—)(?=[ \t\r\n])"
        rf"|{boundary}(?P<attested>{_ATTESTED})"
        rf"|(?<![A-Za-z])(?P<inline>{alternatives(in_line=True)}){end}:"
        rf"|{line_start}(?P<alone>{alone}|{titled})[ \t\r]{{0,40}}(?=\n)"
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
    """One piece of a report: its kind, its heading (empty if it continues a section) and its text."""

    kind: str
    heading: str
    text: str


@dataclass(frozen=True)
class Sections:
    """The sections of one report. None if a section is missing or empty.

    Attributes:
        rules: names of the rules that were applied (`RULES`), for the statistics.
    """

    findings: str | None
    impression: str | None
    indication: str | None
    rules: frozenset[str] = field(default=frozenset(), compare=False)


NO_FINDINGS = "no findings"
# The possible `Sections.rules`: first the source of the findings.
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
    """Split a report by the rules in the module's docstring, in time linear in its length.

    Examples:
        >>> sections = split_sections("FINDINGS: No effusion. IMPRESSION: Normal chest.")
        >>> sections.findings, sections.impression
        ('No effusion.', 'Normal chest.')
    """
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
    """All pieces of a report in their order. Joined they are the report with `\\n` as line ends."""
    return list(_cut(_one_line_ends(text), set()))


def _one_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _cut(text: str, rules: set[str]) -> Iterator[Section]:
    """Yield the pieces, first the `preamble` before any heading. Adds the applied rules to `rules`."""
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
            ending = _SENTENCE_END.search(text, first)
            end = ending.end() if ending else len(text)
            yield Section(following, match[0], text[first:end])
            heading, start = "", end
            place = max(place, end - 1)  # the next heading may need the blank before it
            continue
        kind, heading, start = "view" if following == "organ" else following, text[match.start() : first], first
    yield Section(kind, heading, text[start:])


def _kind(text: str, match: re.Match[str], current: str, rules: set[str]) -> str | None:
    """The kind of section that `match` opens within a section `current`, or None."""
    if match["attested"]:
        return "closing"
    name = match[match.lastgroup or 0]
    if match.lastgroup not in ("typed", "typo", "unknown"):
        kind = find_kind(name)
        return None if kind == "other findings" and current in (*_FINDINGS, "view") else kind
    if misspelt := find_misspelt_kind(name):
        rules.add("misspelt heading")
        return misspelt
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
    """The texts of the wanted sections since the last restart."""
    found: list[str] = []
    started = 0  # number of headings among them
    restarted = False
    for section in sections:
        restarted = restarted or section.kind in _RESTART
        if section.kind in wanted and (folded := fold(section.text)):
            if restarted and section.heading:
                found, started, restarted = [], 0, False
            found.append(folded)
            started += bool(section.heading)
    if started > 1 and wanted is _FINDINGS:
        rules.add("several findings sections")
    return " ".join(found) or None


def _last_with_text(sections: list[Section], wanted: str) -> str | None:
    """The last section of a kind that has text, with its continuations."""
    texts: list[str] = []
    for section in sections:
        if section.kind == wanted and section.text.strip():
            texts = [section.text] if section.heading else [*texts, section.text]
    return fold(" ".join(texts))


def _indication(sections: list[Section]) -> str | None:
    """The text of the first heading of `INDICATION_ORDER` that has text, up to a blank line."""
    for wanted in INDICATION_ORDER:
        for section in sections:
            if section.kind == wanted and (folded := fold(_BLANK_LINE.split(section.text, maxsplit=1)[0])):
                return folded
    return None


def _unclaimed_text(sections: list[Section], rules: set[str]) -> str | None:
    """Rule 3: paragraphs of a report without a findings or impression heading."""
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
    return fold(" ".join(kept))


def is_title(paragraph: str) -> bool:
    """Whether a paragraph is only a title of the examination."""
    words = _WORD.findall(paragraph.lower())
    return bool(words) and _TITLE_WORDS.issuperset(words) and bool(_VIEW.search(paragraph.upper()))


def fold(text: str) -> str | None:
    """`text` with single blanks, or None if it is blank."""
    return " ".join(text.split()) or None
