"""The default judge: compares what the labeler reads in an answer with what it reads in the findings.

Each failed check is recorded with the verdict:

    polarity       the answer affirms what the findings deny or omit, denies what they affirm, or contradicts itself
    certainty      the answer affirms what the findings doubt, or doubts what they affirm
    ground         the answer affirms or denies another finding against the findings
    side, number, degree   the detail is not in the findings (degree includes kinds such as "calcified")
    missing        the answer leaves out a finding, or its side, site, size or number
    change         the answer mentions a change or another study
    silent         the answer cannot be read

Clauses that the answer quotes from the findings always pass. The judge only knows the words of the lexicon, so an
answer without an objection may still be wrong. `cxr judge --probe` measures how many errors it finds.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from mimic_cxr_vqa.generation.extractive import question_form
from mimic_cxr_vqa.generation.frames import noun_phrase
from mimic_cxr_vqa.generation.lint import RULES, lint, warnings
from mimic_cxr_vqa.judging.base import Judgement
from mimic_cxr_vqa.judging.dimensions import BEST, DIMENSIONS, Verdict
from mimic_cxr_vqa.judging.pairs import Pair
from mimic_cxr_vqa.labeling.answer_polarity import UNDECIDED, answer_polarity
from mimic_cxr_vqa.labeling.fields import QUALIFIERS, SIDES, SITES, SIZES, is_modifier, read_modifiers
from mimic_cxr_vqa.labeling.mentions import (
    DEVICES,
    NEGATIVE,
    NOT_MENTIONED,
    OTHER_ABNORMALITY,
    POSITIVE,
    UNCERTAIN,
    Analysis,
    Mention,
    analyse,
)
from mimic_cxr_vqa.labeling.sentences import split_clauses, split_sentences
from mimic_cxr_vqa.schema import HEART, NO_FINDING

VERSION = "rules-3"
POLARITY, CERTAINTY, GROUND, MISSING, CHANGE, SILENT = "polarity", "certainty", "ground", "missing", "change", "silent"
SIDE, NUMBER, DEGREE = "side", "number", "degree"

# Failed check -> the best category that is still possible on each dimension.
_WRONG = {
    "correctness": "Incorrect",
    "consistency": "Inconsistent",
    "completeness": "Incomplete",
    "relevance": "Incorrect and Misleading",
}
_WRONG_DETAIL = {k: v for k, v in _WRONG.items() if k != "completeness"}
COSTS: dict[str, Verdict] = {
    POLARITY: _WRONG,
    GROUND: _WRONG_DETAIL,
    SIDE: _WRONG_DETAIL,
    NUMBER: _WRONG_DETAIL,
    DEGREE: {"consistency": "Partially Consistent"},
    CERTAINTY: {"consistency": "Partially Consistent"},
    MISSING: {"completeness": "Partially Complete"},
    CHANGE: {"consistency": "Partially Consistent"},
    SILENT: {"completeness": "Incomplete", "relevance": "Non-essential but Correct"},
}

_LEAD = re.compile(r"\W*(yes|no)\W*?(?:[,.;:!]\s*|$)", re.IGNORECASE)
# Kinds of a finding that must be in the findings if the answer has them.
_STATED_KINDS = frozenset(("calcified", "loculated", "layering", "healed", "displaced", "chronic", "multifocal"))
_IN_IMAGE = re.compile(r" (?:in|on) (?:the|this) (?:radiograph|image)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CARDINALS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_ORDINALS = ["third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"]
_DIGITS = {
    word: str(number) for words, first in ((_CARDINALS, 2), (_ORDINALS, 3)) for number, word in enumerate(words, first)
}
_SYNONYMS = {"et": "endotracheal", "ett": "endotracheal", "ng": "nasogastric", "ngt": "nasogastric"}  # of devices
_ORDINAL_END = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_LITTLE_SIZES = {"small", "tiny", "trace", "minimal", "slight", "minute", "subtle"}  # near synonyms
_QUOTED = 0.8  # share of a clause's words that makes it a quote
_PLEURAL = ("Pleural Effusion", "Pneumothorax")
_LITTLE = frozenset(("a", "an", "the", "of", "in", "on", "at", "is", "are", "no", "and", "or", "with", "seen"))


class RuleJudge:
    """Judges by rules, in process and deterministically."""

    name = "rules"
    endpoint: str | None = None
    in_flight = 64

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"judge": self.name, "model": self.name, "prompt_version": VERSION}

    async def judge(self, pairs: Sequence[Pair], reverse: bool = False) -> list[Judgement]:
        """Judge each pair. `reverse` does not have an effect."""
        return [Judgement(verdict, details={"reasons": reasons}) for verdict, reasons in map(judge_by_rules, pairs)]


def judge_by_rules(pair: Pair) -> tuple[Verdict, list[str]]:
    """The verdict and the names of the failed checks."""
    reading = _read(pair)
    reasons = [*_judge_polarity(reading), *_judge_statements(reading), *_find_missing(reading)]
    if POLARITY in reasons:  # a denied finding is not also missing
        reasons = [reason for reason in reasons if reason != MISSING]
    if has_change_words(pair.answer):
        reasons.append(CHANGE)
    verdict = dict(BEST)
    for reason in dict.fromkeys(reasons):
        for name, category in COSTS[reason].items():
            verdict[name] = _worse(name, verdict[name], category)
    return verdict, list(dict.fromkeys(reasons))


def has_change_words(answer: str) -> bool:
    """Whether an answer has a word of comparison."""
    prohibited = {rule for rule, _ in RULES if rule.startswith("prohibited:")}
    return bool(prohibited & set(lint(answer)) or warnings(answer))


def _worse(dimension: str, one: str, other: str) -> str:
    return min(one, other, key=DIMENSIONS[dimension].categories.index)


@dataclass(frozen=True)
class _Reading:
    pair: Pair
    category: str  # Cardiomegaly for a question about Heart
    lead: str | None
    rest: str
    answer: Analysis
    report: Analysis
    impression: Analysis
    asks_normal: bool


def _read(pair: Pair) -> _Reading:
    request = pair.request
    lead = _LEAD.match(pair.answer)
    rest = pair.answer[lead.end() :] if lead else pair.answer
    category = "Cardiomegaly" if request.category == HEART else request.category
    return _Reading(
        pair,
        category,
        lead[1].lower() if lead else None,
        rest,
        analyse(rest),
        analyse(request.findings),
        analyse(request.impression or ""),
        request.category == HEART and question_form(request.question).asks_normal,
    )


def _judge_polarity(reading: _Reading) -> list[str]:
    """Compare the polarity of the category in the answer and in the findings."""
    said, found = _read_polarity(reading), reading.report.polarity(reading.category)
    if said is None:
        return [POLARITY]  # "No, there is an effusion."
    allowed = {found, NEGATIVE} if found == NOT_MENTIONED else {found}
    if found == NOT_MENTIONED and reading.impression.polarity(reading.category) in (POSITIVE, UNCERTAIN):
        allowed |= {POSITIVE, UNCERTAIN}
    if reading.category == "Pleural Other":
        allowed |= {reading.report.polarity(other) for other in _PLEURAL} - {NEGATIVE, NOT_MENTIONED}
    if any(m.elsewhere for m in reading.report.mentions.get(reading.category, ())):
        allowed |= {UNCERTAIN, NEGATIVE, POSITIVE}  # for "seen on CT" both answers are acceptable
    if said == UNDECIDED:
        return [SILENT]
    if said in allowed:
        return []
    return [CERTAINTY] if said == UNCERTAIN or (said, found) == (POSITIVE, UNCERTAIN) else [POLARITY]


def _read_polarity(reading: _Reading) -> str | None:
    """The polarity of the answer, or None if its "yes" or "no" contradicts the rest."""
    if reading.pair.request.category == HEART:
        lead = None
        if reading.lead:
            lead = NEGATIVE if (reading.lead == "yes") == reading.asks_normal else POSITIVE
        rest = analyse(_IN_IMAGE.sub("", reading.rest)).polarity("Cardiomegaly")
        if rest == NOT_MENTIONED:
            return lead or UNDECIDED
    else:
        said = answer_polarity(reading.pair.answer, reading.category)
        if said == UNDECIDED and reading.category == "Pleural Other":  # its questions ask for any pleural abnormality
            said = next((POSITIVE for other in _PLEURAL if reading.answer.polarity(other) == POSITIVE), said)
        if said != UNDECIDED or not reading.lead:
            return said
        lead = POSITIVE if (reading.lead == "yes") != (reading.category == NO_FINDING) else NEGATIVE
        rest = answer_polarity(reading.rest, reading.category)
    return None if {lead, rest} == {POSITIVE, NEGATIVE} else rest


def _judge_statements(reading: _Reading) -> Iterable[str]:
    """Check each clause of the answer that is not a quote."""
    findings = reading.pair.request.findings
    report_clauses, report_words = _clauses(findings), _words(findings)
    for clause in _split(reading.rest):
        if _fold(clause) in report_clauses:
            continue
        words = _words(clause)
        if set(filter(_NUMBER.fullmatch, words)) - set(report_words) or _measures_in(clause) - _measures_in(findings):
            yield NUMBER
        if _STATED_KINDS & set(words) - set(report_words):
            yield DEGREE
        if any(_is_thinned(words, _words(whole)) for whole in _split(findings)):
            yield MISSING
        analysis = analyse(clause)
        yield from _judge_fields(analysis, reading)
        yield from _judge_mentions(analysis, reading)


def _judge_fields(clause: Analysis, reading: _Reading) -> Iterable[str]:
    """Compare the sides and sizes of each finding with those in the findings."""
    for mention in (m for mentions in clause.mentions.values() for m in mentions if m.polarity != NEGATIVE):
        there = _find_same(mention, reading.report)
        if not there:
            continue
        sides = {side for m in there for side in m.fields.sides}
        sides = sides or {side for m in there for side in _sides_in(_words(m.clause))}
        if sides and set(mention.fields.sides) - sides:
            yield SIDE
        sizes = {size for m in there for size in _sizes_in(_words(m.clause))}
        if mention.category != DEVICES and _sizes_in((mention.fields.size or "").split()) - sizes:
            yield DEGREE


def _find_same(mention: Mention, report: Analysis) -> list[Mention]:
    """The mentions of the same finding in the report that do not deny it."""
    there = [m for m in report.mentions.get(mention.category, ()) if m.polarity != NEGATIVE]
    if mention.category != OTHER_ABNORMALITY:
        return there
    return [m for m in there if _name(m) == _name(mention)]


def _name(mention: Mention) -> str:
    return mention.clause[slice(*mention.span)].lower()


def _sides_in(words: Iterable[str]) -> set[str]:
    return {side for word in words for side in SIDES.get(word, ())}


def _sizes_in(words: Iterable[str]) -> set[str]:
    return {SIZES[word] for word in words if word in SIZES}


def _measures_in(text: str) -> set[float]:
    """The measures of a text in millimetres."""
    found = re.findall(r"(\d+(?:\.\d+)?)[ -]?(mm|cm)\b", text.lower())
    return {round(float(number) * (10 if unit == "cm" else 1), 3) for number, unit in found}


def _judge_mentions(clause: Analysis, reading: _Reading) -> Iterable[str]:
    """Check the other findings that a clause affirms or denies."""
    for category, mentions in clause.mentions.items():
        if category in (HEART, reading.category):
            continue
        found = reading.report.polarity(category)
        for mention in mentions:
            if any(_overlap(mention.span, asked.span) for asked in clause.mentions.get(reading.category, ())):
                continue  # the same words name both, as a consolidation is an opacity
            if mention.polarity == POSITIVE and found in (NEGATIVE, NOT_MENTIONED):
                if reading.impression.polarity(category) not in (POSITIVE, UNCERTAIN):
                    yield GROUND
            elif mention.polarity == NEGATIVE and mention.named and found == POSITIVE:
                yield GROUND


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _is_thinned(words: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether `words` repeat the clause `whole` without one of its sides, sites, sizes or numbers."""
    blocks = [
        block for block in SequenceMatcher(None, words, whole, autojunk=False).get_matching_blocks() if block.size
    ]
    kept = {block.b + step for block in blocks for step in range(block.size)}
    content = [word for word in words if word not in _LITTLE]
    if not content or sum(whole[place] not in _LITTLE for place in kept) < _QUOTED * len(content):
        return False
    first = min(kept)
    while first and _is_detail(whole[first - 1]):
        first -= 1
    lost = {whole[place] for place in range(first, max(kept)) if place not in kept and _is_detail(whole[place])}
    return bool(lost - set(words))


