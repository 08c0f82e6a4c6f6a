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
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from medvqa_core.llm.engines import Reply
from mimic_cxr_vqa.generation.extractive import asks_normal
from mimic_cxr_vqa.generation.frames import noun_phrase
from mimic_cxr_vqa.generation.lint import lint, warnings
from mimic_cxr_vqa.judging.base import verdict_reply
from mimic_cxr_vqa.judging.dimensions import BEST, DIMENSIONS, Verdict
from mimic_cxr_vqa.judging.pairs import Pair
from mimic_cxr_vqa.labeling.answer_polarity import LEAD, UNDECIDED, answer_polarity
from mimic_cxr_vqa.labeling.fields import (
    COUNTS,
    QUALIFIERS,
    SITES,
    find_levels,
    find_sides,
    is_modifier,
    read_modifiers,
    split_words,
)
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

VERSION = "rules-4"
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

# Kinds of a finding that must be in the findings if the answer has them.
_STATED_KINDS = frozenset(("calcified", "loculated", "layering", "healed", "displaced", "chronic", "multifocal"))
_MEASURE = re.compile(r"(\d+(?:\.\d+)?)[ -]?(mm|cm)\b")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?=\b|st|nd|rd|th)")
_ORDINALS = ("third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth")
_DIGITS = {word: str(number) for number, word in enumerate(_ORDINALS, 3)} | COUNTS
_SYNONYMS = {"et": "endotracheal", "ett": "endotracheal", "ng": "nasogastric", "ngt": "nasogastric"}  # of devices
# Names of one region of the lungs.
_REGIONS = {"perihilar": "hilar", "mid": "middle", "base": "lower", "apex": "upper"}
_PLEURAL = ("Pleural Effusion", "Pneumothorax")


class RuleJudge:
    """Judges by rules, in process and deterministically."""

    name = "rules"
    endpoint: str | None = None
    in_flight = 64

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"judge": self.name, "model": self.name, "prompt_version": VERSION}

    async def judge(self, pairs: Sequence[Pair], reverse: bool = False) -> list[Reply]:
        """Judge each pair. `reverse` does not have an effect."""
        return [verdict_reply(verdict, {"reasons": reasons}) for verdict, reasons in map(judge_by_rules, pairs)]


def judge_by_rules(pair: Pair) -> tuple[Verdict, list[str]]:
    """The verdict and the names of the failed checks."""
    reading = _read(pair)
    reasons = [*_judge_polarity(reading), *_judge_statements(reading), *_find_missing(reading)]
    if POLARITY in reasons:  # a denied finding is not also missing
        reasons = [reason for reason in reasons if reason != MISSING]
    changed = set(warnings(pair.answer)) - set(warnings(pair.request.findings))
    if changed or any(rule.startswith("prohibited:") for rule in lint(pair.answer)):
        reasons.append(CHANGE)
    verdict = dict(BEST)
    for reason in dict.fromkeys(reasons):
        for name, category in COSTS[reason].items():
            verdict[name] = _worse(name, verdict[name], category)
    return verdict, list(dict.fromkeys(reasons))


def _worse(dimension: str, one: str, other: str) -> str:
    return min(one, other, key=DIMENSIONS[dimension].categories.index)


@dataclass(frozen=True)
class _Reading:
    pair: Pair
    category: str  # Cardiomegaly for a question about Heart
    answer: str  # "yes" and "no" are about the category
    stated: Analysis
    report: Analysis
    impression: Analysis


def _read(pair: Pair) -> _Reading:
    request, answer = pair.request, pair.answer
    lead = LEAD.match(answer)
    rest = answer[lead.end() :] if lead else answer
    category = request.category
    if category == HEART:
        category = "Cardiomegaly"
        if lead and asks_normal(request.question):
            answer = f"{'No' if lead[1].lower() == 'yes' else 'Yes'}, {rest}"
    return _Reading(pair, category, answer, analyse(rest), analyse(request.findings), analyse(request.impression or ""))


def _judge_polarity(reading: _Reading) -> list[str]:
    """Compare the polarity of the category in the answer and in the findings."""
    category, report = reading.category, reading.report
    said, found = answer_polarity(reading.answer, category), report.polarity(category)
    allowed = {found, NEGATIVE} if found == NOT_MENTIONED else {found}
    if found == NOT_MENTIONED and reading.impression.polarity(category) in (POSITIVE, UNCERTAIN):
        allowed |= {POSITIVE, UNCERTAIN}
    if category == "Pleural Other":  # its questions ask for any pleural abnormality
        allowed |= {report.polarity(other) for other in _PLEURAL} - {NEGATIVE, NOT_MENTIONED}
        if said == UNDECIDED and any(reading.stated.polarity(other) == POSITIVE for other in _PLEURAL):
            said = POSITIVE
    if any(m.elsewhere for m in report.mentions.get(category, ())):
        allowed |= {UNCERTAIN, NEGATIVE, POSITIVE}  # for "seen on CT" both answers are acceptable
    if said == UNDECIDED:  # with a "yes" or "no", the answer contradicts itself
        return [POLARITY if LEAD.match(reading.answer) else SILENT]
    if said in allowed:
        return []
    return [CERTAINTY] if said == UNCERTAIN or (said, found) == (POSITIVE, UNCERTAIN) else [POLARITY]


def _judge_statements(reading: _Reading) -> Iterable[str]:
    """Check each clause of the answer that is not a quote."""
    findings = reading.pair.request.findings
    quotes = {_fold(clause) for clause in _split(findings)}
    for clause in _split(LEAD.sub("", reading.answer)):
        if _fold(clause) in quotes:
            continue
        if any(_is_shortened(_fold(clause), quoted) for quoted in quotes):
            yield MISSING
        if _numbers(clause) - _numbers(findings):
            yield NUMBER
        if _STATED_KINDS & set(split_words(clause)) - set(split_words(findings)):
            yield DEGREE
        analysis = analyse(clause)
        yield from _judge_fields(analysis, reading)
        yield from _judge_mentions(analysis, reading)


