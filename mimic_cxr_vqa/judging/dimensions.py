"""The four dimensions that answers are rated on, with their categories (paper, Section 4 and Table 3).

Rating sheets and judge prompts use the same texts. The names and categories are the paper's, the texts are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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


DIMENSIONS = {
    dimension.name: dimension
    for dimension in (
        Dimension(
            "correctness",
            "Correctness",
            "Is what the answer says about the question right?",
            {
                "Incorrect": "it affirms what the findings deny or do not hold, denies what they affirm, or gives "
                "a wrong side, place, size or number",
                "Correct": "nothing in it is wrong; what the findings are silent about counts as absent",
            },
        ),
        Dimension(
            "consistency",
            "Consistency with Report",
            "Does everything in the answer agree with the findings?",
            {
                "Inconsistent": "a statement contradicts the findings, or has no ground in them",
                "Partially Consistent": "it agrees in the main, but a detail or its certainty differs, or it "
                "speaks of a change that one image cannot show",
                "Fully Consistent": "every statement follows from the findings, as certain or doubtful as there",
            },
        ),
        Dimension(
            "completeness",
            "Answer Completeness",
            "Does the answer give all that the findings hold about the question?",
            {
                "Incomplete": "the question is not answered, or the main finding is left out",
                "Partially Complete": "the question is answered, but a detail that bears on it (side, site, size, "
                "number, severity) is left out",
                "Complete": "the question is answered with every detail that bears on it",
            },
        ),
        Dimension(
            "relevance",
            "Clinical Relevance",
            "What is the answer worth to a clinician who asks this question?",
            {
                "Incorrect and Misleading": "it is wrong in a way that could mislead",
                "Non-essential but Correct": "it is right, but says something else than what was asked, or nothing "
                "of use",
                "Essential": "it is right and is what the question asks for",
            },
        ),
    )
}
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
