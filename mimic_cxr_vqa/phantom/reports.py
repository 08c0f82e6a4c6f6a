"""Writes synthetic reports in the layout of MIMIC-CXR, with sentences from `sentences`.

A report has a centred FINAL REPORT line and sections under headings in many spellings. Lines start with a blank and
wrap within sentences, and ___ replaces names and dates. Some reports have several headings on a line, a joint heading
for findings and impression, a wet read or an addendum. About 4% do not have a findings section.
"""

import textwrap
from typing import NamedTuple

import numpy as np

from mimic_cxr_vqa.phantom.sentences import findings_sentences, impression_sentences
from mimic_cxr_vqa.phantom.specs import StudySpec, stream
from mimic_cxr_vqa.schema import canonical_view

_FINAL_REPORT = " " * 33 + "FINAL REPORT"
_WIDTH = 78
_INDICATIONS = ("INDICATION:", "INDICATION:", "INDICATION:", "Indication:", "INDICATION;")
_HISTORIES = ("HISTORY:", "CLINICAL INFORMATION:", "CLINICAL HISTORY:", "REASON FOR EXAM:", "REASON FOR EXAMINATION:")
_ODD_INDICATIONS = ("REASON FOR THE EXAM:", "History:", "Clinical information:", "REASON FOR EXAM;", "HISTORY;")
_FINDINGS = ("FINDINGS:", "FINDINGS:", "FINDINGS:", "FINDINGS: ", "Findings:", "FINDINGS :")
_IMPRESSION = ("IMPRESSION:", "IMPRESSION:", "IMPRESSION: ", "Impression:", "IMPRESSION :")
_COMPLAINTS = (
    "shortness of breath",
    "cough and fever",
    "chest pain",
    "dyspnea on exertion",
    "a fall",
    "altered mental status",
    "hypoxia",
    "leukocytosis",
    "a history of cancer",
    "weakness",
    "abdominal pain",
)
_QUESTIONS = (
    "evaluate for pneumonia",
    "eval for acute process",
    "rule out pneumothorax",
    "assess for effusion",
    "please evaluate for fluid overload",
    "interval change",
    "pre-operative evaluation",
)


class Report(NamedTuple):
    """A report's text and its sections on one line each, None for missing sections."""

    text: str
    findings: str | None
    impression: str | None
    indication: str | None


def write_report(spec: StudySpec) -> Report:
    """Return the report of `spec`, which only depends on the spec."""
    rng = stream(spec.seed, "report", spec.study_id)
    sentences = findings_sentences(spec, rng)
    indication = _indication(rng) if rng.random() < 0.95 else None
    blocks = [*_head(spec, rng), *_reason(spec, indication, rng)]
    if not spec.has_findings_section:
        findings, impression = None, " ".join(sentences)
        if rng.random() < 0.4:
            blocks.append(_section("FINDINGS:", "", rng))
        blocks.append(_section(_pick(_IMPRESSION, rng), impression, rng))
    elif rng.random() < 0.05:
        findings, impression = " ".join(sentences), None
        blocks.append(_section("FINDINGS AND IMPRESSION:", findings, rng))
    else:
        summary = impression_sentences(spec, rng) if rng.random() < 0.9 else []
        findings, impression = " ".join(sentences), _number(summary, rng)
        blocks.append(_section(_pick(_FINDINGS, rng), findings, rng))
        if impression is not None:
            blocks.append(_section(_pick(_IMPRESSION, rng), impression, rng))
    if rng.random() < 0.06:
        blocks.append(_addendum(rng))
    lines = [*_wet_read(sentences, rng), _FINAL_REPORT, *"\n \n".join(blocks).split("\n")]
    text = "\n".join(lines) + "\n"
    return Report(text, findings, _flat(impression), indication)


def _head(spec: StudySpec, rng: np.random.Generator) -> list[str]:
    lateral = any(canonical_view(view) == "LAT" for view in spec.views)
    view = "PA" if "PA" in spec.views else "AP"
    short = f"CHEST ({view} AND LAT)" if lateral else "CHEST (PORTABLE AP)" if view == "AP" else "CHEST (PA)"
    long = f"Chest, {view} and lateral views" if lateral else f"Chest, single {view} view"
    head = (
        _section("EXAMINATION:", short, rng),
        _wrap(f"{long.upper()}, ___"),
        _section("EXAM:", f"{long}.", rng),
        _wrap("CHEST RADIOGRAPH PERFORMED ON ___"),
        None,
    )[rng.choice(5, p=(0.4, 0.2, 0.15, 0.1, 0.15))]
    return [head] if head else []


