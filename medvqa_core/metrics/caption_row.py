"""The row of the paper's Table 4: BLEU-1..4, METEOR, ROUGE-L, CIDEr and BERTScore of a set of answers.

Profiles:
    paper    PTB words of wordpunct's, METEOR 1.5, ROUGE-L with beta 1.2, CIDEr-D, BERTScore of distilbert-base-uncased
             at layer 5 on PTB text, rescaled; without Java METEOR is left out.
    default  the same without Java, and BERTScore with the encoder asked for on wordpunct text, or none.

Predictions and references are normalised alike (answer_text.py). Missing values are None, with a note on the reason.

To add a metric of texts, add it to METRICS and compute it in `score_row`. The value of a subset of rows is the mean of
their samples. Metrics that also need the question, label or category belong in `medvqa_hub/evaluation/cxr/scoring.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.metrics import meteor
from medvqa_core.metrics.answer_text import NAME as TOKENIZER
from medvqa_core.metrics.answer_text import ptb_text, spaced, words
from medvqa_core.metrics.bert_score import (
    PAPER_BASELINE,
    PAPER_ENCODER,
    PAPER_LAYER,
    BertScorer,
    bert_scores,
)
from medvqa_core.metrics.bleu import bleu_scores
from medvqa_core.metrics.cider import DocumentFrequencies, cider_scores
from medvqa_core.metrics.rouge import rouge_scores
from medvqa_core.metrics.scores import Scores, check_pairs

PAPER, DEFAULT = PROFILES = ("paper", "default")
# The metrics of the row with their titles. Tables, charts, cards, exports and comparisons show each of them.
METRICS = {
    "bleu_1": "BLEU-1", "bleu_2": "BLEU-2", "bleu_3": "BLEU-3", "bleu_4": "BLEU-4", "meteor": "METEOR",
    "rouge_l": "ROUGE-L", "cider": "CIDEr", "bertscore": "BERTScore",
}  # fmt: skip
NO_ENCODER = "none"
_PAPER_SCORER = (PAPER_LAYER, PAPER_BASELINE, ptb_text)


@dataclass(frozen=True)
class CaptionRow:
    """Attributes:
    row: METRICS -> value of the whole set, or None.
    samples: the metrics that were computed -> value of each pair, None for a pair that cannot be scored.
    description: profile, tokenizer, libraries and versions, notes, numbers of pairs and of unscorable ones.
    """

    row: dict[str, float | None]
    samples: dict[str, list[float | None]]
    description: dict[str, Any]


def score_row(
    predictions: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    profile: str = DEFAULT,
    encoder: str | Path | None = None,
    layer: int = PAPER_LAYER,
    baseline: Sequence[float] | str | Path | None = None,
    device: str | None = None,
    frequencies: DocumentFrequencies | None = None,
    scorer: BertScorer | None = None,
) -> CaptionRow:
    """Score all metrics of a profile.

    Args:
        encoder: of BERTScore: "minilm", a folder, a Hub id or "none"; None is the profile's. With `paper` a folder is a
            copy of the paper's encoder, and the published baseline is used.
        layer, baseline, device: see `BertScorer`.
        frequencies: of CIDEr, counted with `answer_text.words`; None counts the references given.
        scorer: a loaded scorer (`load_scorer`) in place of the four arguments above.

    Raises:
        ConfigError: the profile is unknown, the encoder cannot be loaded, or `scorer` is not the profile's.
        InputError: see `check_pairs`.

    Examples:
        >>> row = score_row(["no effusion"], ["no effusion is seen"], encoder="none")
        >>> round(row.row["bleu_1"], 4)
        0.3679
    """
    if profile not in PROFILES:
        raise ConfigError(f"profile {profile!r} is unknown. Allowed: {', '.join(PROFILES)}")
    lists = check_pairs(predictions, references)
    if scorer is None:
        scorer = load_scorer(profile, encoder, layer, baseline, device)
    elif profile == PAPER and (scorer.layer, scorer.baseline, scorer.text) != _PAPER_SCORER:
        raise ConfigError(
            f"profile 'paper' fixes layer {PAPER_LAYER}, its baseline and PTB text. Use the profile 'default'"
        )
    notes = _bert_score_notes(scorer)
    split: dict[str, list[str]] = {}

    def words_of(text: str) -> list[str]:
        if text not in split:
            split[text] = words(text)
        return split[text]

    parts = [
        bleu_scores(predictions, lists, words_of),
        rouge_scores(predictions, lists, words_of),
        cider_scores(predictions, lists, words_of, frequencies),
    ]
    if frequencies is None and len(lists) == 1:
        notes.append("CIDEr of a single pair is 0 by definition: every word is in every document")
    if profile == PAPER:
        reason = meteor.missing()
        if reason:
            notes.append(reason)
        else:
            parts.append(meteor.meteor_scores(predictions, lists, words_of))
    else:
        notes.append("METEOR left out: the profile 'paper' has it, and needs Java")
    if scorer:
        found = bert_scores(predictions, lists, scorer)
        parts.append(replace(found, corpus={"bertscore": found.corpus["bertscore"]}))  # without precision and recall
    values, samples, unscorable = _merge(parts)
    return CaptionRow(
        row={name: values.get(name) for name in METRICS},
        samples={name: samples[name] for name in METRICS if name in samples},
        description={
            "profile": profile,
            "tokenizer": TOKENIZER,
            "pairs": len(predictions),
            "empty_predictions": sum(not words_of(text) for text in predictions),
            "unscorable": unscorable,
            "empty_references": sum(not any(map(words_of, texts)) for texts in lists),
            "bertscore_settings": _describe(scorer),
            "libraries": _libraries("meteor" in values, scorer is not None),
            "notes": notes,
        },
    )


def load_scorer(
    profile: str = DEFAULT,
    encoder: str | Path | None = None,
    layer: int = PAPER_LAYER,
    baseline: Sequence[float] | str | Path | None = None,
    device: str | None = None,
) -> BertScorer | None:
    """The BERTScore scorer for `score_row`, or None without an encoder.

    Raises:
        ConfigError: the encoder cannot be loaded, or differs from the profile's.
    """
    if profile not in PROFILES:
        raise ConfigError(f"profile {profile!r} is unknown. Allowed: {', '.join(PROFILES)}")
    if str(encoder) == NO_ENCODER:
        return None
    if profile == DEFAULT:
        return None if encoder is None else BertScorer(encoder, layer, baseline, device=device, text=spaced)
    if layer != PAPER_LAYER or baseline is not None:
        raise ConfigError(f"profile 'paper' fixes layer {PAPER_LAYER} and its baseline. Use the profile 'default'")
    if str(encoder) == "minilm":
        raise ConfigError(f"profile 'paper' scores with {PAPER_ENCODER} or a folder of it. For minilm use 'default'")
    return BertScorer(encoder or PAPER_ENCODER, PAPER_LAYER, PAPER_BASELINE, device=device, text=ptb_text)


def _bert_score_notes(scorer: BertScorer | None) -> list[str]:
    if scorer is None:
        return ["BERTScore left out: no encoder was asked for. Give a folder, a Hub id, or 'minilm'"]
    return [] if scorer.baseline is not None else ["BERTScore is not rescaled: no baseline was given"]


def _merge(parts: list[Scores]) -> tuple[dict, dict, dict]:
    values: dict[str, float | None] = {}
    samples: dict[str, Sequence[float | None]] = {}
    unscorable: dict[str, int] = {}
    for part in parts:
        values |= part.corpus
        samples |= part.samples
        unscorable |= part.unscorable
    assert values.keys() <= METRICS.keys(), f"{values.keys() - METRICS.keys()} must be in METRICS"
    return values, samples, unscorable


def _describe(scorer: BertScorer | None) -> dict[str, Any] | None:
    if scorer is None:
        return None
    text = "PTB" if scorer.text is ptb_text else "wordpunct in lower case" if scorer.text is spaced else "as it stands"
    settings = {"encoder": scorer.encoder.name, "layer": scorer.layer, "baseline": scorer.baseline, "idf": False}
    return {**settings, "text": text}


def _libraries(with_meteor: bool, with_encoder: bool) -> dict[str, str]:
    names = ["medvqa-hub"] + ["pycocoevalcap"] * with_meteor + ["torch", "transformers"] * with_encoder
    libraries = {}
    for name in names:
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:  # a source tree on the path, not installed
            libraries[name] = "not installed"
    if with_meteor:
        libraries["METEOR"] = meteor.VERSION
    return libraries
