"""Match question text to its template and subjects, and measure how far generated questions cover given ones.

A released question counts as covered if a generated question of the same image asks the same thing about the same keys
or items and has the same answer.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rjua_meddqa.generation.templates import SUBJECTS, Templates, split_text
from rjua_meddqa.schema import Question
from rjua_meddqa.terms import RANGES, RESULTS, Terms


@dataclass(frozen=True)
class Reading:
    """One way to read a question: which template, and which keys or items it names, in its order."""

    template: str
    subjects: tuple[str, ...]


class QuestionReader:
    """Recognises the questions that `templates` can ask, with words from their lists or from `terms`."""

    def __init__(self, templates: Templates, terms: Terms) -> None:
        words = {name: set(choices) for name, choices in templates.words.items()}
        for name, kind in (("result_word", RESULTS), ("range_word", RANGES)):
            words[name].update(*(terms.synonyms(kind, term) for term in terms.groups[kind]))
        self._patterns = [
            (_pattern(text, words), template) for template in templates.by_name.values() for text in template.questions
        ]

    def read(self, text: str, names: Collection[str] | None = None) -> list[Reading]:
        """Every reading of `text`, the one with the most fixed words first.

        Args:
            names: keys and items of the report. Readings that name anything else are skipped.
        """
        found = []
        for pattern, template in self._patterns:
            match = pattern.fullmatch(text.strip().replace("？", "?"))
            if match:
                subjects = tuple(match[name] for name in SUBJECTS[template.about] if name in match.groupdict())
                if names is None or all(subject in names for subject in subjects):
                    found.append((sum(map(len, subjects)), Reading(template.name, subjects)))
        ranked = sorted(found, key=lambda entry: entry[0])
        return list(dict.fromkeys(reading for _, reading in ranked))


@dataclass(frozen=True)
class Coverage:
    """How many given questions have a generated counterpart.

    Attributes:
        total: given questions.
        covered: those with a generated question of the same meaning and the same answer.
        by_parts: of the rest, those about two things whose parts are each covered by a question about one.
        missing: the rest, with the reason.
    """

    total: int
    covered: int
    by_parts: int
    missing: tuple[tuple[Question, str], ...]


def cover(given: Iterable[Question], generated: Sequence[Question], reader: QuestionReader) -> Coverage:
    """Compare given questions (a released file) with generated ones of the same images.

    The generated questions' templates and keys come from their `extra`, as `QuestionGenerator` writes them.
    """
    answers: dict[tuple, str] = {}
    names: dict[str, set[str]] = {}
    for question in generated:
        subjects = tuple(question.extra["keys"])
        answers[(question.img_path, question.extra["template"], subjects)] = question.answer
        names.setdefault(question.img_path, set()).update(subjects)
    total = covered = by_parts = 0
    missing = []
    for question in given:
        total += 1
        readings = reader.read(question.question, names.get(question.img_path, ()))
        reason = _compare(question, readings, answers)
        if reason is None:
            covered += 1
        elif any(_is_covered_by_parts(question, reading, answers) for reading in readings):
            by_parts += 1
        else:
            missing.append((question, reason))
    return Coverage(total, covered, by_parts, tuple(missing))


def _compare(question: Question, readings: list[Reading], answers: dict[tuple, str]) -> str | None:
    if not readings:
        return "no template asks this about the report's keys and items"
    found = [answers.get((question.img_path, reading.template, reading.subjects)) for reading in readings]
    if question.answer in found:
        return None
    if any(answer is not None for answer in found):
        return "the generated question has another answer"
    return "the generator can ask this, but these questions do not"


def _is_covered_by_parts(question: Question, reading: Reading, answers: dict[tuple, str]) -> bool:
    parts = [answers.get((question.img_path, "single_entity", (subject,))) for subject in reading.subjects]
    return len(parts) == 2 and None not in parts and ";".join(parts) == question.answer


def _pattern(text: str, words: dict[str, set[str]]) -> re.Pattern[str]:
    pattern, seen = "", set()
    for literal, name in split_text(text):
        pattern += re.escape(literal.replace("？", "?"))
        if name in words:
            choices = sorted(words[name], key=len, reverse=True)
            pattern += f"(?:{'|'.join(map(re.escape, choices))})"
        elif name in seen:
            pattern += f"(?P={name})"
        elif name is not None:
            seen.add(name)
            pattern += f"(?P<{name}>.+?)"
    return re.compile(pattern, re.DOTALL)