def _is_detail(word: str) -> bool:
    return is_modifier(word) or bool(_NUMBER.fullmatch(word))


def _find_missing(reading: _Reading) -> Iterable[str]:
    """Find details of the category that the answer leaves out."""
    if reading.category == NO_FINDING:
        spoken = {category for category, found in reading.answer.mentions.items() if any(m.named for m in found)}
        for mention in reading.report.abnormal(POSITIVE):
            phrase = noun_phrase(mention, article=False)
            if phrase and not mention.elsewhere and mention.category not in spoken:
                yield MISSING
                return
        return
    words = set(_words(reading.pair.answer))
    for mention in reading.report.of(reading.category, POSITIVE):
        if not mention.elsewhere and _lacks(mention, words):
            yield MISSING
            return


def _lacks(mention: Mention, words: set[str]) -> bool:
    """Whether an answer with these words lacks a side, site, size or count of `mention`, or the kind of a device."""
    fields = mention.fields
    if mention.category == DEVICES:
        return _lacks_device(mention, words)
    sizes = _sizes_in(words)
    if sizes & _LITTLE_SIZES or "little" in words:
        sizes |= _LITTLE_SIZES
    numbers = {word for word in _words(noun_phrase(mention) or "") if _NUMBER.fullmatch(word)}
    lacking = (set(fields.sides) - _sides_in(words), _sizes_in((fields.size or "").split()) - sizes, numbers - words)
    return any(lacking) or bool(fields.sites) and not {SITES.get(word) for word in words} & set(fields.sites)


