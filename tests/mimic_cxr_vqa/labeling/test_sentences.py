"""300 sentences in the style of MIMIC-CXR with the expected fields, written before the rules were changed.

The odd lines of the file are the development half, the even lines the held-out half. Rules are made from the
development half only. `pytest tests/mimic_cxr_vqa/labeling/test_sentences.py -s` prints the figures of both halves.

An expectation is a category, its polarity (`+` positive, `-` negative, `?` uncertain, `0` not mentioned) and the fields
that the sentence gives: `s` sides, `z` size or severity, `n` count, `p` site, `t` temporal status, `w` study.
"""

from pathlib import Path

import pytest

from mimic_cxr_vqa.labeling.cues import PLACE, POLARITY, STATUS, CueRow, find_cues, read_rows
from mimic_cxr_vqa.labeling.mentions import NEGATIVE, NOT_MENTIONED, POSITIVE, UNCERTAIN, Analysis, analyse

SENTENCES = Path(__file__).with_name("sentences.tsv")
CODES = {
    "AT": "Atelectasis",
    "CM": "Cardiomegaly",
    "CO": "Consolidation",
    "ED": "Edema",
    "EC": "Enlarged Cardiomediastinum",
    "FX": "Fracture",
    "LL": "Lung Lesion",
    "LO": "Lung Opacity",
    "PE": "Pleural Effusion",
    "PO": "Pleural Other",
    "PN": "Pneumonia",
    "PX": "Pneumothorax",
    "SD": "Support Devices",
}


POLARITIES = {"+": POSITIVE, "-": NEGATIVE, "?": UNCERTAIN, "0": NOT_MENTIONED}
SIDES = {"L": "left", "R": "right"}


def find_difference(analysis: Analysis, category: str, polarity: str, fields: dict[str, str]) -> str | None:
    """What the analysis reads differently from an expectation."""
    found = analysis.polarity(category)
    if found != POLARITIES[polarity]:
        return f"{category} is {found}"
    mentions = [mention for mention in analysis.mentions.get(category, ()) if mention.polarity == found]
    details = mentions[0].fields if mentions else None
    for mention in mentions[1:]:
        details |= mention.fields
    for name, value in fields.items():
        read = {
            "s": "".join(letter for letter, side in SIDES.items() if side in details.sides),
            "z": details.size,
            "n": details.count,
            "p": value if value in details.sites else details.sites,
            "t": next((mention.status for mention in mentions if mention.status), None),
            "w": mentions[0].study,
        }[name]
        if read != value and not (name == "z" and str(read).startswith(value)):
            return f"{category}: {name} is {read}"
    return None


Expected = list[tuple[str, str, dict[str, str]]]


def parse_expected(text: str) -> Expected:
    parts = []
    for part in text.split(" | "):
        head, *fields = part.replace(" mm", "~mm").replace(" cm", "~cm").split()
        named = (field.replace("~", " ").split("=") for field in fields)
        parts.append((CODES[head[:2]], head[2], {name: value for name, value in named}))
    return parts


def read_sentences() -> list[tuple[str, str, Expected]]:
    rows = (line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines())
    return [(kind, sentence, parse_expected(expected)) for kind, sentence, expected in rows]


def test_both_halves_are_read() -> None:
    errors = find_errors()
    read = [150 - sum(number % 2 == half for number, _, _ in errors) for half in (0, 1)]
    print(f"development half {read[0]} of 150, held-out half {read[1]} of 150")
    assert read[0] >= 149 and read[1] >= 142


CUES = [row for row in read_rows() if row.kind != "macro"]


@pytest.mark.parametrize("row", CUES, ids=lambda row: f"{row.kind}: {row.example}")
def test_each_cue_reads_its_example(row: CueRow) -> None:
    text, analysis = row.example.lower(), analyse(row.example)
    assert any(cue.row == row for cue in find_cues(text, group_of(row.kind)))
    for category, polarity, fields in parse_expected(row.reading):
        assert find_difference(analysis, category, polarity, fields) is None


def group_of(kind: str) -> tuple[str, ...]:
    return next(group for group in (POLARITY, STATUS, PLACE) if kind in group)


def test_a_wrong_reading_is_found() -> None:
    """The comparison itself: a wrong side, polarity, size or status of a sentence is a difference."""
    analysis = analyse("New small left effusion.")
    right = {"s": "L", "z": "small", "t": "new"}
    assert find_difference(analysis, "Pleural Effusion", "+", right) is None
    assert find_difference(analysis, "Pleural Effusion", "-", {})
    for wrong in ({"s": "LR"}, {"z": "large"}, {"t": "unchanged"}, {"p": "base"}, {"w": "earlier"}):
        assert find_difference(analysis, "Pleural Effusion", "+", wrong)


def test_the_sentences_cover_every_kind_and_label() -> None:
    rows = read_sentences()
    assert len(rows) == 300
    kinds = [kind for kind, _, _ in rows]
    assert all(kinds.count(kind) >= 20 for kind in kinds)


def find_errors() -> list[tuple[int, str, str]]:
    """(number, sentence, difference) of the sentences that are read differently."""
    errors = []
    for number, (_, sentence, expected) in enumerate(read_sentences()):
        analysis = analyse(sentence)
        differences = [difference for one in expected if (difference := find_difference(analysis, *one))]
        if differences:
            errors.append((number, sentence, "; ".join(differences)))
    return errors
