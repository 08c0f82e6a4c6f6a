"""CIDEr as the COCO caption tools print it: CIDEr-D (Vedantam et al. 2015, Section 5) with sigma 6 and n-grams up to 4.

Per n: the cosine of TF-IDF vectors, the prediction's counts clipped at the reference's, times a Gaussian penalty on the
difference in length; averaged over n and references, times 10. Lengths are counted in bigrams, as the tools do.
Equal to pycocoevalcap's `Cider` on the same tokens.

Document frequencies are counted in the scored references, as the tools do, or in training references
(`DocumentFrequencies`), as rewards for a few answers need.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.errors import InputError
from medvqa_core.json_files import read_json, write_json
from medvqa_core.metrics.bleu import ORDER, count_ngrams, split_words
from medvqa_core.metrics.ptb_tokenizer import tokenize
from medvqa_core.metrics.scores import Scores, Tokenizer, check_pairs, mean

SIGMA = 6.0
SCALE = 10.0
_KIND = "document frequencies"


@dataclass(frozen=True)
class DocumentFrequencies:
    """The number of documents with each n-gram. A document is all references of one question."""

    counts: Mapping[tuple[str, ...], int]
    documents: int

    @classmethod
    def build(
        cls, references: Iterable[str] | Iterable[Sequence[str]], tokenizer: Tokenizer = tokenize
    ) -> "DocumentFrequencies":
        """Count `references` (a text, or a list of texts, per document; any iterable). Raises InputError for none."""
        counts: Counter = Counter()
        documents = 0
        for texts in references:
            documents += 1
            ngrams: set[tuple[str, ...]] = set()
            for text in [texts] if isinstance(texts, str) else texts:
                for counted in count_ngrams(split_words(text, tokenizer)):
                    ngrams.update(counted)
            counts.update(ngrams)
        if not documents:
            raise InputError("no references to count document frequencies of. Give at least one")
        return cls(counts, documents)

    def save(self, path: Path | str, private: bool = False) -> None:
        """Write as JSON. The n-grams are pieces of the references: `private` gives mode 0600 (credentialed data)."""
        counts = {" ".join(ngram): count for ngram, count in self.counts.items()}
        content = {"kind": _KIND, "documents": self.documents, "counts": counts}
        write_json(Path(path), content, private=private, indent=None, end="")

    @classmethod
    def load(cls, path: Path | str) -> "DocumentFrequencies":
        """Read a file of `save`. Raises InputError if it is missing or invalid."""
        content = read_json(Path(path), "make it with DocumentFrequencies.build(…).save(…)")
        if not isinstance(content, dict) or content.get("kind") != _KIND:
            raise InputError(
                f"{path}: not a file of document frequencies. Make it with DocumentFrequencies.build(…).save(…)"
            )
        return cls({tuple(key.split(" ")): count for key, count in content["counts"].items()}, content["documents"])


@dataclass(frozen=True)
class _Vector:
    weights: list[dict[tuple[str, ...], float]]  # TF-IDF by n-gram, one dict for each n
    norms: list[float]
    length: int  # number of bigrams


def cider_scores(
    predictions: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tokenizer: Tokenizer = tokenize,
    frequencies: DocumentFrequencies | None = None,
) -> Scores:
    """`cider`; the corpus value is the mean over samples.

    With frequencies from a single document every weight is log(1) = 0 and so is the score: pass `frequencies`.

    Raises:
        InputError: see `check_pairs`.

    Examples:
        >>> scores = cider_scores(["no effusion", "clear lungs"], ["no effusion", "normal heart"])
        >>> [round(value, 4) for value in scores.samples["cider"]]
        [5.0, 0.0]
    """
    lists = check_pairs(predictions, references)
    words: dict[str, list[str]] = {}

    def words_of(text: str) -> list[str]:
        if text not in words:
            words[text] = split_words(text, tokenizer)
        return words[text]

    frequencies = frequencies or DocumentFrequencies.build(lists, words_of)
    vectors: dict[str, _Vector] = {}

    def vector_of(text: str) -> _Vector:
        if text not in vectors:
            vectors[text] = _weigh(words_of(text), frequencies)
        return vectors[text]

    samples = []
    for prediction, texts in zip(predictions, lists, strict=True):
        vector = vector_of(prediction)
        samples.append(SCALE * sum(_similarity(vector, vector_of(text)) for text in texts) / len(texts))
    return Scores({"cider": mean(samples)}, {"cider": samples})


def _weigh(words: list[str], frequencies: DocumentFrequencies) -> _Vector:
    log_documents = math.log(frequencies.documents)
    weights = []
    for counted in count_ngrams(words):
        weights.append(
            {
                ngram: count * (log_documents - math.log(max(1, frequencies.counts.get(ngram, 0))))
                for ngram, count in counted.items()
            }
        )
    norms = [math.sqrt(sum(weight**2 for weight in by_ngram.values())) for by_ngram in weights]
    return _Vector(weights, norms, max(0, len(words) - 1))


def _similarity(prediction: _Vector, reference: _Vector) -> float:
    """Mean over n of clipped cosine times length penalty."""
    total = 0.0
    for n in range(ORDER):
        scale = prediction.norms[n] * reference.norms[n]
        theirs = reference.weights[n]
        product = sum(
            min(w, theirs[ngram]) * theirs[ngram] for ngram, w in prediction.weights[n].items() if ngram in theirs
        )
        total += product / scale if scale else product
    difference = prediction.length - reference.length
    return total / ORDER * math.exp(-(difference**2) / (2 * SIGMA**2))
