"""`medvqa-hub audit cxr`: whether the answers of a model depend on the images.

OUT/audit.json           measures with 95% intervals, in total and by finding, see `audit_measures`
OUT/audit.jsonl          every question with its answer, polarity and confidence in every condition
OUT/audit.png            chart
OUT/audit-examples.png   questions with own, covered and other images, and the answers
OUT/predictions.jsonl    every answer
OUT/images/              the changed images
OUT/questions.jsonl      --export: every question in every condition, to be answered elsewhere
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.files import make_folder
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import write_json, write_json_lines
from medvqa_core.runs.predictions import FILE, Prediction
from medvqa_hub.evaluation.cxr.answer_sources import AnswerSource, EngineSource, open_source
from medvqa_hub.evaluation.cxr.audit_boxes import BoxTable, open_boxes
from medvqa_hub.evaluation.cxr.audit_chart import draw_audit
from medvqa_hub.evaluation.cxr.audit_conditions import NO_IMAGES, TEXTS, AuditItem, list_items, make_conditions
from medvqa_hub.evaluation.cxr.audit_examples import draw_audit_examples
from medvqa_hub.evaluation.cxr.audit_export import Conditions, open_answers, write_questions
from medvqa_hub.evaluation.cxr.audit_images import ImageWriter
from medvqa_hub.evaluation.cxr.audit_measures import DONORS, Measures
from medvqa_hub.evaluation.cxr.evaluation_data import EvaluationData, open_data
from medvqa_hub.evaluation.cxr.generating import digest_images
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions
from medvqa_hub.evaluation.cxr.studies import Study
from medvqa_hub.launching import ProcessGroup
from mimic_cxr_vqa.labeling.answer_polarity import answer_polarity

RESULTS, IMAGES = "audit.json", "images"


def audit_cxr(
    out: Path, data: DataOptions, answers: AnswerOptions, boxes: Path | None = None, seed: int = 0
) -> dict[str, Any]:
    """Ask the questions of a split in all conditions and return the summary.

    Args:
        boxes: table with the regions of findings, see `audit_boxes`. By default those of synthetic studies.

    Raises:
        ConfigError, InputError, OutputError, GovernanceError, ServerError: as `evaluate_cxr`.
    """
    found = open_data(data)
    table = open_boxes(boxes, data.image_root, found.studies)
    if answers.predictions is None:
        source = open_source(answers, found, out, ProcessGroup())
        return audit_source(source, found, out, table, with_text=answers.indication, seed=seed)
    if answers.engine.engines or answers.model:
        raise ConfigError("--predictions cannot be combined with --engine or --model")
    _, conditions = _prepare(found, out, table, seed)
    engine, answered, stated = open_answers(answers.predictions, conditions)
    source = EngineSource(engine, stated or Governance.OPEN, answers.retry_failed)
    return audit_source(source, found, out, table, with_text=True, seed=seed, only=tuple(answered))


def export_audit(out: Path, data: DataOptions, boxes: Path | None = None, seed: int = 0) -> Path:
    """Write the questions of all conditions, to be answered elsewhere. Returns the file. Raises as `audit_cxr`."""
    found = open_data(data)
    _, conditions = _prepare(found, out, open_boxes(boxes, data.image_root, found.studies), seed)
    writer = ImageWriter(out / IMAGES, digest_images(found.studies), found.governance.private)
    return write_questions(conditions, out, writer, found.governance)


def _prepare(data: EvaluationData, out: Path, boxes: BoxTable, seed: int) -> tuple[list[AuditItem], Conditions]:
    """The items and all conditions, with their images in `out`."""
    private = data.governance.private
    make_folder(out, private)
    items = list_items(data.studies)
    return items, make_conditions(items, boxes.boxes, out / IMAGES, digest_images(data.studies), seed, private)


def audit_source(
    source: AnswerSource,
    data: EvaluationData,
    out: Path,
    boxes: BoxTable,
    with_text: bool,
    seed: int = 0,
    only: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Ask an open source, write the files and return the summary.

    Args:
        with_text: whether the source is shown the indication.
        only: the conditions that it is asked in. By default all that it supports.
    """
    governance = strictest([data.governance, source.governance])
    make_folder(out, governance.private)
    items, conditions = _prepare(data, out, boxes, seed)
    left_out = {*(() if with_text else TEXTS), *([NO_IMAGES] if source.needs_images else ())}
    asked = set(conditions if only is None else only) - left_out
    conditions = {name: studies for name, studies in conditions.items() if name in asked}
    rows = _list_rows(conditions["own"], [(item.category, item.label) for item in items])
    _name_donors(items, conditions, rows)
    _ask(source, conditions, rows, out / FILE, governance)
    found = list(rows.values())
    measures = Measures(found)
    summary = {
        "kind": "cxr-audit",
        "format": 1,
        "governance": str(governance),
        "model": dict(source.model),
        "generation": dict(source.generation),
        "data": {
            **data.described, "split": data.studies[0].split, "studies": len(data.studies), "questions": len(found),
            "seed": seed, "boxes": dict(boxes.described),
        },
        **measures.summarize(found),
        "calibration": measures.calibrate(found),
        "by_finding": {
            name: measures.summarize([row for row in found if row["category"] == name])
            for name in sorted({row["category"] for row in found})
        },
    }  # fmt: skip
    write_json(out / RESULTS, summary, private=governance.private)
    write_json_lines(out / "audit.jsonl", found, private=governance.private)
    draw_audit(summary, out / "audit.png", private=governance.private)
    draw_audit_examples(items, conditions, rows, out / "audit-examples.png", seed=seed)
    return summary


