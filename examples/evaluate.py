"""Evaluate a model on the test split, as `medvqa-hub evaluate cxr` does."""

import sys
from pathlib import Path

from medvqa_hub.evaluation.cxr.evaluating import evaluate_cxr
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions, GenerationSettings, ScoreOptions

out = Path(sys.argv[1])
(result,) = evaluate_cxr(
    out / "scores",
    DataOptions(out / "cxr", image_root=out / "phantom"),
    AnswerOptions(str(out / "stage1"), generation=GenerationSettings(num_beams=1, max_new_tokens=16)),
    ScoreOptions(
        encoder="none",  # BERTScore would need a text encoder
        scored=True,  # also write scored.jsonl with every question, reference and answer and their scores
    ),
)
print({name: round(value, 4) for name, value in result["table_4"].items() if value is not None})
