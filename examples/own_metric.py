"""Your own metric on existing answers, a function from texts to `Scores`."""

import json
import sys
from pathlib import Path

from medvqa_core.metrics.scores import Scores, mean


def same_first_word(predictions: list[str], references: list[str]) -> Scores:
    """1 if both begin with the same word, such as yes, no or mild."""
    pairs = zip(predictions, references, strict=True)
    samples = [float(a.lower().split()[:1] == b.lower().split()[:1]) for a, b in pairs]
    return Scores({"same_first_word": mean(samples)}, {"same_first_word": samples})


rows = [json.loads(line) for line in (Path(sys.argv[1]) / "scores" / "scored.jsonl").open(encoding="utf-8")]
answered = [row for row in rows if row["answer"] is not None]  # without failed questions
print(same_first_word([row["answer"] for row in answered], [row["reference"] for row in answered]).corpus)
