"""ROUGE-L: F of the longest common subsequence of words (Lin 2004), beta 1.2 as in the COCO caption tools.

With several references precision and recall are each the best over the references. Equal to pycocoevalcap's `Rouge` on
the same tokens, including its rule that a text without words counts as one empty word.
"""

from collections.abc import Sequence

from medvqa_core.metrics.ptb_tokenizer import tokenize
from medvqa_core.metrics.scores import Scores, Tokenizer, check_pairs, mean

BETA = 1.2


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence, by Hyyrö's bit vectors: one integer operation per word of `second`."""
    positions: dict[str, int] = {}
    for index, word in enumerate(first):
        positions[word] = positions.get(word, 0) | 1 << index
    everything = (1 << len(first)) - 1
    unmatched = everything
    for word in second:
        hits = unmatched & positions.get(word, 0)
        unmatched = (unmatched + hits | unmatched - hits) & everything
    return len(first) - unmatched.bit_count()


def rouge_l(words: Sequence[str], references: Sequence[Sequence[str]], beta: float = BETA) -> float:
    """ROUGE-L of one tokenised prediction against one or more tokenised references."""
    words = words or [""]
    precision = recall = 0.0
    for reference in references:
        common = longest_common_subsequence(words, reference or [""])
        precision = max(precision, common / len(words))
        recall = max(recall, common / (len(reference) or 1))
    if not precision or not recall:
        return 0.0
    return (1 + beta**2) * precision * recall / (recall + beta**2 * precision)


def rouge_scores(
    predictions: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tokenizer: Tokenizer = tokenize,
    beta: float = BETA,
) -> Scores:
    """`rouge_l`; the corpus value is the mean over samples.

    Args:
        references: one text, or a list of texts, for each prediction.
        tokenizer: text -> words; see chinese.py for characters and Chinese words.
        beta: weight of recall; 1 gives the plain F1.

    Raises:
        InputError: see `check_pairs`.

    Examples:
        >>> round(rouge_scores(["no effusion"], ["no effusion is seen"], beta=1).corpus["rouge_l"], 4)
        0.6667
    """
    samples = [
        rouge_l(tokenizer(prediction), [tokenizer(text) for text in texts], beta)
        for prediction, texts in zip(predictions, check_pairs(predictions, references), strict=True)
    ]
    return Scores({"rouge_l": mean(samples)}, {"rouge_l": samples})
