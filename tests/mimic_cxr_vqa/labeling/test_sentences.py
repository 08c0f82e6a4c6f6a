"""300 sentences in the style of MIMIC-CXR with the expected fields, written before the rules were changed.

Even lines are the development half, odd lines the held-out half: rules are made from the development half only. Run
`python -m pytest tests/mimic_cxr_vqa/labeling/test_sentences.py -s` for the figures of both halves.

An expectation is a category, its polarity (`+` positive, `-` negative, `?` uncertain, `0` not mentioned) and the fields
that the sentence gives: `s` sides, `z` size or severity, `n` count, `p` site, `t` temporal status, `w` where it was seen.
"""

from pathlib import Path

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


def read_sentences() -> list[tuple[str, str, list[tuple[str, str, dict[str, str]]]]]:
    rows = []
    for line in SENTENCES.read_text(encoding="utf-8").splitlines():
        kind, sentence, expected = line.split("\t")
        parts = []
        for part in expected.split(" | "):
            head, *fields = part.replace(" mm", "-mm").replace(" cm", "-cm").split()
            parts.append((CODES[head[:2]], head[2], dict(field.split("=") for field in fields)))
        rows.append((kind, sentence, parts))
    return rows


def test_the_sentences_cover_every_kind_and_label() -> None:
    rows = read_sentences()
    assert len(rows) == 300
    kinds = [kind for kind, _, _ in rows]
    assert all(kinds.count(kind) >= 20 for kind in kinds)
