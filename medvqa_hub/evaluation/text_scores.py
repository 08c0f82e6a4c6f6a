"""Text scores of answers against references: the Table 4 row over all rows, and the same scores of any part of them.

The metrics are `medvqa_core.metrics`'; here is only what a table by category needs. Over a part, BLEU is computed anew
(it is no mean of rows), the other scores are means of the rows' own; CIDEr weighs words over all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from medvqa_core.metrics.bleu import bleu_scores
from medvqa_core.metrics.caption_row import CaptionRow, score_row
from medvqa_core.metrics.scores import mean


@dataclass(frozen=True)
class TextScores:
    """The scores of aligned `predictions` and `references`; `whole` holds the row, the rows' own values, and with what
    they were computed."""

    whole: CaptionRow
    predictions: Sequence[str]
    references: Sequence[str]

    def of(self, places: Sequence[int]) -> dict[str, float | None]:
        """The scores of the rows at `places`; what was left out of the whole row is left out here."""
        bleu = bleu_scores([self.predictions[i] for i in places], [self.references[i] for i in places]).corpus
        return {
            name: bleu[name] if name in bleu else mean([values[i] for i in places])
            for name, values in self.whole.samples.items()
        }


def score_texts(
    predictions: Sequence[str], references: Sequence[str], profile: str = "default", encoder: str | None = None
) -> TextScores:
    """Score every prediction against its reference.

    Raises:
        ConfigError: the profile is unknown, or the encoder cannot be loaded.
        InputError: the two differ in number, or there are none.
    """
    return TextScores(score_row(predictions, references, profile, encoder), predictions, references)


def check_scoring(profile: str, encoder: str | None) -> None:
    """Score one pair, so that an encoder that cannot be loaded shows before hours of answering. Raises ConfigError."""
    score_row(["no effusion"], ["no effusion is seen"], profile, encoder)
