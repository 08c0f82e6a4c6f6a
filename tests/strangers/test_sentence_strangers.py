"""Sentences with expected fields by people who had not seen the rules (`cxr_sentences.jsonl`, see README.md).

A sentence is right in polarity if every expected finding has its polarity and nothing else is found, and right in all
fields if every expected mention is found with its sides, severity, count, status and study, but for its `loose` fields.
`pytest -s` prints the figures.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.extractive import answer_from, is_closed
from mimic_cxr_vqa.generation.lint import lint
from mimic_cxr_vqa.labeling.fields import MEASURE
from mimic_cxr_vqa.labeling.mentions import NEGATIVE, OTHER_ABNORMALITY, POSITIVE, UNCERTAIN, Mention, analyse
from mimic_cxr_vqa.question_list import QUESTIONS
from mimic_cxr_vqa.schema import HEART, NO_FINDING

POLARITIES = {"present": POSITIVE, "absent": NEGATIVE, "uncertain": UNCERTAIN}
FIELDS = ("sides", "severity", "count", "status", "study")


def read_cases(name: str) -> list[dict[str, Any]]:
    """The sentences of one set: `hard`, or a letter."""
    lines = Path(__file__).with_name("cxr_sentences.jsonl").read_text(encoding="utf-8").splitlines()
    return [case for case in map(json.loads, lines) if case["id"].startswith(f"{name}-")]


def describe(mention: Mention) -> dict[str, Any]:
    """A mention in the form of the expectations. A finding of another image that is not denied is affirmed there."""
    size = mention.fields.size
    polarity = POSITIVE if mention.elsewhere and mention.polarity == UNCERTAIN else mention.polarity
    return {
        "finding": mention.category,
        "polarity": polarity,
        "named": mention.named,
        "sides": set(mention.fields.sides),
        "severity": None if size and MEASURE.fullmatch(size) else size,
        "count": mention.fields.count,
        "status": mention.status,
        "study": mention.study,
    }


def describe_expected(mention: dict[str, Any]) -> dict[str, Any]:
    sides, count = set(mention.get("sides", ())), mention.get("count")
    return {
        "finding": mention["finding"],
        "polarity": POLARITIES[mention["polarity"]],
        "sides": {"left", "right"} if "bilateral" in sides else sides,
        "severity": mention.get("severity"),
        "count": None if count is None else str(count),
        "status": mention.get("status"),
        "study": mention.get("study", "this"),
        "loose": mention.get("loose", ()),
    }


def read_mentions(text: str) -> list[dict[str, Any]]:
    """The mentions of a text. A consolidation is not also an opacity."""
    analysis = analyse(text)
    taken = [(m.sentence, m.clause, m.span) for m in analysis.mentions.get("Consolidation", ()) if m.named]
    found = []
    for category, mentions in analysis.mentions.items():
        for mention in mentions if category not in (HEART, OTHER_ABNORMALITY) else ():
            is_same = any(
                (mention.sentence, mention.clause) == (s, c) and mention.span[0] < b and a < mention.span[1]
                for s, c, (a, b) in taken
            )
            if category != "Lung Opacity" or not is_same:
                found.append(describe(mention))
    if analysis.polarity(NO_FINDING) == POSITIVE:
        found.append(
            {"finding": NO_FINDING, "polarity": POSITIVE, "named": False, "sides": set(), "study": "this"}
            | dict.fromkeys(("severity", "count", "status"))
        )
    return found


def find_differences(case: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The differences in polarity, and those in the other fields."""
    found = read_mentions(case["text"])
    expected = [describe_expected(one) for one in case["expected"]]
    tolerated = {(finding, POLARITIES[polarity]) for finding, polarity in case.get("tolerated", ())}
    read = {(one["finding"], one["polarity"]) for one in found}
    wanted = {(one["finding"], one["polarity"]) for one in expected}
    extra = {(one["finding"], one["polarity"]) for one in found if one["named"]} - wanted - tolerated
    polarity = [f"missed {one}" for one in sorted(wanted - read)] + [f"extra {one}" for one in sorted(extra)]
    fields = []
    free = list(found)
    for one in expected:
        compared = [name for name in FIELDS if name not in one["loose"]]
        same = [other for other in free if all(other[name] == one[name] for name in ("finding", "polarity"))]
        exact = [other for other in same if all(other[name] == one[name] for name in compared)]
        if exact:
            free.remove(exact[0])
        else:
            differing = [{name: other[name] for name in compared if other[name] != one[name]} for other in same]
            fields.append(f"{one['finding']} {[one[name] for name in FIELDS]}: {differing}")
    return polarity, fields


def count_right(name: str) -> tuple[int, int, int]:
    """The sentences of a set that are right in polarity, those right in all fields, and all."""
    found = [find_differences(case) for case in read_cases(name)]
    return (
        sum(not polarity for polarity, _ in found),
        sum(not polarity and not fields for polarity, fields in found),
        len(found),
    )


@pytest.mark.parametrize(
    ("name", "polarity", "fields"),
    [
        ("hard", 95, 82),
        ("a", 100, 100),
        ("b", 99, 99),
        ("d", 100, 100),
        ("e", 99, 98),
        ("f", 148, 144),
        ("g", 149, 145),
        ("h", 149, 146),
    ],
)
def test_most_sentences_are_read(name: str, polarity: int, fields: int) -> None:
    right = count_right(name)
    print(f"set {name}: polarity {right[0]}, all fields {right[1]} of {right[2]}")
    assert right[0] >= polarity and right[1] >= fields


def test_a_reader_that_finds_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "read_mentions", lambda text: [])
    assert count_right("hard")[0] <= 5
    assert count_right("a")[1] <= 20  # sentences that expect no mention


ANSWERS = [line.split("\t") for line in Path(__file__).with_name("answers.tsv").read_text("utf-8").splitlines()]


@pytest.mark.parametrize(("category", "lead", "text"), ANSWERS)
def test_answers_have_the_lead_that_judges_asked_for(category, lead, text):
    question = next(question for question in QUESTIONS[category] if is_closed(question))
    answer = answer_from(analyse(text), AnswerRequest("s1-x-1", 1, category, question, None, text))
    assert {"Yes, ": "yes", "No, ": "no"}.get(re.match("(?:Yes, |No, )?", answer)[0], "open") == lead, answer
    assert lint(answer) == [] or "no new" in answer
