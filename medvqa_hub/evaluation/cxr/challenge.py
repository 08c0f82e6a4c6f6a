"""The score of the challenge CXR-ORACLE (`--profile cxr-oracle`).

A pair of answer and reference scores 0.5 x BERTScore F1 + 0.5 x RadGraph F1, and the score is the mean over all
questions that have a reference. A failed, empty or unscorable answer scores zero. BLEU and ROUGE-L are reported only.
The raw values of each pair are kept in scored.jsonl.

The challenge's page does not state BERTScore's encoder, layer, text normalisation and rescaling, and RadGraph's version
and level. The results name what was used.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.metrics.scores import mean

PROFILE = "cxr-oracle"
COLUMN = "challenge_score"
REPORTED = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l")
Row = dict[str, Any]


def add_challenge(result: Row, rows: Sequence[Row], level: str) -> None:
    """Add `challenge` to `result` and `challenge_score` to `rows`, which have BERTScore and RadGraph F1.

    Args:
        level: of RadGraph F1: simple, partial or complete.

    Raises:
        ConfigError: the rows do not have these scores.
    """
    column = f"radgraph_{level}"
    lacking = [name for name in ("bertscore", column) if name not in rows[0]]
    if lacking:
        raise ConfigError(f"--profile {PROFILE} needs {' and '.join(lacking)}, which the scores do not have")
    zeros: Counter[str] = Counter()
    referenced = [row for row in rows if (row["reference"] or "").strip()]
    values: list[tuple[float, float]] = []
    for row in rows:
        row[COLUMN] = None
    for row in referenced:
        reason = _why_zero(row, column)
        zeros.update([reason] if reason else [])
        values.append((0.0, 0.0) if reason else (row["bertscore"], row[column]))
        row[COLUMN] = 0.5 * values[-1][0] + 0.5 * values[-1][1]
    described = result["scored_with"]
    settings = described["bertscore_settings"]
    rescaled = described["baseline_source"] if settings["baseline"] is not None else "not rescaled"
    result["challenge"] = {
        "score": mean([row[COLUMN] for row in referenced]),
        "bertscore_f1": mean([one for one, _ in values]),
        "radgraph_f1": mean([other for _, other in values]),
        "pairs": len(referenced),
        "zero": dict(zeros),
        "reported_only": {name: result["table_4"].get(name) for name in REPORTED},
        "chosen_here": {
            "BERTScore encoder": f"{settings['encoder']}, layer {settings['layer']}",
            "BERTScore text": settings["text"],
            "BERTScore rescaling": rescaled,
            "RadGraph level": level,
            "RadGraph version": f"RadEval {result['clinical']['scored_with']['RadEval']}",
        },
    }


def _why_zero(row: Row, column: str) -> str | None:
    if row["answer"] is None:
        return "failed"
    if not row["answer"].strip():
        return "empty"
    return None if row["bertscore"] is not None and row[column] is not None else "unscorable"
