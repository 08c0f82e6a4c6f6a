"""Verbatim phrases: which runs of words of one collection of texts stand in another, without keeping any text.

Words are runs of letters and digits, lower-cased. Each is a 64-bit number; a phrase of n words is one polynomial hash
of them, so that a million reports are an array of numbers that is compared by sorting. Two phrases agree by chance
about once in 10^19 comparisons.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

PHRASE = 8  # words: shorter phrases are everybody's
_WORD = re.compile(r"[^\W_]+")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # any odd number


@cache
def _number(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


class Phrases:
    """The words of some texts.

    Attributes:
        words: (words,) uint64, text after text.
        text: (words,) int64: the number of the text that each word is of.
        left: (words,) int64: how many words its text has from there on.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        rows = [[_number(word) for word in _WORD.findall(text.lower())] for text in texts]
        lengths = np.array([len(row) for row in rows], np.int64)
        self.words = np.array([number for row in rows for number in row], np.uint64)
        self.text = np.repeat(np.arange(len(rows)), lengths)
        self.left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(self.words))

    def starts(self, length: int = PHRASE) -> np.ndarray:
        """Places where a phrase of `length` words begins."""
        return np.flatnonzero(self.left >= length)

    def hashes(self, starts: np.ndarray, length: int = PHRASE) -> np.ndarray:
        """Of the phrases of `length` words that begin at `starts`."""
        found = np.zeros(len(starts), np.uint64)
        for offset in range(length):
            found = found * _FACTOR + self.words[starts + offset]
        return found

    def distinct(self) -> np.ndarray:
        """The hashes of all phrases of PHRASE words, each once, sorted."""
        return np.unique(self.hashes(self.starts()))


def runs(texts: Phrases, source: Phrases) -> Iterator[tuple[int, np.ndarray]]:
    """For each length from PHRASE on, while there are any: the numbers of the texts with a run of it in `source`.

    A run of n + 1 words begins with a run of n, on both sides: each round looks at what the last one left.
    """
    length = PHRASE
    mine, theirs = texts.starts(length), source.starts(length)
    my_hashes, their_hashes = texts.hashes(mine, length), source.hashes(theirs, length)
    while True:
        kept = np.isin(my_hashes, their_hashes)
        mine, my_hashes = mine[kept], my_hashes[kept]
        if not len(mine):
            return
        yield length, np.unique(texts.text[mine])
        kept = np.isin(their_hashes, my_hashes)
        theirs, their_hashes = theirs[kept], their_hashes[kept]
        mine, my_hashes = _longer(texts, mine, my_hashes, length)
        theirs, their_hashes = _longer(source, theirs, their_hashes, length)
        length += 1


def _longer(phrases: Phrases, starts: np.ndarray, hashes: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The phrases with a word more, where their text has one."""
    kept = phrases.left[starts] > length
    starts = starts[kept]
    return starts, hashes[kept] * _FACTOR + phrases.words[starts + length]


def longest_runs(texts: Phrases, source: Phrases, number: int) -> np.ndarray:
    """(number,) words in the longest run of each of `number` texts that stands in `source`; 0 below PHRASE."""
    longest = np.zeros(number, np.int64)
    for length, found in runs(texts, source):
        longest[found] = length
    return longest
