"""The context base: titled medical knowledge, and the titles nearest to a given one (paper, Sections 3.1 and 4.3.2).

Neighbours have the highest cosine of title vectors. The vectors come from a text encoder (the paper took
bert-base-chinese), or from character n-grams weighted by TF-IDF, without a model.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from medvqa_core.errors import InputError
from rjua_meddqa.released import Context
from rjua_meddqa.schema import ADVICE, ANSWER_SEPARATOR, CONTEXT_COLUMNS, DISEASE, STATUS

NGRAMS = "ngrams"  # the encoder without a model

# Kinds of contexts as released, their names in the paper's Table 3, and the task with such options.
KINDS = {
    "检查-疾病": ("Examination-Disease", DISEASE),
    "检查-状态": ("Examination-Status", STATUS),
    "疾病-状态": ("Disease-Status", STATUS),
    "疾病-建议": ("Disease-Advice", ADVICE),
    "疾病-检查": ("Disease-Examination", ADVICE),
    "疾病-治疗": ("Disease-Treatment", ADVICE),
}


class TitleEncoder(Protocol):
    """Turns titles into vectors. `name` goes into the manifest."""

    name: str

    def encode(self, titles: Sequence[str]) -> np.ndarray:
        """Return a float array (titles, dimensions)."""
        ...


class NgramEncoder:
    """Counts of one to three characters, weighted by TF-IDF over the given titles."""

    name = NGRAMS

    def encode(self, titles: Sequence[str]) -> np.ndarray:
        counts = [Counter(title[i : i + n] for n in (1, 2, 3) for i in range(len(title) - n + 1)) for title in titles]
        columns = {gram: column for column, gram in enumerate(sorted(set().union(*counts)))}
        vectors = np.zeros((len(titles), len(columns)))
        for row, grams in enumerate(counts):
            for gram, count in grams.items():
                vectors[row, columns[gram]] = count
        found_in = np.maximum((vectors > 0).sum(axis=0), 1)
        return vectors * (np.log((1 + len(titles)) / (1 + found_in)) + 1)  # smoothed: no weight is zero


class ModelEncoder:
    """Mean token vectors of a text encoder: a folder, a Hub id or "minilm" (`medvqa_core.text_encoder`)."""

    def __init__(self, name: str) -> None:
        from medvqa_core.text_encoder import TextEncoder

        self.name = name
        self._encoder = TextEncoder(name)

    def encode(self, titles: Sequence[str]) -> np.ndarray:
        return self._encoder.sentence_vectors(titles).numpy()


def load_encoder(name: str) -> TitleEncoder:
    """Load the encoder "ngrams" or a model. Raises ConfigError if the model cannot be loaded."""
    return NgramEncoder() if name == NGRAMS else ModelEncoder(name)


class ContextBase:
    """Contexts whose titles can be options, by kind.

    Args:
        rows: (place, cells) of the context CSV, from `read_cells`. An optional column `option` holds the text of an
            option if that is not the title.

    Attributes:
        contexts: those with a title and a description, in the order of the file.
        skipped: rows left out, by reason (`no_title`, `no_description`).

    Raises:
        InputError: an idx or (kind, title) occurs twice, a kind is unknown, or a title or an option contains ";".
    """

    def __init__(self, rows: Iterable[tuple[str, Mapping[str, str]]], encoder: TitleEncoder) -> None:
        self.contexts: list[Context] = []
        self.skipped: Counter[str] = Counter()
        self._options: dict[str, str] = {}  # idx -> option
        self._by_title: dict[tuple[str, str], Context] = {}
        for where, cells in rows:
            context, option = _read_row(cells, where)
            if not context.title or not context.description:
                self.skipped["no_title" if not context.title else "no_description"] += 1
                continue
            same = self._by_title.setdefault((context.context_type, context.title), context)
            if same is not context:
                raise InputError(
                    f"{where}: contexts {same.idx} and {context.idx} of kind {context.context_type!r} are both called "
                    f"{context.title!r}. Rename one of them."
                )
            if context.idx in self._options:
                raise InputError(f"{where}: idx {context.idx!r} occurs twice. Number the contexts again.")
            self._options[context.idx] = option or context.title
            self.contexts.append(context)
        self._encoder = encoder
        self._vectors: dict[str, tuple[list[Context], np.ndarray]] = {}  # kind -> contexts and their cosines

    def find(self, title: str, task: str) -> Context | None:
        """The context with this title among the kinds of `task`, in the order of KINDS."""
        found = (self._by_title.get((kind, title.strip())) for kind, (_, of) in KINDS.items() if of == task)
        return next((context for context in found if context is not None), None)

    def option(self, context: Context) -> str:
        """The text of `context` as an option."""
        return self._options[context.idx]

    def has_option(self, context: Context) -> bool:
        """Whether the text of `context` as an option differs from its title."""
        return self._options[context.idx] != context.title

    def nearest(self, contexts: Sequence[Context]) -> list[Context]:
        """All other contexts of the first one's kind, those with titles nearest to any of `contexts` first.

        Ties are in the order of the file.
        """
        members, cosines = self._cosines(contexts[0].context_type)
        places = [place for place, member in enumerate(members) if member in contexts]
        best = cosines[places].max(axis=0)
        ranked = sorted(range(len(members)), key=lambda place: (-round(float(best[place]), 9), place))
        return [members[place] for place in ranked if place not in places]

    def _cosines(self, kind: str) -> tuple[list[Context], np.ndarray]:
        if kind not in self._vectors:
            members = [context for context in self.contexts if context.context_type == kind]
            vectors = np.asarray(self._encoder.encode([context.title for context in members]), dtype=np.float64)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            unit = vectors / np.where(lengths > 0, lengths, 1)
            self._vectors[kind] = members, unit @ unit.T
        return self._vectors[kind]


def _read_row(cells: Mapping[str, str], where: str) -> tuple[Context, str]:
    """A context and its option, "" if the file has none."""
    context = Context(**{column: cells[column].strip() for column in CONTEXT_COLUMNS})
    option = cells.get("option", "").strip()
    if context.context_type not in KINDS:
        raise InputError(f"{where}: context_type {context.context_type!r} is unknown. Allowed: {', '.join(KINDS)}.")
    for name, text in (("idx", context.idx), ("title", context.title), ("option", option)):
        if ANSWER_SEPARATOR in text:
            raise InputError(f"{where}: {name} {text!r} contains ';', which separates options and ids. Use ； or ，.")
    if not context.idx:
        raise InputError(f"{where}: idx is empty. Number the contexts.")
    return context, option
