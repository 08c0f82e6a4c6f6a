"""One name for what hospitals call by many (paper, Section 4.3.1): canonical keys, result and range words.

The list is `terms.yaml`, which a user's file extends. It normalises annotations (every key by its canonical name) and
varies questions (a key asked for by another name).
"""

import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from medvqa_core.errors import InputError
from rjua_meddqa.data_files import read_mapping, read_words
from rjua_meddqa.schema import Annotation

BUNDLED = Path(__file__).with_name("terms.yaml")
KEYS, RESULTS, RANGES = KINDS = ("keys", "results", "ranges")


def fold(word: str) -> str:
    """`word` as it is compared: full-width forms as ASCII, no white space, no colon at the end, lower case."""
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
        """The canonical term that `word` stands for; `word` itself, without white space around it, if unknown."""
        return self.index[kind].get(fold(word), word.strip())

    def knows(self, kind: str, word: str) -> bool:
        return fold(word) in self.index[kind]

    def synonyms(self, kind: str, word: str) -> tuple[str, ...]:
        """Every way of writing the term of `word`, `word` first; only `word` where the term is unknown."""
        term = self.canonical(kind, word)
        others = (term, *self.groups[kind].get(term, ()))
        return (word, *(other for other in others if fold(other) != fold(word)))


def load_terms(*user_files: Path) -> Terms:
    """The bundled terms, extended by the user's files in turn.

    Raises:
        InputError: a file is not in the layout of `terms.yaml`, or a word stands for two terms.
    """
    groups: dict[str, dict[str, tuple[str, ...]]] = {kind: {} for kind in KINDS}
    index: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    for path in (BUNDLED, *user_files):
        for kind, entries in read_mapping(path).items():
            if kind not in KINDS:
                raise InputError(f"{path}: section {kind!r} is unknown; allowed: {', '.join(KINDS)}")
            if not isinstance(entries, dict):
                raise InputError(f"{path}: section {kind!r} is no mapping from a term to its synonyms; see {BUNDLED}")
            for term, synonyms in entries.items():
                _add(groups[kind], index[kind], term, synonyms, f"{path}, {kind}")
    return Terms(groups, index)


def _add(groups: dict[str, tuple[str, ...]], index: dict[str, str], term: str, synonyms: object, where: str) -> None:
    """Enter one line of a file, refusing a word that is taken by another term."""
    if not isinstance(term, str) or not fold(term):
        raise InputError(f"{where}: term {term!r} is no text; write it in quotes")
    words = read_words(synonyms if synonyms is not None else [], f"{where}, term {term!r}")
    for word in (term, *words):
        owner = index.get(fold(word))
        if owner is not None and owner != term:
            raise InputError(
                f"{where}: {word!r} is given for {term!r} and stands for {owner!r} already; a word has one term: "
                f"remove it there, or write its synonyms under {owner!r}"
            )
    known = {fold(word) for word in (term, *groups.get(term, ()))}
    groups[term] = groups.get(term, ()) + tuple(w for w in dict.fromkeys(words) if fold(w) not in known)
    index.update({fold(word): term for word in (term, *words)})


def normalise(annotation: Annotation, terms: Terms) -> Annotation:
    """`annotation` with every key by its canonical name.

    Keys of one report that share a canonical name keep their own: renamed, they could not be told apart.
    """
    written = {key for key, _ in annotation.key_values}
    names = {key: terms.canonical(KEYS, key) for key in written}
    uses = Counter(names.values())
    keys = {key: name if uses[name] == 1 else key for key, name in names.items()}
    return replace(annotation, key_values=tuple((keys[key], value) for key, value in annotation.key_values))