def _lacks_device(mention: Mention, words: set[str]) -> bool:
    kind = (word for word in read_modifiers(mention.clause[: mention.span[0]].lower()) if word in QUALIFIERS)
    own = {*kind, *_words(_name(mention))} - _LITTLE
    given, wanted = ({_SYNONYMS.get(word, word) for word in some} for some in (words, own))
    return bool(set(_singular(wanted)) - set(_singular(given)))


@lru_cache(maxsize=256)
def _clauses(text: str) -> frozenset[str]:
    return frozenset(_fold(clause) for clause in _split(text))


def _split(text: str) -> list[str]:
    return [clause for sentence in split_sentences(text) for clause in split_clauses(sentence)]


def _fold(clause: str) -> str:
    return " ".join(_words(re.sub(r"^[A-Z][A-Z ,/&()-]{2,60}:\s*", "", clause)))


def _words(text: str) -> list[str]:
    """The words of `text` in lower case, with numbers and ordinals as digits ("sixth", "6th": 6)."""
    found = re.findall(r"[a-z]+(?:-[a-z]+)*|\d+(?:\.\d+)?", _ORDINAL_END.sub("", text.lower()))
    return [_DIGITS.get(word, word) for word in found]


def _singular(words: Iterable[str]) -> list[str]:
    return [re.sub(r"(?<=[a-z]{3})(?:ies|es|s|y|is)$", "", word) for word in words]
