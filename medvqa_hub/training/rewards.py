"""Rewards of self-critical training: plain functions over texts.

    reward(completions, **columns) -> list[float | None]

One value per completion, None where it cannot be scored. `columns` are those of the dataset's rows as lists: `answer`
is the reference, and `question`, `category`, `label_value`, … are there for rewards that need them. The trainer calls a
reward once per batch with the sampled and the greedy answers together, so that BERTScore encodes each reference, and
each answer that both have in common, once.

Shipped: `bert_score` (F1, the paper's), `rouge_l`, `bleu_4` (of each sentence), `cider` (document frequencies of the
training references, 0 to 10), `finding`, `finding_accuracy`, and weighted sums such as "bert_score:0.3+finding:0.7".
BERTScore sees little difference between an answer and its negation; `finding` looks at nothing else: 1 where the answer
says of the row's category what the reference says (positive, negative or uncertain), 0 where it does not, and 0.5 where
the reference says nothing of it: Heart's rows, whose label is about a word, and references that are undecided.
`finding_accuracy` asks the label in place of the reference: 1 where the answer says of the category what the row's
label says, 0 where not; rows without a truth (labels other than positive and negative, Heart) cannot be scored.
`label` is the same with 0.5 for rows without a truth: in a sum they keep the rest of their reward.
`soft_accuracy` is RJUA-MedDQA's: a share for each part of the reference that stands in the answer, by its answer type.
`character_rouge_l` is its ROUGE-L, of Chinese answers: to `rouge_l` a Chinese sentence is one word.

Policy, the same for all: a reference without a letter or digit cannot be scored (None); an empty completion is scored
as the metric scores it, 0 or (BERTScore rescaled) below, since an empty answer is a bad one, not a missing one.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Real

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics.answer_text import spaced, words
from medvqa_core.metrics.bert_score import PAPER_BASELINE, PAPER_ENCODER, PAPER_LAYER, BertScorer
from medvqa_core.metrics.bleu import bleu_scores
from medvqa_core.metrics.chinese import find_units
from medvqa_core.metrics.cider import DocumentFrequencies, cider_scores
from medvqa_core.metrics.meddqa_scores import ROUGE_BETA
from medvqa_core.metrics.rouge import rouge_l, rouge_scores
from medvqa_core.metrics.soft_accuracy import ANSWER_TYPES, is_failed, soft_accuracy
from medvqa_core.progress import track
from medvqa_hub.evaluation.cxr.finding_accuracy import SCORED_LABELS
from medvqa_hub.training.recipes import RewardSettings
from mimic_cxr_vqa.labeling.answer_polarity import UNDECIDED, answer_polarity
from mimic_cxr_vqa.schema import HEART

Reward = Callable[..., list[float | None]]
PUBLISHED = "published"


@dataclass(frozen=True)
class _Context:
    """What a factory may build its reward from."""

    settings: RewardSettings
    training_references: Iterable[str] | None
    device: str | None


def make_reward(
    settings: RewardSettings | str, training_references: Iterable[str] | None = None, device: str | None = None
) -> Reward:
    """The reward that a recipe's section `reward` (or just its name) describes.

    Args:
        settings: the section. Its `baseline`, BERTScore's rescaling, may be None, three numbers, a table's file, or
            "published": that of the paper's encoder and layer.
        training_references: the training set's answers; `cider` counts its document frequencies in them.
        device: of BERTScore's encoder; None takes the current GPU, or the CPU.

    Raises:
        ConfigError: an unknown reward, a weight that is no number, an encoder that cannot be loaded, a baseline that is
            of another encoder, or no training references where they are needed.
    """
    settings = RewardSettings(name=settings) if isinstance(settings, str) else settings
    weights = parse_reward_name(settings.name)
    context = _Context(settings, training_references, device)
    parts = {name: FACTORIES[name](context) for name in weights}

    def reward(completions: Sequence[str], *, answer: Sequence[str], **columns: Sequence) -> list[float | None]:
        scorable = [row for row, text in enumerate(answer) if any(map(str.isalnum, text))]
        values: list[float | None] = [None] * len(answer)
        if not scorable:
            return values
        texts = [completions[row] for row in scorable]
        chosen = {name: [column[row] for row in scorable] for name, column in {"answer": answer, **columns}.items()}
        scored = {name: part(texts, **chosen) for name, part in parts.items()}
        for place, row in enumerate(scorable):
            values[row] = weighted_sum({name: scored[name][place] for name in weights}, weights)
        return values

    reward.__name__ = settings.name
    return reward


def parse_reward_name(name: str) -> dict[str, float]:
    """Weights by reward: "bert_score:0.7+rouge_l:0.3" -> {"bert_score": 0.7, "rouge_l": 0.3}; no weight means 1.

    Raises:
        ConfigError: an unknown reward, one named twice, or a weight that is not a number other than 0.
    """
    weights: dict[str, float] = {}
    for part in name.split("+"):
        reward, _, weight = (piece.strip() for piece in part.partition(":"))
        if reward not in FACTORIES:
            nearest = get_close_matches(reward, FACTORIES, n=1)
            hint = f" (did you mean {nearest[0]!r}?)" if nearest else ""
            raise ConfigError(
                f"reward {reward!r} is unknown{hint}; allowed: {', '.join(FACTORIES)}, or a sum such as "
                "'bert_score:0.7+rouge_l:0.3'"
            )
        if reward in weights:
            raise ConfigError(f"reward {name!r} names {reward!r} twice; add up its weights")
        try:
            weights[reward] = float(weight) if weight else 1.0
        except ValueError as error:
            raise ConfigError(f"reward {name!r}: the weight {weight!r} is not a number") from error
        if not weights[reward] or not math.isfinite(weights[reward]):
            raise ConfigError(f"reward {name!r}: the weight {weight!r} is not allowed; give a number other than 0")
    return weights


def weighted_sum(values: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    """Sum of weight x value; None where any of the values is None, since a part of a sum is another reward."""
    if any(values[name] is None for name in weights):
        return None
    return sum(weight * values[name] for name, weight in weights.items())


def refuse_missing_columns(name: str, columns: Iterable[str]) -> None:
    """Raise an InputError if a reward of the sum `name` needs columns that rows with `columns` do not have."""
    columns = set(columns)
    for reward in parse_reward_name(name):
        needed = sorted(COLUMNS.get(reward, ()))
        if not columns.issuperset(needed):
            raise InputError(
                f"reward {reward!r} needs the rows' column{'s' * (len(needed) > 1)} {' and '.join(needed)}: finding, "
                "finding_accuracy and label are about studies, soft_accuracy about report images; choose another reward"
            )


def check_rewards(values: Sequence[float | None], answers: Sequence[str], name: str) -> None:
    """Check what a reward function returned, before anything is trained with it.

    Args:
        values: one per answer.
        answers: how messages call each, such as "the sampled answer to QA_ID".
        name: the reward's.

    Raises:
        InputError: another number of values, or one that is neither a finite number nor None; the answer is named.
    """
    if not isinstance(values, list) or len(values) != len(answers):
        found = f"{len(values)} values" if isinstance(values, list) else f"a {type(values).__name__}"
        raise InputError(f"reward {name!r} returned {found} for {len(answers)} answers; return a list, one value each")
    for value, answer in zip(values, answers, strict=True):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise InputError(
                f"reward {name!r} gave {value!r} for {answer}; allowed are finite numbers, and None where an answer "
                "cannot be scored. Nothing was trained with it; correct the reward, then run the same command again"
            )


def count_frequencies(references: Iterable[str]) -> DocumentFrequencies:
    """CIDEr's document frequencies of the training references, with a progress bar: minutes for millions of them."""
    return DocumentFrequencies.build(track(references, "counting n-grams for CIDEr"), words)


