"""Find phrases that occur verbatim in two collections of texts, by hashes.

Words are lower-cased runs of letters and digits, as 64-bit numbers. A phrase is a polynomial hash of its words. Two
different phrases have the same hash about once in 10^19 comparisons.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

PHRASE = 8  # words
_WORD = re.compile(r"[^\W_]+")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # any odd number


@cache
def _number(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


class Phrases:
    """The words of some texts.

    Attributes:
        words: (words,) uint64, text after text.
        text: (words,) int64, the index of each word's text.
        left: (words,) int64, the number of words from there to the end of the text.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        rows = [[_number(word) for word in _WORD.findall(text.lower())] for text in texts]
        lengths = np.array([len(row) for row in rows], np.int64)
        self.words = np.array([number for row in rows for number in row], np.uint64)
        self.text = np.repeat(np.arange(len(rows)), lengths)
        self.left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(self.words))

    def starts(self, length: int = PHRASE) -> np.ndarray:
        """Positions where a phrase of `length` words begins."""
        return np.flatnonzero(self.left >= length)

    def hashes(self, starts: np.ndarray, length: int = PHRASE) -> np.ndarray:
        """Hashes of the phrases of `length` words that begin at `starts`."""
        found = np.zeros(len(starts), np.uint64)
        for offset in range(length):
            found = found * _FACTOR + self.words[starts + offset]
        return found

    def distinct(self) -> np.ndarray:
        """The sorted distinct hashes of all phrases of PHRASE words."""
        return np.unique(self.hashes(self.starts()))


def runs(texts: Phrases, source: Phrases) -> Iterator[tuple[int, np.ndarray]]:
    """For each length from PHRASE on, the indices of the texts with a run of that length in `source`.

    A run of n + 1 words begins with a run of n words, so that each round only extends the runs of the previous one.
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
    """Extend phrases by one word where their text has one."""
    kept = phrases.left[starts] > length
    starts = starts[kept]
    return starts, hashes[kept] * _FACTOR + phrases.words[starts + length]


def longest_runs(texts: Phrases, source: Phrases, number: int) -> np.ndarray:
    """(number,) words in the longest run of each text that occurs in `source`, or 0 below PHRASE."""
    longest = np.zeros(number, np.int64)
    for length, found in runs(texts, source):
        longest[found] = length
    return longest
