"""Cases of tests/strangers and what the rules make of them: `right`, `abstained`, or how they are wrong.

Abstained is what misleads nobody: a stated finding that is not read, or read as doubtful; a row without a verdict where
one could be given. Everything else that is not expected is wrong.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pairs import pair

from mimic_cxr_vqa.judging.rule_judge import judge_by_rules
from mimic_cxr_vqa.labeling.labels import label_text
from mimic_cxr_vqa.reports import split_sections
from rjua_meddqa.annotation.normality import judge
from rjua_meddqa.schema import ABNORMAL, HIGH, LOW, NORMAL, UNDECIDED

FOLDER = Path(__file__).parents[1] / "strangers"
RIGHT, WRONG, ABSTAINED = "right", "wrong", "abstained"
LABELS = {
    "At": "Atelectasis",
    "Ca": "Cardiomegaly",
    "Co": "Consolidation",
    "Ed": "Edema",
    "EC": "Enlarged Cardiomediastinum",
    "Fr": "Fracture",
    "LL": "Lung Lesion",
    "LO": "Lung Opacity",
    "PE": "Pleural Effusion",
    "PO": "Pleural Other",
    "Pn": "Pneumonia",
    "Px": "Pneumothorax",
    "SD": "Support Devices",
}
_SIGNS = {1: "+", 0: "-", -1: "?", None: "0"}
_HEADING = re.compile(r"\b(?:FINDINGS|IMPRESSION|INDICATION|HISTORY|ADDENDUM):")
_VERDICTS = {
    "normal": {NORMAL},
    "high": {HIGH, ABNORMAL},
    "low": {LOW, ABNORMAL},
    "abnormal": {ABNORMAL, HIGH, LOW},
    "abstain": {UNDECIDED},
}


class Outcome(NamedTuple):
    """What became of one label, row or pair: its half, case, result, and the words for a person who looks."""

    half: str
    case: int
    result: str
    shown: str


def _rows(name: str) -> list[list[str]]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines]


def read_reports() -> list[Outcome]:
    """One outcome for each label that is stated, by the case or by the labeler; silence on both sides is none."""
    found = []
    for half, number, expected, text in _rows("cxr_reports.tsv"):
        wanted = dict(entry.split(":") for entry in expected.split())
        sections = split_sections(text) if _HEADING.search(text) else None
        labels = label_text(sections.findings, sections.impression) if sections else label_text(text, None)
        for short, label in LABELS.items():
            got, allowed = _SIGNS[labels[label]], wanted.get(short, "0").split("/")
            if "*" in allowed or (got == "0" and allowed == ["0"]):
                continue
            silent = got == "0" or (got == "?" and "0" not in allowed)
            result = RIGHT if got in allowed else ABSTAINED if silent else WRONG
            found.append(Outcome(half, int(number), result, f"{label}: {got} for {'/'.join(allowed)}: {text}"))
    return found


def judge_rows() -> list[Outcome]:
    """One outcome for each laboratory row."""
    found = []
    for half, number, expected, item, value, unit, reference in _rows("lab_rows.tsv"):
        unit, reference = (cell.replace("-", "") if cell == "-" else cell for cell in (unit, reference))
        verdict, reason = judge(value, reference, unit=unit)
        allowed = set().union(*(_VERDICTS[word] for word in expected.split("/")))
        result = RIGHT if verdict in allowed else ABSTAINED if verdict == UNDECIDED else WRONG
        shown = f"{item} {value} {unit} [{reference}]: {verdict} for {expected}: {reason}"
        found.append(Outcome(half, int(number), result, shown))
    return found


def judge_pairs() -> list[Outcome]:
    """One outcome for each pair: a planted error is right where the judge objects, a paraphrase where it does not."""
    found = []
    for half, number, planted, finding, report, question, _, answer in _rows("judged_pairs.tsv"):
        _, reasons = judge_by_rules(pair(answer, report, LABELS[finding]))
        result = RIGHT if bool(reasons) == (planted != "ok") else WRONG
        shown = f"{planted}: {', '.join(reasons) or 'nothing'}: {report} | {question} | {answer}"
        found.append(Outcome(half, int(number), result, shown))
    return found


SETS: dict[str, Callable[[], list[Outcome]]] = {"reports": read_reports, "rows": judge_rows, "pairs": judge_pairs}


def count(outcomes: list[Outcome], half: str) -> Counter[str]:
    """How many of one half are right, wrong and abstained."""
    return Counter(outcome.result for outcome in outcomes if outcome.half == half)
