"""Radiology scores of an evaluation (`--radiology`), added to results that are already written.

RadEval's models are loaded before inference, so that problems are reported at once.
"""

from collections.abc import Sequence
from typing import Any

from medvqa_core.metrics.radiology import CHALLENGE, LABEL_ACCURACY, LABEL_F1, LEVELS, RadiologyScorer

COLUMNS = (CHALLENGE, *LEVELS, *LABEL_F1, *LABEL_ACCURACY)
NO_BERTSCORE = f"{CHALLENGE} left out, because it needs BERTScore (--encoder)"


def open_radiology() -> RadiologyScorer:
    """RadEval with its weights. Raises ConfigError if it cannot score a pair."""
    import torch

    scorer = RadiologyScorer(chexbert=torch.cuda.is_available())
    scorer.score(["no effusion"], ["no effusion is seen"])
    return scorer


def add_radiology(
    result: dict[str, Any], rows: Sequence[dict[str, Any]], scorer: RadiologyScorer, failed: str = "exclude"
) -> None:
    """Add `radiology` to `result` and the scores of each row to `rows`, the return values of `score`.

    Args:
        failed: see `score`.

    Raises:
        ConfigError: RadEval fails on a text.
    """
    scored = [
        row for row in rows if (row["reference"] or "").strip() and (row["answer"] is not None or failed == "empty")
    ]
    bertscore = [row["bertscore"] for row in scored] if "bertscore" in rows[0] else None
    found = scorer.score([row["answer"] or "" for row in scored], [row["reference"] for row in scored], bertscore)
    described = scorer.description
    result["radiology"] = {
        "scores": {name: found.corpus.get(name) for name in COLUMNS if name in found.corpus or name == CHALLENGE},
        "rows": len(scored),
        "scored_with": {**described, "notes": described["notes"] + [NO_BERTSCORE] * (bertscore is None)},
    }
    for row in rows:
        row.update(dict.fromkeys(found.samples))
    for place, row in enumerate(scored):
        row.update({name: values[place] for name, values in found.samples.items()})