def _bert_score(context: _Context) -> Reward:
    settings = context.settings
    baseline = settings.baseline
    if baseline == PUBLISHED:
        if (settings.encoder, settings.layer) != (PAPER_ENCODER, PAPER_LAYER):
            raise ConfigError(
                f"reward.baseline is {PUBLISHED!r}, which is that of {PAPER_ENCODER!r}, layer {PAPER_LAYER}; for "
                f"{str(settings.encoder)!r}, layer {settings.layer}, give null (no rescaling), three numbers or a table"
            )
        baseline = PAPER_BASELINE
    scorer = BertScorer(settings.encoder, settings.layer, baseline, settings.batch_size, context.device, spaced)

    def reward(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> list[float | None]:
        return [triple and triple[2] for triple in scorer.score(completions, answer)]

    return reward


def _cider(context: _Context) -> Reward:
    if context.training_references is None:
        raise ConfigError(
            "reward 'cider' needs the document frequencies of the training references: pass training_references, the "
            "training set's answers; those of one batch would change from step to step"
        )
    frequencies = count_frequencies(context.training_references)

    def reward(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> list[float | None]:
        return cider_scores(completions, answer, words, frequencies).samples["cider"]

    return reward


def _rouge_l(context: _Context) -> Reward:
    return lambda completions, answer, **columns: rouge_scores(completions, answer, words).samples["rouge_l"]


def _bleu_4(context: _Context) -> Reward:
    return lambda completions, answer, **columns: bleu_scores(completions, answer, words).samples["bleu_4"]


def _finding(context: _Context) -> Reward:
    def reward(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> list[float | None]:
        refuse_missing_columns("finding", columns)
        return [_agreement(*row) for row in zip(completions, answer, columns["category"], strict=True)]

    return reward


def _finding_accuracy(context: _Context) -> Reward:
    def reward(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> list[float | None]:
        refuse_missing_columns("finding_accuracy", columns)
        rows = zip(completions, columns["category"], columns["label_value"], strict=True)
        return [
            float(answer_polarity(completion, category) == label)
            if category != HEART and label in SCORED_LABELS
            else None
            for completion, category, label in rows
        ]

    return reward


def _label(context: _Context) -> Reward:
    by_label = _finding_accuracy(context)

    def reward(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> list[float | None]:
        refuse_missing_columns("label", columns)
        return [0.5 if value is None else value for value in by_label(completions, answer, **columns)]

    return reward


def _soft_accuracy(context: _Context) -> Reward:
    def reward(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> list[float | None]:
        refuse_missing_columns("soft_accuracy", columns)
        return [
            (0.0 if is_failed(said) else soft_accuracy(said, truth, kind)) if kind in ANSWER_TYPES else None
            for said, truth, kind in zip(completions, answer, columns["answer_type"], strict=True)
        ]

    return reward


def _character_rouge_l(context: _Context) -> Reward:
    units = find_units("characters")

    def reward(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> list[float | None]:
        pairs = zip(completions, answer, strict=True)
        return [rouge_l(units(said), [units(truth)], ROUGE_BETA) for said, truth in pairs]

    return reward


def _agreement(completion: str, reference: str, category: str) -> float:
    """1.0 where both say the same of `category`, 0.0 where not, 0.5 where the reference says nothing of it."""
    if category == HEART:
        return 0.5
    wanted = answer_polarity(reference, category)
    return 0.5 if wanted == UNDECIDED else float(answer_polarity(completion, category) == wanted)


FACTORIES: dict[str, Callable[[_Context], Reward]] = {
    "bert_score": _bert_score,
    "rouge_l": _rouge_l,
    "bleu_4": _bleu_4,
    "cider": _cider,
    "finding": _finding,
    "finding_accuracy": _finding_accuracy,
    "label": _label,
    "soft_accuracy": _soft_accuracy,
    "character_rouge_l": _character_rouge_l,
}
# Columns of the rows that a reward reads besides the reference.
COLUMNS = {
    "finding": {"category"},
    "finding_accuracy": {"category", "label_value"},
    "label": {"category", "label_value"},
    "soft_accuracy": {"task", "answer_type"},  # a release of studies has the second, with other values
}
