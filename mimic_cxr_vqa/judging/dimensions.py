"""The four dimensions that answers are rated on, with their categories (paper, Section 4 and Table 3).

Rating sheets and judge prompts use the same texts (`dimensions.tsv`, worst category first). The names and categories
are the paper's, the texts are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from medvqa_core.metrics.ratings import KNOWN_ORDERS

Verdict = dict[str, str]  # dimension -> category


@dataclass(frozen=True)
class Dimension:
    """A dimension.

    Attributes:
        title: its name in Table 3.
        asks: the question that a rater answers.
        meanings: category -> when it applies, worst category first.
    """

    name: str
    title: str
    asks: str
    meanings: Mapping[str, str]

    @property
    def categories(self) -> tuple[str, ...]:
        """Worst first."""
        return tuple(self.meanings)

    @property
    def best(self) -> str:
        return self.categories[-1]


def _read() -> dict[str, Dimension]:
    lines = Path(__file__).with_name("dimensions.tsv").read_text(encoding="utf-8").splitlines()[1:]
    groups = groupby((line.split("\t") for line in lines), key=lambda row: tuple(row[:3]))
    found = (Dimension(name, title, asks, {row[3]: row[4] for row in rows}) for (name, title, asks), rows in groups)
    return {dimension.name: dimension for dimension in found}


DIMENSIONS = _read()
assert all(dimension.categories == KNOWN_ORDERS[name] for name, dimension in DIMENSIONS.items())
BEST: Verdict = {name: dimension.best for name, dimension in DIMENSIONS.items()}


def is_flawless(verdict: Mapping[str, str]) -> bool:
    """Whether a verdict has the best category on all four dimensions."""
    return all(verdict[name] == best for name, best in BEST.items())


def find_problems(verdict: Mapping[str, Any]) -> list[str]:
    """The missing and unknown dimensions and the invalid categories of a verdict."""
    problems = [f"{name} is missing" for name in DIMENSIONS if name not in verdict]
    problems += [f"{name!r} is not a dimension" for name in verdict if name not in DIMENSIONS]
    for name, category in verdict.items():
        if name in DIMENSIONS and category not in DIMENSIONS[name].categories:
            problems.append(f"{name} is not one of {', '.join(DIMENSIONS[name].categories)}")
    return problems
