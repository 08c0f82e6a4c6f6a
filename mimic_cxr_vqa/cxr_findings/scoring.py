"""Compare the findings of two chest X-ray texts and score them (see README.md for the weights).

The errors are those of the ReXVal and RadCliQ taxonomy (Yu et al. 2023): a false finding, an omitted finding, a wrong
location, a wrong severity, and a comparison that the other text lacks. The first two and a wrong side are clinically
significant and count in full, the others by a quarter or a half. A missed or invented pneumothorax counts twice,
because it needs treatment at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from medvqa_core.metrics.scores import Scores, check_pairs
from mimic_cxr_vqa.labeling.fields import Fields, find_levels
from mimic_cxr_vqa.labeling.mentions import DEVICES, NEGATIVE, OTHER_ABNORMALITY, POSITIVE, UNCERTAIN, Analysis, analyse
from mimic_cxr_vqa.schema import HEART

SIDE, SEVERITY, CERTAINTY, COMPARISON = 1.0, 0.5, 0.25, 0.25
SERIOUS = {"Pneumothorax": 2.0}
MINOR = {OTHER_ABNORMALITY: 0.5, DEVICES: 0.5}
# Reports use these words for the same shadow, so an unmatched one is half an error if the other text has another.
_RELATED = (
    frozenset({"Atelectasis", "Consolidation", "Lung Opacity", "Pneumonia"}),
    frozenset({"Cardiomegaly", "Enlarged Cardiomediastinum"}),
    frozenset({"Pleural Effusion", "Pleural Other"}),
)
_COMPARED = ("new", "larger", "smaller")


@dataclass(frozen=True)
class Finding:
    """A finding that a text affirms or doubts, or that it denies."""

    polarity: str
    fields: Fields = Fields()
    statuses: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Errors:
    """The weighted matches and errors of a pair, and its score."""

    matched: float = 0.0
    false: float = 0.0
    omitted: float = 0.0
    side: float = 0.0
    severity: float = 0.0
    certainty: float = 0.0
    comparison: float = 0.0

    @property
    def score(self) -> float:
        """2 matched / (2 matched + errors), and 1 for two texts without findings."""
        details = self.side + self.severity + self.certainty + self.comparison
        total = 2 * self.matched + self.false + self.omitted + details
        return 2 * self.matched / total if total else 1.0

    def __add__(self, other: "Errors") -> "Errors":
        return Errors(*(one + two for one, two in zip(vars(self).values(), vars(other).values(), strict=True)))


def score_findings(prediction: str, reference: str) -> float:
    """The score of one pair, from 0 to 1.

    Examples:
        >>> score_findings("Small left effusion.", "Small left effusion.")
        1.0
        >>> round(score_findings("Small right effusion.", "Small left effusion."), 4)
        0.6667
    """
    return compare_findings(prediction, reference).score


def compare_findings(prediction: str, reference: str) -> Errors:
    """The matches and errors of one pair."""
    found, wanted = _read(prediction), _read(reference)
    names = dict.fromkeys((*found, *wanted))
    return reduce(Errors.__add__, (_compare(name, found, wanted) for name in names), Errors())


def cxr_findings_scores(predictions: Sequence[str], references: Sequence[str]) -> tuple[Scores, list[Errors | None]]:
    """The mean and the value of each pair, and its errors. Pairs with an empty reference are not scored.

    Examples:
        >>> scores, errors = cxr_findings_scores(["No effusion."], ["Small left effusion."])
        >>> scores.samples
        {'cxr_findings': [0.0]}
    """
    pairs = zip(predictions, check_pairs(predictions, references), strict=True)
    errors = [
        compare_findings(text, reference) if any(map(str.isalnum, reference)) else None for text, (reference,) in pairs
    ]
    values = [one.score if one else None for one in errors]
    scored = [value for value in values if value is not None]
    mean = sum(scored) / len(scored) if scored else None
    unscorable = {"cxr_findings": len(values) - len(scored)}
    return Scores({"cxr_findings": mean}, {"cxr_findings": values}, unscorable), errors


def _read(text: str) -> dict[str, Finding]:
    """The findings of a text by category. Abnormalities outside the 14 labels are told apart by their first letters."""
    analysis: Analysis = analyse(text)
    found: dict[str, Finding] = {}
    for category, mentions in analysis.mentions.items():
        if category == HEART:
            continue
        groups: dict[str, list] = {}
        for mention in mentions:
            word = mention.clause[slice(*mention.span)].lower()[:6] if category == OTHER_ABNORMALITY else ""
            groups.setdefault(f"{category}{word and '/'}{word}", []).append(mention)
        for name, group in groups.items():
            polarity = next(p for p in (POSITIVE, UNCERTAIN, NEGATIVE) if any(m.polarity == p for m in group))
            chosen = [m for m in group if m.polarity == polarity]
            fields = reduce(or_, (m.fields for m in chosen))
            statuses = frozenset(m.status for m in chosen if m.status in _COMPARED)
            found[name] = Finding(polarity, fields, statuses)
    return found


def _compare(name: str, found: dict[str, Finding], wanted: dict[str, Finding]) -> Errors:
    category = name.partition("/")[0]
    weight = SERIOUS.get(category, MINOR.get(category, 1.0))
    one, other = found.get(name, Finding(NEGATIVE)), wanted.get(name, Finding(NEGATIVE))
    if one.polarity == other.polarity == NEGATIVE:
        return Errors()
    if other.polarity == NEGATIVE:
        return Errors(false=weight * _certainty(one) * _relation(category, wanted))
    if one.polarity == NEGATIVE:
        return Errors(omitted=weight * _certainty(other) * _relation(category, found))
    details = category != DEVICES
    return Errors(
        matched=weight,
        side=weight * SIDE * (details and _differ_in_side(one.fields, other.fields)),
        severity=weight * SEVERITY * (details and _level(one.fields) != _level(other.fields)),
        certainty=weight * CERTAINTY * (one.polarity != other.polarity),
        comparison=COMPARISON * (one.statuses != other.statuses),
    )


def _certainty(finding: Finding) -> float:
    return 1.0 if finding.polarity == POSITIVE else 0.5


def _relation(category: str, others: dict[str, Finding]) -> float:
    """Half an error if the other text has a related finding."""
    related = {name for group in _RELATED if category in group for name in group}
    return 0.5 if any(name in others and others[name].polarity != NEGATIVE for name in related) else 1.0


def _differ_in_side(one: Fields, other: Fields) -> float:
    """1 for opposite sides, 0.5 if one text has both sides or omits the side."""
    if one.sides == other.sides:
        return 0.0
    return 0.5 if set(one.sides) & set(other.sides) or not one.sides or not other.sides else 1.0


def _level(fields: Fields) -> int:
    """0 for a mild finding or one without a severity, 1 for a moderate and 2 for a severe one."""
    return max(find_levels((fields.size or "").split()), default=1) - 1
