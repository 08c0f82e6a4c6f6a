"""BLEU-1 to BLEU-4 with the brevity penalty on the closest reference length, per corpus and per sample.

Papineni et al. 2002, with the two constants of the COCO caption tools: TINY keeps a product of zero matches from being
zero, SMALL keeps a division by zero n-grams from failing. Equal to pycocoevalcap's `Bleu(4)` on the same tokens.
"""

import math
from collections import Counter
from collections.abc import Sequence

from medvqa_core.metrics.ptb_tokenizer import tokenize
from medvqa_core.metrics.scores import Scores, Tokenizer, check_pairs

ORDER = 4  # longest n-gram
TINY = 1e-15
SMALL = 1e-9


def split_words(text: str, tokenizer: Tokenizer) -> list[str]:
    """Words of `text`, cut at every white space within a token too: the tools count the token `1 1/2` as two words."""
    return " ".join(tokenizer(text)).split()


def count_ngrams(words: Sequence[str], order: int = ORDER) -> list[Counter]:
    """For n = 1..order how often each n-gram (a tuple of words) occurs."""
    return [Counter(zip(*(words[i:] for i in range(n)), strict=False)) for n in range(1, order + 1)]


def bleu_scores(
    predictions: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tokenizer: Tokenizer = tokenize,
) -> Scores:
    """`bleu_1` … `bleu_4`.

    Args:
        references: one text, or a list of texts, for each prediction.
        tokenizer: text -> words; `str.split` for texts that are tokenised already.

    Raises:
        InputError: see `check_pairs`.

    Examples:
        >>> scores = bleu_scores(["no effusion"], ["no effusion is seen"])
        >>> round(scores.corpus["bleu_1"], 4)
        0.3679
    """
    samples: list[list[float]] = [[] for _ in range(ORDER)]
    matched_sum, guessed_sum = [0] * ORDER, [0] * ORDER
    length_sum = closest_sum = 0
    for prediction, texts in zip(predictions, check_pairs(predictions, references), strict=True):
        matched, guessed, length, closest = count_pair(prediction, texts, tokenizer)
        for n, value in enumerate(combine_counts(matched, guessed, length, closest)):
            samples[n].append(value)
        for n in range(ORDER):
            matched_sum[n] += matched[n]
            guessed_sum[n] += guessed[n]
        length_sum += length
        closest_sum += closest
    corpus = combine_counts(matched_sum, guessed_sum, length_sum, closest_sum)
    names = [f"bleu_{n}" for n in range(1, ORDER + 1)]
    return Scores(dict(zip(names, corpus, strict=True)), dict(zip(names, samples, strict=True)))


def count_pair(
    prediction: str, references: Sequence[str], tokenizer: Tokenizer = tokenize
) -> tuple[list[int], list[int], int, int]:
    """What BLEU sums: matched and guessed n-grams of each length, words, words of the closest reference."""
    words = split_words(prediction, tokenizer)
    reference_words = [split_words(text, tokenizer) for text in references]
    guessed = [max(0, len(words) - n) for n in range(ORDER)]
    closest = min((abs(len(r) - len(words)), len(r)) for r in reference_words)[1]
    return _count_matches(words, reference_words), guessed, len(words), closest


def _count_matches(words: list[str], references: list[list[str]]) -> list[int]:
    """Matches of each length, an n-gram counted at most as often as in the reference that has most of it."""
    counted = [count_ngrams(reference) for reference in references]
    matched = []
    for n, ngrams in enumerate(count_ngrams(words)):
        matched.append(sum(min(count, max(r[n][ngram] for r in counted)) for ngram, count in ngrams.items()))
    return matched


def combine_counts(matched: Sequence[float], guessed: Sequence[float], length: float, closest: float) -> list[float]:
    """BLEU-1..4 from counts: geometric means of the precisions times the brevity penalty."""
    values, product = [], 1.0
    for n in range(ORDER):
        product *= (matched[n] + TINY) / (guessed[n] + SMALL)
        values.append(product ** (1 / (n + 1)))
    ratio = (length + TINY) / (closest + SMALL)
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    return [value * penalty for value in values]
