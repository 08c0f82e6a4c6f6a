"""Text scores of answers against references: the Table 4 row over all rows, and the same scores of any part of them.

The metrics are `medvqa_core.metrics`'; here is only what a table by category needs. Over a part, BLEU is computed anew
(it is no mean of rows), the other scores are means of the rows' own; CIDEr weighs words over all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medvqa_core.metrics.bleu import bleu_scores
from medvqa_core.metrics.cider import cider_scores
from medvqa_core.metrics.rouge import rouge_scores
from medvqa_core.metrics.scores import mean

BLEU = tuple(f"bleu_{order}" for order in (1, 2, 3, 4))


@dataclass(frozen=True)
class TextScores:
    """Attributes:
    row: metric -> value over all rows, in the order of Table 4; None for one that could not be computed.
    samples: metric -> value of each row.
    description: profile, tokenizer, libraries with versions, notes.
    """

    row: dict[str, float | None]
    samples: dict[str, list[float | None]]
    description: dict[str, Any]
    predictions: Sequence[str]
    references: Sequence[str]

    def of(self, rows: Sequence[int]) -> dict[str, float | None]:
        """The scores of some of the rows."""
        bleu = bleu_scores([self.predictions[i] for i in rows], [self.references[i] for i in rows]).corpus
        others = {name: mean([self.samples[name][i] for i in rows]) for name in self.row if name not in BLEU}
        return {name: bleu[name] if name in BLEU else others[name] for name in self.row}


def score_texts(
    predictions: Sequence[str], references: Sequence[str], profile: str = "default", encoder: str | None = None
) -> TextScores:
    """Score every prediction against its reference.

    Raises:
        ConfigError: the profile is unknown, or the encoder cannot be loaded.
        InputError: a reference is empty, or the two differ in number.
    """
    parts = [function(predictions, references) for function in (bleu_scores, rouge_scores, cider_scores)]
    row = {k: v for p in parts for k, v in p.corpus.items()}
    samples = {k: v for p in parts for k, v in p.samples.items()}
    return TextScores(row, samples, {"profile": profile}, predictions, references)