def _list_rows(own: Mapping[int, Study], labels: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """A row for every question, without answers."""
    return {
        row["qa_id"]: {
            "qa_id": row["qa_id"],
            "study_id": study.study_id,
            "category": labels[number][0],
            "label_value": labels[number][1],
            "question": row["question"],
            "donor": {},
            "polarity": {},
            "confidence": {},
            "answer": {},
        }
        for number, study in own.items()
        for row in study.rows
    }


def _name_donors(items: Sequence[AuditItem], conditions: Conditions, rows: Mapping[str, dict[str, Any]]) -> None:
    """Add the study whose images are shown in the conditions DONORS to `rows`."""
    owners = {item.study.images: item.study.study_id for item in items}
    for name in DONORS:
        for number, study in conditions.get(name, {}).items():
            for row in items[number].study.rows:
                rows[row["qa_id"]]["donor"][name] = owners[study.images]


def _ask(
    source: AnswerSource, conditions: Conditions, rows: Mapping[str, dict[str, Any]], path: Path, governance: Governance
) -> None:
    """Add the answer to every question in each condition to `rows`, with its polarity and confidence."""
    for name, studies in conditions.items():
        asked = _join_items(list(studies.values()))
        predictions, _ = source.predict(asked, path, governance, digest_images(asked))
        for study, found in zip(asked, predictions, strict=True):
            for shown, prediction in zip(study.rows, found, strict=True):
                row = rows[shown["qa_id"].partition("@")[0]]
                row["answer"][name] = prediction.answer
                row["polarity"][name] = (
                    None if prediction.answer is None else answer_polarity(prediction.answer, row["category"])
                )
                row["confidence"][name] = _find_confidence(prediction)


def _join_items(items: Sequence[Study]) -> list[Study]:
    """Items with the same study, images and indication as one study, so that its images are encoded once."""
    joined: dict[tuple, list[Study]] = defaultdict(list)
    for item in items:
        joined[item.study_id, item.images, item.views, item.indication].append(item)
    return [replace(found[0], rows=tuple(row for item in found for row in item.rows)) for found in joined.values()]


def _find_confidence(prediction: Prediction) -> float | None:
    """The geometric mean of the probabilities of the answer's tokens, if the model stated them."""
    mean = prediction.details.get("logprob")
    return None if prediction.answer is None or mean is None else exp(mean)


def name_estimates(summary: Mapping[str, Any]) -> dict[str, float]:
    """The values of a summary for experiment trackers, such as `audit/shares/looking`."""
    kinds = {**{kind: summary[kind] for kind in ("accuracy", "changed", "shares", "behaviour")}}
    kinds["calibration"] = {
        name: found for name, found in (summary.get("calibration") or {}).items() if name.startswith(("aurc", "ece"))
    }
    return {
        f"audit/{kind}/{name}": found["value"]
        for kind, estimates in kinds.items()
        for name, found in estimates.items()
        if found is not None
    }
