"""Rewards of self-critical training and GRPO, as functions of texts.

    reward(completions, **columns) -> list[float | None]

A reward returns one value per completion, or None if it cannot be scored. `columns` are those of the dataset's rows:
`answer` is the reference, and `question`, `category`, `label_value`, … are available too. The trainer calls a reward
once per batch with sampled and greedy answers together, so BERTScore encodes each distinct text once.

| name | value |
|---|---|
| bert_score | F1, the paper's reward |
| rouge_l, bleu_4 | of the sentence |
| cider | 0 to 10, with the document frequencies of the training references |
| finding | 1 if the answer and the reference agree about the row's category (positive, negative or uncertain), 0 if not, 0.5 if the reference is undecided or the category is Heart, whose label is about a word |
| cxr_findings | F1 over findings with their polarity, side and severity (`mimic_cxr_vqa.cxr_findings`) |
| finding_accuracy | 1 if the answer agrees with the row's label, 0 if not; labels other than positive and negative, and Heart, cannot be scored |
| label | finding_accuracy, with 0.5 for rows that it cannot score, so that they keep the other parts of a sum |
| soft_accuracy | RJUA-MedDQA's share of the reference's parts in the answer, by answer type |
| character_rouge_l | RJUA-MedDQA's ROUGE-L of characters, for Chinese |

Weighted sums such as "bert_score:0.3+finding:0.7" combine them. BERTScore hardly distinguishes an answer from its
negation, while finding looks at nothing else.

A user's own function with this signature is a reward too: "my_rewards.py:brevity", "package.module:brevity:0.3+rouge_l"
(see `user_code`).

A reference without a letter or digit cannot be scored. An empty completion gets the metric's lowest score.
"""  # noqa: E501

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Real
from typing import Any

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
from medvqa_hub.training.user_code import digest_module, load_function
from mimic_cxr_vqa.cxr_findings import score_findings
from mimic_cxr_vqa.labeling.answer_polarity import UNDECIDED, answer_polarity
from mimic_cxr_vqa.schema import HEART

Values = Sequence[float | None]
Reward = Callable[..., Values]
PUBLISHED = "published"


@dataclass(frozen=True)
class _Context:
    """What a factory may use to build its reward."""

    settings: RewardSettings
    training_references: Iterable[str] | None
    device: str | None


def make_reward(
    settings: RewardSettings | str, training_references: Iterable[str] | None = None, device: str | None = None
) -> Reward:
    """The reward that a recipe's section `reward` (or just its name) describes.

    Args:
        settings: `baseline`, for rescaling BERTScore, may be None, three numbers, a table's file, or "published" for
            the paper's encoder and layer.
        training_references: the training set's answers, for the document frequencies of `cider`.
        device: of BERTScore's encoder. None: the current GPU, or the CPU.

    Raises:
        ConfigError: an unknown reward, a wrong weight, an encoder that cannot be loaded, a baseline of another encoder,
            or missing training references.

    Examples:
        >>> reward = make_reward("rouge_l")
        >>> reward(["no effusion"], answer=["no effusion"])
        [1.0]
    """
    settings = RewardSettings(name=settings) if isinstance(settings, str) else settings
    weights = parse_reward_name(settings.name)
    context = _Context(settings, training_references, device)
    parts = {
        name: _FACTORIES[name](context) if name in _FACTORIES else REWARDS.get(name) or _user_reward(name)
        for name in weights
    }

    def reward(completions: Sequence[str], *, answer: Sequence[str], **columns: Sequence) -> Values:
        refuse_missing_columns(settings.name, columns)
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
    """Weights by reward: "bert_score:0.7+mine.py:short" -> {"bert_score": 0.7, "mine.py:short": 1.0}.

    Raises:
        ConfigError: an unknown or repeated reward, or a weight that is not a number other than 0.
    """
    weights: dict[str, float] = {}
    known = [*_FACTORIES, *REWARDS]
    for part in name.split("+"):
        reward, _, weight = (piece.strip() for piece in part.rpartition(":"))
        if reward not in known and not _is_number(weight):
            reward, weight = part.strip(), ""
        if reward not in known and ":" not in reward:
            nearest = get_close_matches(reward, known, n=1)
            hint = f" (did you mean {nearest[0]!r}?)" if nearest else ""
            raise ConfigError(
                f"reward {reward!r} is unknown{hint}. Allowed: {', '.join(known)}, your own (FILE.py:FUNCTION), or "
                "a sum such as 'bert_score:0.7+rouge_l:0.3'"
            )
        if reward in weights:
            raise ConfigError(f"reward {name!r} names {reward!r} twice. Add up its weights")
        weights[reward] = float(weight if _is_number(weight) else "nan") if weight else 1.0
        if not weights[reward] or not math.isfinite(weights[reward]):
            raise ConfigError(f"reward {name!r}: the weight {weight!r} is not a number other than 0")
    return weights


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def digest_user_rewards(name: str) -> dict[str, str]:
    """Digest of the file of each user's own reward in the sum `name`."""
    return {
        reward: digest_module(reward) for reward in parse_reward_name(name) if reward not in (*_FACTORIES, *REWARDS)
    }


