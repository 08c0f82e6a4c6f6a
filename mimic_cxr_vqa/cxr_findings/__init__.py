"""The metric `cxr_findings`: F1 over the structured findings of two chest X-ray texts.

from mimic_cxr_vqa import cxr_findings
cxr_findings.load().compute(predictions=[...], references=[...])     # an `evaluate` module
cxr_findings.score_findings(prediction, reference)                   # the plain function
"""

from pathlib import Path
from typing import TYPE_CHECKING

from mimic_cxr_vqa.cxr_findings.scoring import Errors, compare_findings, cxr_findings_scores, score_findings

if TYPE_CHECKING:
    import evaluate

__all__ = ["Errors", "compare_findings", "cxr_findings_scores", "load", "score_findings"]


def load() -> "evaluate.EvaluationModule":
    """The `evaluate` module. Its inputs stay in memory, because reports may be credentialed."""
    import evaluate

    return evaluate.load(str(Path(__file__).parent), keep_in_memory=True)
