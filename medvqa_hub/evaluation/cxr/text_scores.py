"""Text scores of answers against references, for all rows and for subsets of them.

`TextScorer` loads BERTScore's encoder once for all sets of answers. For a subset, BLEU is computed again, and the other
scores are means of the rows' values. CIDEr weights words over all rows.
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
from medvqa_core.metrics.caption_row import DEFAULT, PAPER, CaptionRow, load_scorer, score_row
from medvqa_core.metrics.scores import mean
from medvqa_hub.evaluation.cxr.challenge import PROFILE as CHALLENGE
from medvqa_hub.evaluation.cxr.options import ScoreOptions

COMPUTED, NO_BASELINE = "computed", "none"
PAIRS = 10_000  # random pairs of a computed baseline


@dataclass(frozen=True)
class TextScores:
    """The scores of aligned `predictions` and `references`."""

    whole: CaptionRow
    predictions: Sequence[str]
    references: Sequence[str]

    def of(self, places: Sequence[int]) -> dict[str, float | None]:
        """The scores of the rows at `places`."""
        bleu = bleu_scores([self.predictions[i] for i in places], [self.references[i] for i in places], words).corpus
        return {
            name: bleu[name] if name in bleu else mean([values[i] for i in places])
            for name, values in self.whole.samples.items()
        }


class TextScorer:
    """The metrics of a profile, for any number of sets of answers.

    Args:
        profile, encoder: see `score_row`.
        layer: of the encoder, by default the paper's.
        baseline: rescales BERTScore: the file of a table (`LAYER,P,R,F`), "computed" (from random pairs of
            `sentences`), or "none". The default is that of the profile.
        sentences: for a computed baseline.
        device: device that runs the encoder, by default the current GPU or the CPU.

    Raises:
        ConfigError: the profile is unknown, the encoder or the baseline cannot be loaded, or options do not fit
            together.
        InputError: a computed baseline has fewer than two different sentences.
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
            raise ConfigError("--baseline cannot be combined with --profile paper, which uses the published baseline")
        file = None if baseline in (None, NO_BASELINE, COMPUTED) else Path(baseline)
        self.profile = self.name = profile
        self.bert_scorer: BertScorer | None = load_scorer(
            profile, encoder, PAPER_LAYER if layer is None else layer, file, device
        )
        unused = {"layer": layer, "baseline": None if baseline == NO_BASELINE else baseline}
        for name, value in unused.items() if self.bert_scorer is None else ():
            if value is not None:
                raise ConfigError(f"--{name} {value} needs BERTScore. Add --encoder with a folder, an id or minilm.")
        self.baseline_source = f"published: {PAPER_ENCODER}, layer {PAPER_LAYER}" if profile == PAPER else None
        if file is not None:
            self.baseline_source = f"file: {file}"
        if baseline == COMPUTED and self.bert_scorer is not None:
            different = {text for text in sentences if text.strip()}
            self.bert_scorer.baseline = compute_baseline(sorted(different), self.bert_scorer, PAIRS)
            self.baseline_source = f"computed: {PAIRS:,} random pairs of {len(different):,} reference answers, seed 0"
        # Score one pair now, so that missing dependencies are reported before hours of inference.
        self.score(["no effusion"], ["no effusion is seen"])

    @classmethod
    def from_options(cls, options: ScoreOptions, sentences: Sequence[str], device: str | None) -> "TextScorer":
        """The scorer of an evaluation. Without an encoder, the profile cxr-oracle has the BERTScore of the paper."""
        profile = options.profile
        if profile == CHALLENGE:
            is_own = options.encoder is None and options.layer is None and options.baseline is None
            profile = PAPER if is_own else DEFAULT
        encoder = PAPER_ENCODER if options.profile == CHALLENGE and options.encoder is None else options.encoder
        scorer = cls(profile, encoder, options.layer, options.baseline, sentences, device)
        scorer.name = options.profile
        if scorer.bert_scorer is None and options.profile == CHALLENGE:
            raise ConfigError(f"--profile {CHALLENGE} needs BERTScore, so --encoder none is not supported")
        return scorer

    def score(self, predictions: Sequence[str], references: Sequence[str]) -> TextScores:
        """Score every prediction against its reference. Raises InputError if their numbers differ or are 0."""
        encoder = None if self.bert_scorer else "none"
        row = score_row(predictions, references, self.profile, encoder, scorer=self.bert_scorer)
        return TextScores(row, predictions, references)

    def description(self, scores: TextScores) -> dict[str, Any]:
        """Description of the metrics for the results, with the source of the baseline."""
        source = self.baseline_source if self.bert_scorer else None
        return {**scores.whole.description, "profile": self.name, "baseline_source": source}

    def write_baseline(self, path: Path) -> None:
        """Write the baseline as a table for `--baseline` and a recipe's `reward.baseline`. Raises OutputError."""
        with atomic_file(path, "w", private=True) as file:
            scorer = self.bert_scorer
            assert scorer is not None and scorer.baseline is not None
            rows: list[list[Any]] = [["LAYER", "P", "R", "F"], [scorer.layer, *scorer.baseline]]
            csv.writer(file, lineterminator="\n").writerows(rows)
