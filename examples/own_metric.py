"""A metric of your own on answers that are there: no model is asked again.

A metric is a plain function from texts to `Scores`; `scored.jsonl` holds every question with reference and answer.
"""

import json
import sys
from pathlib import Path

from medvqa_core.metrics.scores import Scores, mean


def same_first_word(predictions: list[str], references: list[str]) -> Scores:
    """1 where both begin with the same word: yes, no, mild …"""
    pairs = zip(predictions, references, strict=True)
    samples = [float(a.lower().split()[:1] == b.lower().split()[:1]) for a, b in pairs]
    return Scores({"same_first_word": mean(samples)}, {"same_first_word": samples})


rows = [json.loads(line) for line in (Path(sys.argv[1]) / "scores" / "scored.jsonl").open(encoding="utf-8")]
answered = [row for row in rows if row["answer"] is not None]  # a failure is no answer
print(same_first_word([row["answer"] for row in answered], [row["reference"] for row in answered]).corpus)
