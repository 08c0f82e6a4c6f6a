"""100 sentences with expected fields by somebody who had not seen the rules (`cxr_sentences.jsonl`, see README.md).

Sentences with an odd number are the development half. The even ones were not looked at. A sentence is right in
polarity if every expected finding has its polarity and nothing else is found, and right in all fields if every expected
mention is found with its sides, severity, count, status and study. `pytest -s` prints the figures.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from mimic_cxr_vqa.labeling.fields import MEASURE
from mimic_cxr_vqa.labeling.mentions import NEGATIVE, OTHER_ABNORMALITY, POSITIVE, UNCERTAIN, Mention, analyse
from mimic_cxr_vqa.schema import HEART, NO_FINDING

POLARITIES = {"present": POSITIVE, "absent": NEGATIVE, "uncertain": UNCERTAIN}
STUDIES = {"this": "this", "earlier": "earlier", "other_modality": "other", "other": "other"}
FIELDS = ("sides", "severity", "count", "status", "study")


def read_cases() -> list[dict[str, Any]]:
    lines = Path(__file__).with_name("cxr_sentences.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


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
    sides = set([mention["sides"]] if isinstance(mention["sides"], str) else mention["sides"] or ())
    count = mention["count"]
    return {
        "finding": mention["finding"],
        "polarity": POLARITIES[mention["polarity"]],
        "sides": {"left", "right"} if "bilateral" in sides else sides,
        "severity": mention["severity"],
        "count": None if count is None else str(count),
        "status": mention["status"],
        "study": STUDIES[mention["study"]],
        "loose": mention.get("loose") or (),
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
    tolerated = {(one["finding"], POLARITIES[one["polarity"]]) for one in case.get("tolerated", ())}
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


def count_right(half: int) -> tuple[int, int]:
    """The sentences of a half that are right in polarity, and those right in all fields."""
    found = [find_differences(case) for case in read_cases()[half::2]]
    return sum(not polarity for polarity, _ in found), sum(not polarity and not fields for polarity, fields in found)


def test_most_sentences_are_read() -> None:
    development, unseen = count_right(0), count_right(1)
    print(f"polarity and all fields, of 50 each: development {development}, unseen half {unseen}")
    assert development[0] >= 47 and development[1] >= 39
    assert unseen[0] >= 39 and unseen[1] >= 24


def test_a_reader_that_finds_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "read_mentions", lambda text: [])
    assert count_right(0)[0] + count_right(1)[0] <= 5
