"""Text scores of answers against references: the Table 4 row over all rows, and the same scores of any part of them.

The metrics are `medvqa_core.metrics`'; here is only what an evaluation needs besides: BERTScore's encoder loaded once
for all sets of answers, its baseline, and tables by category. Over a part, BLEU is computed again (it is no mean of
rows), the other scores are means of the rows' own; CIDEr weighs words over all rows.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.files import atomic_file
from medvqa_core.metrics.answer_text import words
from medvqa_core.metrics.bert_score import PAPER_ENCODER, PAPER_LAYER, BertScorer, compute_baseline
from medvqa_core.metrics.bleu import bleu_scores
from medvqa_core.metrics.caption_row import PAPER, CaptionRow, load_scorer, score_row
from medvqa_core.metrics.scores import mean

COMPUTED, NO_BASELINE = "computed", "none"
PAIRS = 10_000  # of a computed baseline


@dataclass(frozen=True)
class TextScores:
    """The scores of aligned `predictions` and `references`; `whole` holds the row, the rows' own values, and with what
    they were computed."""

    whole: CaptionRow
    predictions: Sequence[str]
    references: Sequence[str]

    def of(self, places: Sequence[int]) -> dict[str, float | None]:
        """The scores of the rows at `places`; what was left out of the whole row is left out here."""
        bleu = bleu_scores([self.predictions[i] for i in places], [self.references[i] for i in places], words).corpus
        return {
            name: bleu[name] if name in bleu else mean([values[i] for i in places])
            for name, values in self.whole.samples.items()
        }


class TextScorer:
    """The metrics of a profile, ready for any number of sets of answers.

    Args:
        profile: see `score_row`.
        encoder: see `score_row`.
        layer: of the encoder; None: the paper's.
        baseline: what BERTScore is rescaled with: a table's file (`LAYER,P,R,F`), "computed" (random pairs of
            `sentences`), or "none". None is the profile's: the published one of `paper`, none of `default`.
        sentences: for a computed baseline; two evaluations compare only with the same baseline.
        device: of the encoder; None takes the current GPU, or the CPU.

    Raises:
        ConfigError: the profile is unknown, the encoder or the baseline cannot be loaded, there is a layer or a
            baseline and no encoder, or the profile fixes what was asked for.
        InputError: fewer than two different sentences for a computed baseline.
    """

    def __init__(
        self,
        profile: str = "default",
        encoder: str | None = None,
        layer: int | None = None,
        baseline: str | None = None,
        sentences: Sequence[str] = (),
        device: str | None = None,
    ) -> None:
        if profile == PAPER and baseline is not None:
            raise ConfigError("profile 'paper' has the published baseline; leave --baseline out, or use 'default'")
        file = None if baseline in (None, NO_BASELINE, COMPUTED) else Path(baseline)
        self.profile = profile
        self.bert_scorer: BertScorer | None = load_scorer(
            profile, encoder, PAPER_LAYER if layer is None else layer, file, device
        )
        if self.bert_scorer is None and layer is not None:
            raise ConfigError(f"--layer {layer} is of BERTScore, which needs --encoder: a folder, an id or minilm")
        if self.bert_scorer is None and baseline not in (None, NO_BASELINE):
            raise ConfigError(
                f"--baseline {baseline} is of BERTScore, which needs --encoder: a folder, an id or minilm"
            )
        self.baseline_source = f"published: {PAPER_ENCODER}, layer {PAPER_LAYER}" if profile == PAPER else None
        if file is not None:
            self.baseline_source = f"file: {file}"
        if baseline == COMPUTED:
            different = {text for text in sentences if text.strip()}
            self.bert_scorer.baseline = compute_baseline(sorted(different), self.bert_scorer, PAIRS)
            self.baseline_source = f"computed: {PAIRS:,} random pairs of {len(different):,} reference answers, seed 0"
        # One pair, so that what a metric lacks shows before hours of answering.
        self.score(["no effusion"], ["no effusion is seen"])

    def score(self, predictions: Sequence[str], references: Sequence[str]) -> TextScores:
        """Score every prediction against its reference.

        Raises:
            InputError: the two differ in number, or there are none.
        """
        encoder = None if self.bert_scorer else "none"
        row = score_row(predictions, references, self.profile, encoder, scorer=self.bert_scorer)
        return TextScores(row, predictions, references)

    def description(self, scores: TextScores) -> dict[str, Any]:
        """With what `scores` were computed, the baseline's source included."""
        return {**scores.whole.description, "baseline_source": self.baseline_source if self.bert_scorer else None}

    def write_baseline(self, path: Path) -> None:
        """Write the baseline as a table that `--baseline` and a recipe's `reward.baseline` take.

        Raises:
            OutputError: `path` cannot be written.
        """
        with atomic_file(path, "w", private=True) as file:
            csv.writer(file, lineterminator="\n").writerows(
                [["LAYER", "P", "R", "F"], [self.bert_scorer.layer, *self.bert_scorer.baseline]]
            )