def _is_shortened(clause: str, quoted: str) -> bool:
    """Whether `clause` is `quoted` without some of its details, such as a side."""
    words, whole = Counter(clause.split()), Counter(quoted.split())
    return words < whole and all(is_modifier(word) for word in whole - words)


def _judge_fields(clause: Analysis, reading: _Reading) -> Iterable[str]:
    """Compare the sides and sizes of each finding with those in the findings."""
    for mention in (m for mentions in clause.mentions.values() for m in mentions if m.polarity != NEGATIVE):
        there = _find_same(mention, reading.report)
        words = [word for m in there for word in split_words(m.clause)]
        sides = {side for m in there for side in m.fields.sides} or find_sides(words)
        if sides and set(mention.fields.sides) - sides:
            yield SIDE
        if there and mention.category != DEVICES and _levels(mention) - find_levels(words):
            yield DEGREE


def _find_same(mention: Mention, report: Analysis) -> list[Mention]:
    """The mentions of the same finding in the report that do not deny it."""
    there = [m for m in report.mentions.get(mention.category, ()) if m.polarity != NEGATIVE]
    if mention.category == DEVICES:
        return [m for m in there if not _kind(mention) - _kind(m)] or there
    return there if mention.category != OTHER_ABNORMALITY else [m for m in there if _name(m) == _name(mention)]


def _judge_mentions(clause: Analysis, reading: _Reading) -> Iterable[str]:
    """Check the other findings that a clause affirms or denies."""
    for category, mentions in clause.mentions.items():
        if category in (HEART, reading.category):
            continue
        found = reading.report.polarity(category)
        same = clause.mentions.get(reading.category, ())
        same += clause.mentions.get("Consolidation", ()) if category == "Lung Opacity" else ()
        for mention in mentions:
            if any(_overlap(mention.span, asked.span) for asked in same):
                continue  # the same words name both: "no consolidation" does not deny another opacity
            if mention.polarity == POSITIVE and found in (NEGATIVE, NOT_MENTIONED):
                if reading.impression.polarity(category) not in (POSITIVE, UNCERTAIN):
                    yield GROUND
            elif mention.polarity == NEGATIVE and mention.named and found == POSITIVE:
                yield GROUND


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _find_missing(reading: _Reading) -> Iterable[str]:
    """Find findings and details of the category that the answer leaves out."""
    if reading.category == NO_FINDING:
        spoken = {category for category, found in reading.stated.mentions.items() if any(m.named for m in found)}
        wanted = [m for m in reading.report.abnormal(POSITIVE) if noun_phrase(m, article=False)]
        lacking = [m for m in wanted if m.category not in spoken]
    else:
        wanted = list(reading.report.of(reading.category, POSITIVE))
        lacking = [m for m in wanted if _lacks(m, reading.answer)]
    if any(not mention.elsewhere for mention in lacking):
        yield MISSING


def _lacks(mention: Mention, answer: str) -> bool:
    """Whether an answer lacks a side, site, size or count of `mention`, or the kind of a device."""
    words, fields = split_words(answer), mention.fields
    sides = set(fields.sides) - find_sides(words)
    if mention.category == DEVICES:
        return bool(sides or _kind(mention) - _singular(words))
    phrase = noun_phrase(mention) or ""
    numbers = _numbers(f"{phrase} {fields.size or ''}") - _numbers(answer)
    kinds = _STATED_KINDS & set(split_words(phrase)) - set(words)
    is_elsewhere = bool(fields.sites) and not _regions(fields.sites) & _regions(words)
    return bool(sides or numbers or kinds or is_elsewhere or _levels(mention) - find_levels(words))


def _levels(mention: Mention) -> set[int]:
    return find_levels((mention.fields.size or "").split())


def _regions(words: Iterable[str]) -> set[str]:
    sites = {SITES[word] for word in words if word in SITES}
    return {_REGIONS.get(site, site) for site in sites}


def _name(mention: Mention) -> str:
    return mention.clause[slice(*mention.span)].lower()


def _kind(mention: Mention) -> set[str]:
    """The words that tell one device from another."""
    before = (word for word in read_modifiers(mention.clause[: mention.span[0]].lower()) if word in QUALIFIERS)
    return _singular([*before, *split_words(_name(mention))])


def _singular(words: Iterable[str]) -> set[str]:
    return {re.sub(r"(?<=[a-z]{3})(?:ies|es|s|y|is)$", "", _SYNONYMS.get(word, word)) for word in words}


def _numbers(text: str) -> set[str]:
    """The numbers of a text, ordinals as digits ("sixth", "6th": 6) and measures in millimetres."""
    text = text.lower()
    measures = {f"{float(n) * (10 if unit == 'cm' else 1):g} mm" for n, unit in _MEASURE.findall(text)}
    rest = _MEASURE.sub(" ", text)
    return (
        measures
        | set(_NUMBER.findall(rest))
        | {_DIGITS[word] for word in split_words(rest) if _DIGITS.get(word, "").isdigit()}
    )


def _split(text: str) -> list[str]:
    return [clause for sentence in split_sentences(text) for clause in split_clauses(sentence)]


def _fold(clause: str) -> str:
    return " ".join(re.findall(r"\w+", re.sub(r"^[A-Z][A-Z ,/&()-]{2,60}:\s*", "", clause).lower()))
