"""Clinical scores of an evaluation, added to results that are already written.

`--clinical-python PYTHON` runs RadEval in an environment of its own, and `--clinical-scores FILE` takes scores that
were computed before, on any machine. With the former OUT/clinical.jsonl has the scores by digests of the texts.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from medvqa_core.clinical.clinical_scores import (
    ClinicalScores,
    check_clinical_python,
    read_clinical_scores,
    run_clinical_python,
    write_pairs,
)
from medvqa_core.errors import InputError
from medvqa_core.files import output_errors
from medvqa_hub.evaluation.cxr.challenge import PROFILE as CHALLENGE
from medvqa_hub.evaluation.cxr.options import ScoreOptions

FILE, PAIRS = "clinical.jsonl", "clinical-pairs.jsonl"
Row = dict[str, Any]
ClinicalScorer = Callable[[Sequence[tuple[str, str]]], ClinicalScores]


def open_clinical(options: ScoreOptions, out: Path) -> ClinicalScorer | None:
    """What scores pairs of answer and reference, or None if no clinical scores were asked for.

    Raises:
        ConfigError: RadEval does not work in the environment.
        InputError: the file of scores cannot be read.
    """
    if options.clinical_scores is not None:
        found = read_clinical_scores(options.clinical_scores)
        if options.profile == CHALLENGE and "radgraph" not in found.described["metrics"]:
            raise InputError(f"{found.path} has no RadGraph F1, which --profile {CHALLENGE} needs")
        return lambda _pairs: found
    python = options.clinical_python
    if python is None:
        return None
    check_clinical_python(python, options.clinical_metrics)

    def score(pairs: Sequence[tuple[str, str]]) -> ClinicalScores:
        try:
            write_pairs(out / PAIRS, pairs)
            return run_clinical_python(python, out / PAIRS, out / FILE, options.clinical_metrics)
        finally:
            with output_errors(out / PAIRS):
                (out / PAIRS).unlink(missing_ok=True)

    return score


def add_clinical(result: Row, rows: Sequence[Row], scorer: ClinicalScorer, failed: str = "exclude") -> None:
    """Add `clinical` to `result` and the scores of each row to `rows`, the return values of `score`.

    Scores that have the name of a text score get the suffix " (RadEval)".

    Args:
        failed: see `score`. Failed answers are left out or scored as empty texts.

    Raises:
        ConfigError: RadEval fails on a text.
        InputError: a pair has no scores.
    """
    scored = [
        row for row in rows if (row["reference"] or "").strip() and (row["answer"] is not None or failed == "empty")
    ]
    pairs = [((row["answer"] or "").strip(), row["reference"].strip()) for row in scored]
    scores = scorer(pairs)
    found = scores.score(pairs)
    names = {name: f"{name} (RadEval)" if name in rows[0] else name for name in found.corpus}
    result["clinical"] = {
        "scores": {names[name]: value for name, value in found.corpus.items()},
        "by_row": [names[name] for name in found.samples],
        "rows": len(scored),
        "scored_with": dict(scores.described),
    }
    for row in rows:
        row.update({names[name]: None for name in found.samples})
    for place, row in enumerate(scored):
        row.update({names[name]: values[place] for name, values in found.samples.items()})
