"""ROUGE-L as the Python package `rouge` computes it (1.0.1, `rouge-l`, `f`), written from its behaviour.

A text is split into sentences at "." and into words at white space. Repeated words count once. The words of the longest
common subsequences of all pairs of sentences are united. Precision and recall are their shares of the distinct words of
each text. F has 1e-8 in its denominator, so a text scores 0.999999995 against itself.
"""

from collections.abc import Sequence

EPSILON = 1e-8


def released_rouge_l(prediction: str, answer: str) -> float:
    """F of `prediction` against `answer`, 0 to 1. 0 for a text without sentences (the package raises)."""
    predicted, expected = _sentences(prediction), _sentences(answer)
    if not predicted or not expected:
        return 0.0
    union: set[str] = set()
    for sentence in expected:
        for other in predicted:
            union |= _common_words(sentence, other)
    precision = len(union) / len({word for sentence in predicted for word in sentence})
    recall = len(union) / len({word for sentence in expected for word in sentence})
    return 2.0 * ((precision * recall) / (precision + recall + EPSILON))


def _sentences(text: str) -> list[list[str]]:
    """Words of each sentence; white space alone is one empty word."""
    return [" ".join(sentence.split()).split(" ") for sentence in text.split(".") if sentence]


def _common_words(first: Sequence[str], second: Sequence[str]) -> set[str]:
    """The words of the longest common subsequence that steps back in `second` for ties."""
    lengths = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, word in enumerate(first, start=1):
        for j, other in enumerate(second, start=1):
            longer = max(lengths[i - 1][j], lengths[i][j - 1])
            lengths[i][j] = lengths[i - 1][j - 1] + 1 if word == other else longer
    i, j, common = len(first), len(second), set()
    while i and j:
        if first[i - 1] == second[j - 1]:
            common.add(first[i - 1])
            i, j = i - 1, j - 1
        elif lengths[i - 1][j] > lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return common