def weighted_sum(values: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    """Sum of weight x value, or None if any value is None, since a partial sum would be another reward.

    Examples:
        >>> weighted_sum({"rouge_l": 0.5, "finding": 1.0}, {"rouge_l": 0.5, "finding": 0.5})
        0.75
    """
    known = [(weight, value) for name, weight in weights.items() if (value := values[name]) is not None]
    return sum(weight * value for weight, value in known) if len(known) == len(weights) else None


def refuse_missing_columns(name: str, columns: Iterable[str]) -> None:
    """Raise an InputError if a reward of the sum `name` needs other columns than `columns`."""
    for reward in parse_reward_name(name):
        needed = sorted(COLUMNS.get(reward, ()))
        if not set(columns).issuperset(needed):
            raise InputError(
                f"reward {reward!r} needs the column{'s' * (len(needed) > 1)} {' and '.join(needed)}. finding, "
                "finding_accuracy and label need radiograph studies, and soft_accuracy needs report images."
            )


def check_rewards(values: Sequence[float | None], answers: Sequence[str], name: str) -> None:
    """Check the values of a reward function before anything is trained with them.

    Args:
        values: one per answer.
        answers: a name of each for messages, such as "the sampled answer to QA_ID".
        name: of the reward.

    Raises:
        InputError: a wrong number of values, or a value that is neither a finite number nor None.
    """
    if not isinstance(values, list) or len(values) != len(answers):
        found = f"{len(values)} values" if isinstance(values, list) else f"a {type(values).__name__}"
        raise InputError(
            f"reward {name!r} returned {found} for {len(answers)} answers. Expected a list with one value per answer."
        )
    for value, answer in zip(values, answers, strict=True):
        is_number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if value is not None and not is_number:
            raise InputError(
                f"reward {name!r} returned {value!r} for {answer}. Allowed are finite numbers, and None if an answer "
                "cannot be scored. No optimizer step used this value. Correct the reward, then run "
                "the same command again."
            )


def _user_reward(name: str) -> Reward:
    function = load_function(name)

    def reward(completions: Sequence[str], **columns: Sequence) -> Values:
        values = function(completions, **columns)
        check_rewards(values, columns.get("qa_id") or [f"answer {i}" for i in range(len(completions))], name)
        return values

    return reward


def _bert_score(context: _Context) -> Reward:
    settings = context.settings
    baseline: Any = settings.baseline
    if baseline == PUBLISHED:
        if (settings.encoder, settings.layer) != (PAPER_ENCODER, PAPER_LAYER):
            raise ConfigError(
                f"reward.baseline {PUBLISHED!r} belongs to {PAPER_ENCODER!r}, layer {PAPER_LAYER}. For "
                f"{settings.encoder!r}, layer {settings.layer}, use null (no rescaling), three numbers or a table"
            )
        baseline = PAPER_BASELINE
    scorer = BertScorer(settings.encoder, settings.layer, baseline, settings.batch_size, context.device, spaced)
    return lambda completions, answer, **columns: [triple and triple[2] for triple in scorer.score(completions, answer)]


def _cider(context: _Context) -> Reward:
    if context.training_references is None:
        raise ConfigError(
            "reward 'cider' needs the document frequencies of the training set. Pass its answers as training_references"
        )
    frequencies = DocumentFrequencies.build(track(context.training_references, "counting n-grams for CIDEr"), words)
    return lambda completions, answer, **columns: cider_scores(completions, answer, words, frequencies).samples["cider"]


def _rouge_l(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> Values:
    return rouge_scores(completions, answer, words).samples["rouge_l"]


def _bleu_4(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> Values:
    return bleu_scores(completions, answer, words).samples["bleu_4"]


def _finding(completions: Sequence[str], answer: Sequence[str], category: Sequence[str], **columns: Sequence) -> Values:
    return list(map(_agreement, completions, answer, category))


def _agreement(completion: str, reference: str, category: str) -> float:
    wanted = UNDECIDED if category == HEART else answer_polarity(reference, category)
    return 0.5 if wanted == UNDECIDED else float(answer_polarity(completion, category) == wanted)


def _cxr_findings(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> Values:
    return list(map(score_findings, completions, answer))


def _finding_accuracy(
    completions: Sequence[str], category: Sequence[str], label_value: Sequence[str], **columns: Sequence
) -> Values:
    return [
        float(answer_polarity(completion, name) == label) if name != HEART and label in SCORED_LABELS else None
        for completion, name, label in zip(completions, category, label_value, strict=True)
    ]


def _label(completions: Sequence[str], **columns: Sequence) -> Values:
    return [0.5 if value is None else value for value in _finding_accuracy(completions, **columns)]


def _soft_accuracy(
    completions: Sequence[str], answer: Sequence[str], answer_type: Sequence[str], **columns: Sequence
) -> Values:
    return [
        (0.0 if is_failed(text) else soft_accuracy(text, truth, kind)) if kind in ANSWER_TYPES else None
        for text, truth, kind in zip(completions, answer, answer_type, strict=True)
    ]


def _character_rouge_l(completions: Sequence[str], answer: Sequence[str], **columns: Sequence) -> Values:
    units = find_units("characters")
    return [rouge_l(units(text), [units(truth)], ROUGE_BETA) for text, truth in zip(completions, answer, strict=True)]


_FACTORIES: dict[str, Callable[[_Context], Reward]] = {"bert_score": _bert_score, "cider": _cider}
REWARDS: dict[str, Reward] = {
    "rouge_l": _rouge_l,
    "bleu_4": _bleu_4,
    "finding": _finding,
    "cxr_findings": _cxr_findings,
    "finding_accuracy": _finding_accuracy,
    "label": _label,
    "soft_accuracy": _soft_accuracy,
    "character_rouge_l": _character_rouge_l,
}
# Columns that a reward reads besides the reference.
COLUMNS = {
    "finding": {"category"},
    "finding_accuracy": {"category", "label_value"},
    "label": {"category", "label_value"},
    "soft_accuracy": {"task", "answer_type"},  # studies have answer_type too, with other values
}
