"""Find the mentions of each category in a text, with their polarity and details.

`ClauseReader` reads each clause. This module joins its findings to mentions, resolves what refers to an earlier
sentence, and decides which polarity a text has for a category.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from mimic_cxr_vqa.labeling.clause_reader import REFERENCE, ClauseReader
from mimic_cxr_vqa.labeling.fields import Fields
from mimic_cxr_vqa.labeling.lexicon import read_patterns
from mimic_cxr_vqa.labeling.sentences import split_clauses, split_sentences
from mimic_cxr_vqa.labeling.terms import (
    DEVICES,
    EARLIER_STUDY,
    NEGATIVE,
    NOT_MENTIONED,
    OTHER_ABNORMALITY,
    POSITIVE,
    THIS_STUDY,
    UNCERTAIN,
)  # fmt: skip
from mimic_cxr_vqa.schema import HEART, NO_FINDING

_EXCEPTION = re.compile(r"\b(?:except|aside from|apart from)\b", re.IGNORECASE)
_NONE_LEFT = re.compile(
    r"\W*(?:(?:today|now|currently),? )?(?:none|nothing|"
    r"(?:it|this|that|they|these|both) (?:has|have|is|are) (?:\w+ )?(?:resolved|cleared|gone|disappeared))\b"
)
_MAY_BE_ELSE = re.compile(
    r"\W*(?:it|this|that|these|which) (?:(?:may|might|could|likely|probably) )+(?:be|represents?|reflects?)\b.*"
    r"\b(?:shadows?|artifacts?|summation|overlap\w*|folds?)\b"
)
_AIRSPACE = ("Lung Opacity", "Consolidation", "Pneumonia", "Atelectasis")
_REST = re.compile(r"\b(?:remain(?:der|ing)|rest|otherwise|elsewhere)\b", re.IGNORECASE)
_HEART_WORDS = re.compile(r"\bheart\b|\bcardi(?:ac|omegaly)\b|\bcardio-?mediastin", re.IGNORECASE)


@dataclass(frozen=True)
class Mention:
    """A finding in one clause.

    Attributes:
        clause: the text of the clause.
        sentence: index of its sentence.
        span: position of the finding in the clause.
        fields: its sides, sites, size and count.
        status: its change over time (`cues.STATUS`), if the clause gives one.
        study: where it was seen: `THIS_STUDY`, `EARLIER_STUDY` or `OTHER_MODALITY`.
        named: whether the finding is named, unlike in "the lungs are clear".
        is_sign: it is only suggested ("blunting of the costophrenic angle").
        is_doubted: the report doubts the finding, or the sign of it.
        passages: the texts that may be quoted for it, the best first: its clause, and the sentence. The sentence comes
            first if its other clauses may be about this finding too ("..., although a skin fold is more likely").
    """

    category: str
    polarity: str
    clause: str
    sentence: int
    span: tuple[int, int] = (0, 0)
    fields: Fields = Fields()
    status: str | None = None
    study: str = THIS_STUDY
    named: bool = True
    is_sign: bool = False
    is_doubted: bool = False
    passages: tuple[str, ...] = ()

    @property
    def elsewhere(self) -> bool:
        """Whether the mention is about another image."""
        return self.study != THIS_STUDY


@dataclass(frozen=True)
class Analysis:
    """All mentions in one text by category (and `OTHER_ABNORMALITY`).

    Attributes:
        sentences: the number of sentences.
        unread: the sentences without a mention.
    """

    mentions: dict[str, tuple[Mention, ...]]
    sentences: int
    unread: tuple[str, ...] = ()

    def of(self, category: str, polarity: str) -> tuple[Mention, ...]:
        """The mentions of `category` with that polarity."""
        return tuple(m for m in self.mentions.get(category, ()) if m.polarity == polarity)

    def polarity(self, category: str) -> str:
        """The polarity of `category` in the text: positive mentions decide, then uncertain, then negative ones.

        Heart is positive if it is mentioned. No Finding is positive if nothing but support devices is abnormal.
        """
        if category == NO_FINDING:
            return self._no_finding()
        mentions = self.mentions.get(category, ())
        found = {m.polarity for m in mentions if not m.elsewhere} or {m.polarity for m in mentions}
        return next((p for p in (POSITIVE, UNCERTAIN, NEGATIVE) if p in found), NOT_MENTIONED)

    def abnormal(self, polarity: str) -> tuple[Mention, ...]:
        """The abnormal mentions with that polarity, in the order of the sentences."""
        found = (
            mention
            for category, mentions in self.mentions.items()
            for mention in mentions
            if mention.polarity == polarity and category not in (HEART, "Support Devices")
        )
        return tuple(sorted(found, key=lambda mention: mention.sentence))

    def _no_finding(self) -> str:
        if self.abnormal(POSITIVE):
            return NEGATIVE
        if self.abnormal(UNCERTAIN):
            return UNCERTAIN
        return POSITIVE if self.sentences else NOT_MENTIONED


@lru_cache(maxsize=256)
def analyse(findings: str) -> Analysis:
    """Find every mention of every category in a text."""
    mentions: dict[str, list[Mention]] = {}
    sentences, before = split_sentences(findings), list[Mention]()
    for number, sentence in enumerate(sentences):
        read = list[Mention]()
        for clause in split_clauses(sentence):
            last = max((mention.span for mention in before), default=None)
            found = list(_clause_mentions(clause, number, {m.category for m in before if m.span == last}))
            if not found and _NONE_LEFT.match(clause.lower()):  # "today none remains"
                gone = [replace(m, polarity=NEGATIVE, status="resolved", study=THIS_STUDY) for m in before]
                found = [replace(m, fields=replace(m.fields, size=None)) for m in gone]
            if not found and _MAY_BE_ELSE.match(clause.lower()):  # "it may represent a nipple shadow"
                read = [replace(m, polarity=UNCERTAIN) if m in before and m.polarity == POSITIVE else m for m in read]
            read += found
            before = found
        named = {mention.category for mention in read if mention.named and not mention.is_sign}
        signs = {mention.category for mention in read if mention.is_sign}
        is_one = len({mention.clause for mention in read}) == 1
        is_doubtful = any(mention.polarity == UNCERTAIN for mention in read)
        for mention in read:
            is_placed = mention.fields.sides or mention.fields.sites or mention.polarity != UNCERTAIN
            is_reference = REFERENCE.fullmatch(mention.clause.lower(), *mention.span)
            is_limited = mention.category in signs or mention.polarity == NEGATIVE and is_doubtful
            is_part = not mention.named or is_placed and not (is_one or is_reference or is_limited)
            passages = (mention.clause, sentence) if is_part else (sentence, mention.clause)
            mention = replace(mention, passages=(sentence,) if _EXCEPTION.search(sentence) else passages)
            if not (mention.is_sign and mention.category in named):  # "congestion without edema"
                mentions.setdefault(mention.category, []).append(mention)
    if any(m.polarity == POSITIVE for category in _AIRSPACE for m in mentions.get(category, ())):
        for category in _AIRSPACE:  # "the rest of the lungs is clear" does not tell what a named opacity is
            kept = [m for m in mentions.get(category, ()) if m.named or not _REST.search(m.clause)]
            mentions[category] = kept
    read_sentences = {mention.sentence for found in mentions.values() for mention in found}
    unread = tuple(sentence for number, sentence in enumerate(sentences) if number not in read_sentences)
    return Analysis({category: tuple(found) for category, found in mentions.items()}, len(sentences), unread)


def _clause_mentions(clause: str, number: int, before: set[str]) -> Iterator[Mention]:
    """The mentions of one clause. Those of one category and polarity are one unless their details differ.

    Args:
        before: the categories of the last mention before the clause, to which "that on the left" refers.
    """
    reader = ClauseReader(clause.lower(), before)
    text = reader.text
    base = Mention(HEART, POSITIVE, clause, number, study=reader.study)
    if _HEART_WORDS.search(text):
        yield base
    found: list[Mention] = []
    for one in reader.found:
        if one.category != OTHER_ABNORMALITY and reader.is_past(one.reach[0]):
            continue
        polarity = reader.read_polarity(*one.reach)
        is_doubted = polarity == UNCERTAIN
        if polarity == POSITIVE and (one.is_sign or (reader.study != THIS_STUDY and one.category != DEVICES)):
            polarity = UNCERTAIN
        new = replace(base, category=one.category, polarity=polarity, span=one.reach, is_sign=one.is_sign)
        new = replace(new, is_doubted=is_doubted)
        new = replace(new, status=reader.status.read(one, polarity))
        stated = [new]
        if polarity == NEGATIVE and reader.study != THIS_STUDY and reader.is_denied_after(one.reach[1]):
            here = replace(new, study=THIS_STUDY)  # "the nodule on CT is not visible"
            stated = [here] if reader.study == EARLIER_STUDY else [here, replace(new, polarity=UNCERTAIN, status=None)]
        changes = reader.status.read_side_changes() if polarity == POSITIVE else {}
        for fields in reader.read_fields(one):
            if changes and set(changes) == set(fields.sides):
                for side, kind in changes.items():
                    _merge(found, replace(new, status=kind, fields=replace(fields, sides=(side,))))
            else:
                for mention in stated:
                    _merge(found, replace(mention, fields=fields))
    yield from found
    named = {one.category for one in reader.found}
    for category, patterns in read_patterns("normal").items():
        if category not in named and any(pattern.search(text) for pattern in patterns):
            yield replace(base, category=category, polarity=NEGATIVE, named=False)


def _merge(found: list[Mention], new: Mention) -> None:
    """Add a mention, or its details to one of the same finding."""
    for place, old in enumerate(found):
        if (old.category, old.polarity) == (new.category, new.polarity):
            first, last = sorted((old, new), key=lambda mention: mention.span)
            overlap = last.span[0] < first.span[1]
            touch = overlap or new.clause[first.span[1] : last.span[0]] == " "  # "Hickman catheter"
            if (touch or new.category != DEVICES) and not old.fields.conflicts(new.fields):
                longer = max(old, new, key=lambda m: overlap and m.span[1] - m.span[0])
                union = (first.span[0], max(old.span[1], new.span[1]))
                span = union if touch and new.category == DEVICES else longer.span
                found[place] = replace(old, span=span, fields=old.fields | new.fields)
                return
    found.append(new)
