"""Synonyms of keys and of the words for result and range (paper, Section 4.3.1).

The list is `terms.yaml`, which users' files extend. Questions can ask for a key by any of its names.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.errors import InputError
from rjua_meddqa.data_files import read_mapping, read_words

BUNDLED = Path(__file__).with_name("terms.yaml")
KEYS, RESULTS, RANGES = KINDS = ("keys", "results", "ranges")


def fold(word: str) -> str:
    """Normalise `word` for comparison: NFKC, without white space and final colon, in lower case."""
    return "".join(unicodedata.normalize("NFKC", word).split()).rstrip(":").casefold()


@dataclass(frozen=True)
class Terms:
    """Canonical terms of each kind with their synonyms, in the order of the file.

    Attributes:
        groups: {kind: {canonical term: synonyms}}.
        index: {kind: {folded word: canonical term}}.
    """

    groups: Mapping[str, Mapping[str, tuple[str, ...]]]
    index: Mapping[str, Mapping[str, str]]

    def canonical(self, kind: str, word: str) -> str:
        """The canonical term of `word`, or the stripped `word` itself if it is unknown."""
        return self.index[kind].get(fold(word), word.strip())

    def knows(self, kind: str, word: str) -> bool:
        return fold(word) in self.index[kind]

    def synonyms(self, kind: str, word: str) -> tuple[str, ...]:
        """`word` and its synonyms."""
        term = self.canonical(kind, word)
        others = (term, *self.groups[kind].get(term, ()))
        return (word, *(other for other in others if fold(other) != fold(word)))


def load_terms(*user_files: Path) -> Terms:
    """Load the bundled terms and users' files.

    Raises:
        InputError: a file has another layout than `terms.yaml`, or a word belongs to two terms.
    """
    groups: dict[str, dict[str, tuple[str, ...]]] = {kind: {} for kind in KINDS}
    index: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    for path in (BUNDLED, *user_files):
        for kind, entries in read_mapping(path).items():
            if kind not in KINDS:
                raise InputError(f"{path}: section {kind!r} is unknown. Allowed: {', '.join(KINDS)}.")
            if not isinstance(entries, dict):
                raise InputError(f"{path}: section {kind!r} is not a mapping from terms to synonyms. See {BUNDLED}.")
            for term, synonyms in entries.items():
                _add(groups[kind], index[kind], term, synonyms, f"{path}, {kind}")
    return Terms(groups, index)


def _add(groups: dict[str, tuple[str, ...]], index: dict[str, str], term: str, synonyms: object, where: str) -> None:
    """Add a term and its synonyms. Raises InputError if one of them belongs to another term."""
    if not isinstance(term, str) or not fold(term):
        raise InputError(f"{where}: term {term!r} is not a text. Put it in quotes.")
    words = read_words(synonyms if synonyms is not None else [], f"{where}, term {term!r}")
    for word in (term, *words):
        owner = index.get(fold(word))
        if owner is not None and owner != term:
            raise InputError(
                f"{where}: {word!r} of term {term!r} already belongs to {owner!r}. Remove {word!r} from {term!r}, or "
                f"list the synonyms under {owner!r}."
            )
    known = {fold(word) for word in (term, *groups.get(term, ()))}
    groups[term] = groups.get(term, ()) + tuple(w for w in dict.fromkeys(words) if fold(w) not in known)
    index.update({fold(word): term for word in (term, *words)})
