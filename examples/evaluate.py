"""Answers of a model to the test split, and their metrics, like `medvqa-hub evaluate cxr`."""

import sys
from pathlib import Path

from medvqa_hub.evaluation.cxr.evaluating import CxrOptions, evaluate_cxr
from medvqa_hub.evaluation.cxr.model_inference import GenerationSettings

out = Path(sys.argv[1])
(result,) = evaluate_cxr(
    CxrOptions(
        model=str(out / "stage1" / "best"),
        data=out / "cxr",
        image_root=out / "phantom",
        out=out / "scores",
        encoder="none",  # no BERTScore: it needs a text encoder
        generation=GenerationSettings(num_beams=1, max_new_tokens=16, dtype="float32"),
        scored=True,  # also write scored.jsonl: reference, answer and scores of every question
    )
)
print({name: round(value, 4) for name, value in result["table_4"].items() if value is not None})
