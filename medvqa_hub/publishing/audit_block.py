"""The audit of a model (`medvqa-hub audit cxr`) for its card."""

from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.json_files import read_object
from medvqa_hub.publishing.results import names_model

FILE, KIND = "audit.json", "cxr-audit"
TITLES = {"aurc": "area under the risk-coverage curve", "ece": "expected calibration error"}
MEANINGS = {
    "looking": "answers that follow the finding in the images",
    "following_text": "answers that follow a stated indication",
    "guessing": "answers that neither decides",
    "responding": "changes with the finding, without changes between patients that have the same label",
    "region": "changes when the finding is covered, without changes when another region is covered",
    "changes_when_it_should": "opposite images and covered findings",
    "stays_when_it_should": "another patient with the same label, another region covered, an indication stated",
}


def read_audit(folder: Path, fingerprint: str) -> dict[str, Any]:
    """Read the summary in a folder of `audit cxr`. Raises InputError if it is missing or of another model."""
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"{folder} has no {FILE}. Pass the output folder of medvqa-hub audit cxr.")
    summary = read_object(path, "run medvqa-hub audit cxr again")
    audited = (summary.get("model") or {}).get("fingerprint")
    if summary.get("kind") != KIND or not names_model(audited, fingerprint):
        raise InputError(
            f"{path} is not an audit of this model (it has {audited}, expected {fingerprint}). Audit the model that "
            "is pushed."
        )
    return summary


def describe_audit(summary: dict[str, Any]) -> dict[str, Any]:
    """The values of the card's block. Measures without rows are left out."""
    data, calibration = summary["data"], summary["calibration"]
    parts = summary["parts"]["images"] or {}
    measures = {**summary["shares"], **summary["behaviour"]}
    if calibration:
        measures |= {name: calibration[name] for name in ("aurc", "ece")}
    return {
        **{name: data[name] for name in ("split", "source", "fingerprint", "studies", "questions")},
        "parts": {name: f"{found['value']:.2f}" for name, found in parts.items()},
        "rows": [
            {
                "name": TITLES.get(name, name.replace("_", " ")),
                "meaning": MEANINGS.get(name, ""),
                "value": _show(found),
            }
            for name, found in measures.items()
            if found is not None
        ],
        "findings": {
            name: _show(found["shares"]["looking"])
            for name, found in summary["by_finding"].items()
            if found["shares"]["looking"] is not None
        },
    }


def _show(found: dict[str, Any]) -> str:
    low_high = found["interval"]
    return f"{found['value']:.2f}" + (f" [{low_high[0]:.2f}, {low_high[1]:.2f}]" if low_high else "")