def _reason(spec: StudySpec, indication: str | None, rng: np.random.Generator) -> list[str]:
    """Indication, technique and comparison, in a block each or two on a line."""
    lateral = any(canonical_view(view) == "LAT" for view in spec.views)
    view = "PA" if "PA" in spec.views else "AP"
    views = f"{view} and lateral views of the chest" if lateral else f"Single {view} view of the chest"
    obtained = f"{views} {'were' if lateral else 'was'} obtained"
    technique = f"TECHNIQUE:  {_pick((views, obtained, 'Chest radiograph'), rng)}."
    earlier = "None" if spec.previous is None and rng.random() < 0.6 else "Chest radiograph ___"
    comparison = f"COMPARISON:  {earlier}."
    blocks = []
    if indication is not None:
        headings = (_INDICATIONS, _HISTORIES, _ODD_INDICATIONS)[rng.choice(3, p=(0.5, 0.38, 0.12))]
        blocks.append(_section(_pick(headings, rng), indication, rng))
    style = rng.random()
    if style < 0.55:
        blocks += [_wrap(technique), _wrap(comparison)]
    elif style < 0.75:
        blocks.append(_wrap(f"{technique} {comparison}"))
    elif style < 0.9:
        blocks.append(_wrap(comparison))
    return blocks


def _indication(rng: np.random.Generator) -> str:
    who = _pick(("___ year old man", "___ year old woman", "___F", "___M", "Patient"), rng)
    link = _pick((" // ", ", ", ". ", " / "), rng)
    text = f"{who} with {_pick(_COMPLAINTS, rng)}{link}{_pick(_QUESTIONS, rng)}"
    return text + _pick(("", ".", "?"), rng)


def _section(heading: str, text: str, rng: np.random.Generator) -> str:
    """Heading and text on one line, on two, or with a blank line between."""
    if not text:
        return f" {heading}"
    gap = rng.random()
    if gap < 0.6:
        return _wrap(f"{heading}  {text}" if gap < 0.4 else f"{heading} {text}")
    between = "\n \n" if gap < 0.85 else "\n"
    if heading in (*_INDICATIONS, *_HISTORIES, *_ODD_INDICATIONS):
        between = "\n"  # an indication ends at a blank line
    return f" {heading}{between}{_wrap(text)}"


def _number(sentences: list[str], rng: np.random.Generator) -> str | None:
    if not sentences:
        return None
    if len(sentences) == 1 or rng.random() < 0.5:
        return " ".join(sentences)
    return "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(sentences, start=1))


def _wet_read(sentences: list[str], rng: np.random.Generator) -> list[str]:
    if rng.random() >= 0.05:
        return []
    hour, minute = rng.integers(1, 13), rng.integers(0, 60)
    half = _pick(("AM", "PM"), rng)
    title = f" WET READ: ___ ___ ___ {hour}:{minute:02d} {half}"
    return [title, _wrap(f" {sentences[0]}"), " WET READ VERSION #1", " " + "_" * _WIDTH]


def _addendum(rng: np.random.Generator) -> str:
    hour, minute = rng.integers(1, 13), rng.integers(0, 60)
    return _wrap(
        _pick(
            (
                f"ADDENDUM:  The findings were discussed by Dr. ___ with Dr. ___ on ___ at {hour}:{minute:02d} AM.",
                f"NOTIFICATION:  Results were communicated to ___ at {hour}:{minute:02d} PM on ___.",
            ),
            rng,
        )
    )


def _wrap(text: str) -> str:
    lines = [
        line
        for part in text.split("\n")
        for line in textwrap.wrap(part, _WIDTH, break_long_words=False, break_on_hyphens=False)
    ]
    return "\n".join(f" {line}" for line in lines)


def _flat(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())


def _pick(options: tuple[str, ...], rng: np.random.Generator) -> str:
    return options[rng.integers(len(options))]
