"""`evaluate` module: the row of the MIMIC-CXR-VQA paper's Table 4."""

import datasets
import evaluate

from medvqa_core.metrics.caption_row import score_row

_DESCRIPTION = """BLEU-1..4, METEOR, ROUGE-L, CIDEr and BERTScore of generated answers, as in Table 4 of the
MIMIC-CXR-VQA paper. The result names profile, tokenizer, libraries and versions; what was left out is None and a note
says why."""

_KWARGS_DESCRIPTION = """
Args:
    predictions: generated answers.
    references: one answer each, or a list of answers each.
    profile: "default" (no Java) or "paper" (with METEOR 1.5 and distilbert-base-uncased, layer 5, rescaled).
    encoder: of BERTScore: "minilm", a folder, a Hub id, or "none".
    layer, baseline, device: of BERTScore.
    samples: also return the value of each pair.
Examples:
    >>> from medvqa_core import metrics
    >>> row = metrics.load("cxr_vqa").compute(predictions=["no effusion"], references=["no effusion is seen"])
    >>> round(row["bleu_1"], 4), row["meteor"]
    (0.3679, None)
"""

_CITATION = ""


class CxrVqa(evaluate.Metric):
    """Table 4 in one call."""

    def _info(self) -> evaluate.MetricInfo:
        text, texts = datasets.Value("string"), datasets.Sequence(datasets.Value("string"))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=[
                datasets.Features({"predictions": text, "references": texts}),
                datasets.Features({"predictions": text, "references": text}),
            ],
        )

    def _compute(
        self,
        predictions,
        references,
        profile="default",
        encoder=None,
        layer=5,
        baseline=None,
        device=None,
        samples=False,
    ):
        scored = score_row(predictions, references, profile, encoder, layer, baseline, device)
        result = {**scored.row, **scored.description}
        return {**result, "samples": scored.samples} if samples else result
