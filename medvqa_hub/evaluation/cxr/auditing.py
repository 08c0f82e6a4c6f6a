"""`medvqa-hub audit cxr`: whether the answers of a model depend on the images.

    OUT/audit.json           shares and accuracies with 95% intervals, in total and by finding
    OUT/audit.jsonl          the polarity of the answer to every question in every condition
    OUT/predictions.jsonl    every answer
    OUT/images/              the changed images

The shares are estimated from pairs of conditions, where P is the share of answers whose polarity is the row's label.
An answer that does not depend on the changed input cancels out.

    looking              P(own) - P(opposite): the answer follows the label of the images
    following the text   P(supporting) - P(contradicting): the answer follows the indication
    guessing             1 - looking - following the text
    region               changed(covered) - changed(control), of positive rows: near 1 if the answer depends on the
                         region of the finding, near 0 if on no region, and negative if on other places
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medvqa_core.errors import ConfigError
from medvqa_core.files import make_folder
from medvqa_core.governance import strictest
from medvqa_core.json_files import write_json, write_json_lines
from medvqa_core.metrics.paired import bootstrap, interval, mean_score
from medvqa_core.runs.predictions import FILE
from medvqa_hub.evaluation.cxr.answer_sources import AnswerSource, open_source
from medvqa_hub.evaluation.cxr.audit_conditions import AuditItem, Boxes, list_items, make_conditions, read_boxes
from medvqa_hub.evaluation.cxr.evaluation_data import EvaluationData, open_data
from medvqa_hub.evaluation.cxr.generating import digest_images
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions
from medvqa_hub.launching import ProcessGroup
from mimic_cxr_vqa.labeling.answer_polarity import answer_polarity
from mimic_cxr_vqa.phantom.regions import find_regions
from mimic_cxr_vqa.phantom.specs import sample_studies
from mimic_cxr_vqa.phantom.tree import MARKER

TEXTS = ("supporting", "contradicting")
Row = dict[str, Any]
# measure -> (first condition, second condition, whether the answer's agreement with the label or with own is compared)
PAIRS = {"looking": ("own", "opposite", "label"), "following_text": (*TEXTS, "label")}
REGION = ("covered", "control")


def audit_cxr(
    out: Path, data: DataOptions, answers: AnswerOptions, boxes: Path | None = None, seed: int = 0
) -> dict[str, Any]:
    """Ask the questions of a split in all conditions and return the summary.

    Args:
        boxes: CSV with the regions of findings, see `audit_conditions.read_boxes`. By default those of synthetic
            studies.

    Raises:
        ConfigError, InputError, OutputError, GovernanceError, ServerError: as `evaluate_cxr`.
    """
    if answers.predictions is not None:
        raise ConfigError("audit asks every question with other images, so it does not take --predictions")
    found = open_data(data)
    source = open_source(answers, found, out, ProcessGroup())
    regions = read_boxes(boxes) if boxes is not None else find_synthetic_boxes(data.image_root, found)
    return audit_source(source, found, out, regions, with_text=answers.indication, seed=seed)


def find_synthetic_boxes(image_root: Path | None, data: EvaluationData) -> Boxes:
    """Regions of the studies of a synthetic tree, or an empty mapping for other images."""
    from medvqa_core.json_files import read_object

    if image_root is None or not (image_root / MARKER).is_file():
        return {}
    tree = read_object(image_root / MARKER, "write the synthetic studies again")
    wanted, boxes = {int(study.study_id) for study in data.studies}, defaultdict(list)
    for spec in sample_studies(tree["studies"], tree["seed"]):
        if spec.study_id in wanted:
            for dicom_id, finding, box in find_regions(spec, tree["size"]):
                boxes[dicom_id, finding].append(box)
    return boxes


def audit_source(
    source: AnswerSource, data: EvaluationData, out: Path, boxes: Boxes, with_text: bool, seed: int = 0
) -> dict[str, Any]:
    """Ask an open source, write the files and return the summary."""
    governance = strictest([data.governance, source.governance])
    make_folder(out, governance.private)
    items = list_items(data.studies)
    conditions = make_conditions(items, boxes, out / "images", seed, governance.private)
    if not with_text:
        conditions = {name: studies for name, studies in conditions.items() if name not in TEXTS}
    rows = _ask(source, items, conditions, out / FILE, governance)
    summary = {
        "kind": "cxr-audit",
        "format": 1,
        "governance": str(governance),
        "model": dict(source.model),
        "generation": dict(source.generation),
        "data": {**data.described, "studies": len(data.studies), "questions": len(rows), "seed": seed},
        **summarize(rows),
        "by_finding": {
            name: summarize([row for row in rows if row["category"] == name])
            for name in sorted({row["category"] for row in rows})
        },
    }
    write_json(out / "audit.json", summary, private=governance.private)
    write_json_lines(out / "audit.jsonl", rows, private=governance.private)
    return summary


def _ask(
    source: AnswerSource,
    items: Sequence[AuditItem],
    conditions: Mapping[str, Mapping[int, Any]],
    path: Path,
    governance: Any,
) -> list[Row]:
    """A row for every question, with the polarity of the answer in each condition."""
    rows = {
        row["qa_id"]: {
            "qa_id": row["qa_id"],
            "study_id": item.study.study_id,
            "category": item.category,
            "label_value": item.label,
            "question": row["question"],
            "polarity": {},
        }
        for item in items
        for row in item.study.rows
    }
    for name, studies in conditions.items():
        asked = list(studies.values())
        predictions, _ = source.predict(asked, path, governance, digest_images(asked))
        for study, found in zip(asked, predictions, strict=True):
            for row, prediction in zip(study.rows, found, strict=True):
                answer = prediction.answer
                polarity = None if answer is None else answer_polarity(answer, row["category"])
                rows[row["qa_id"]]["polarity"][name] = polarity
    return list(rows.values())


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """Accuracy and changed answers of each condition, and the shares, each with its interval and number of rows."""
    names = sorted({name for row in rows for name in row["polarity"]})
    accuracy = {name: _estimate(rows, [(name, "label", 1)]) for name in names}
    changed = {name: _estimate(rows, [(name, "own", 1)]) for name in names if name != "own"}
    shares = {name: _estimate(rows, [(one, kind, 1), (other, kind, -1)]) for name, (one, other, kind) in PAIRS.items()}
    guessing = [("own", "label", -1), ("opposite", "label", 1)]
    if shares["following_text"]:
        guessing += [("supporting", "label", -1), ("contradicting", "label", 1)]
    shares["guessing"] = _estimate(rows, guessing, constant=1.0)
    shares["region"] = _estimate(rows, [(REGION[0], "own", 1), (REGION[1], "own", -1)])
    return {"accuracy": accuracy, "changed": changed, "shares": shares}


def name_estimates(summary: Mapping[str, Any]) -> dict[str, float]:
    """The values of `summarize` for experiment trackers, such as `audit/shares/looking`."""
    return {
        f"audit/{kind}/{name}": found["value"]
        for kind in ("accuracy", "changed", "shares")
        for name, found in summary[kind].items()
        if found is not None
    }


def _estimate(rows: Sequence[Row], terms: Sequence[tuple[str, str, int]], constant: float = 0.0) -> Row | None:
    """The mean of a sum of terms over the rows that have all of its conditions, with an interval over studies.

    A term is a condition, "label" (the polarity is the label) or "own" (the polarity differs from that with own
    images), and a sign. Failed answers count as wrong and as changed.
    """
    values: dict[Any, list[float]] = defaultdict(list)
    for row in rows:
        polarity = row["polarity"]
        if all(name in polarity for name, _, _ in terms):
            counted = [
                sign * (polarity[name] == row["label_value"] if kind == "label" else polarity[name] != polarity["own"])
                for name, kind, sign in terms
            ]
            values[row["study_id"]].append(constant + sum(counted))
    if not values:
        return None
    sums = np.array([[sum(found), len(found)] for found in values.values()], float)
    (resampled,) = bootstrap([sums], mean_score, 1000)
    value = mean_score(sums.sum(0))
    return {"value": value, "interval": interval(resampled), "rows": int(sums[:, 1].sum()), "studies": len(values)}
