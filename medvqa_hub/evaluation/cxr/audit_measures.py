"""Measures of an audit. R(c) is the share of answers whose polarity is the row's label in condition c.

parts       where the right answers come from. The parts of a line add up to its accuracy.
              images     R(own) = looking + guessing, where looking = R(own) - R(opposite) and guessing = R(opposite):
                         right although the images show the opposite
              stated     R(supporting) = looking + following_text + guessing, from all combinations of the images (own,
                         opposite) and a stated indication (supporting, contradicting): looking is the mean effect of
                         the images, following_text that of the indication, guessing is right against both
shares      how the model answers
              looking, following_text    as above (stated, if it was asked for). Below 0 if answers are reversed. A
                                         reader with accuracy a has a looking share of 2a - 1.
              guessing                   answers that neither decides: 1 - |looking| - |following_text|
              responding                 changed(opposite) - changed(same): near 0 for guesses and for noise
              region                     changed(covered) - changed(control), of positive rows: near 1 if the answer
                                         depends on the region of the finding, near 0 if on no region, and below 0 if on
                                         other places
behaviour   changes_when_it_should (opposite images, covered region) and stays_when_it_should (another patient with the
            same label, control region, stated indication)

Failed answers are counted for each condition, and their rows are left out of the measures that need them.

Intervals are 95% percentile bootstrap intervals over studies. A row with images of another study depends on both, so
its weight is the product of theirs (pigeonhole bootstrap, Owen 2007). Otherwise a few donors would look like many.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from medvqa_core.metrics.calibration import aurc, excess_aurc, expected_calibration_error, risk_coverage
from medvqa_core.metrics.paired import interval
from medvqa_hub.evaluation.cxr.audit_conditions import CHANGES, TEXTS

RESAMPLES, CHUNK = 1000, 100
DONORS = ("same", "opposite")
COVERAGES = (0.5, 0.8)  # whose risk is in the table
POINTS = 50  # of the curve in the results
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Estimate:
    """A value, the same in each resample of the studies, and the number of rows and studies behind it."""

    value: float
    draws: np.ndarray
    rows: int
    studies: int

    @property
    def described(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "interval": interval(self.draws) if self.studies > 1 else None,
            "rows": self.rows,
            "studies": self.studies,
        }


class Measures:
    """Measures of some of an audit's rows. All use the same resamples of the studies."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._studies = {study: n for n, study in enumerate(dict.fromkeys(row["study_id"] for row in rows))}
        count = len(self._studies)
        weights = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), RESAMPLES)
        self._weights = np.concatenate([weights, np.ones((RESAMPLES, 1), int)], axis=1)

    def summarize(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The measures of the module for `rows`. A measure is None if no row has all of its conditions."""
        names = list(dict.fromkeys(name for row in rows for name in row["polarity"]))
        right = {name: self._mean(rows, [name], _agrees(name)) for name in names}
        changed = {name: self._mean(rows, [name, "own"], _changed(name)) for name in names if name != "own"}
        parts = {"images": self._find_parts(rows, ("own", "opposite")), "stated": self._find_parts(rows, TEXTS)}
        return {
            "accuracy": _describe(right),
            "changed": _describe(changed),
            "failed": dict(Counter(name for row in rows for name, value in row["polarity"].items() if value is None)),
            "parts": {name: None if found is None else _describe(found) for name, found in parts.items()},
            "shares": _describe(self._find_shares(rows, parts)),
            "behaviour": _describe(self._find_behaviour(rows)),
        }

    def calibrate(self, rows: Sequence[Row], condition: str = "own") -> dict[str, Any] | None:
        """Confidence against right answers. None if no answer has a confidence."""
        kept = [row for row in rows if row["confidence"].get(condition) is not None]
        if not kept:
            return None
        confidence = np.array([row["confidence"][condition] for row in kept])
        right = np.array([_right(row, condition) for row in kept], float)
        places = np.array([self._studies[row["study_id"]] for row in kept])
        scores: dict[str, Callable[..., float]] = {
            "aurc": aurc, "excess_aurc": excess_aurc, "ece": expected_calibration_error,
        }  # fmt: skip
        for share in COVERAGES:
            scores[f"risk_at_{share:.0%}"] = _risk_at(share)
        drawn = self._weights[: RESAMPLES // 5, places]  # sorting is slow
        studies = len(set(places.tolist()))
        found = {
            name: Estimate(
                score(confidence, right), np.array([score(confidence, right, weight) for weight in drawn]), len(kept),
                studies,
            )
            for name, score in scores.items()
        }  # fmt: skip
        coverage, risk = risk_coverage(confidence, right)
        shown = np.unique(np.linspace(0, len(risk) - 1, POINTS).astype(int))
        mean = {
            name: self._mean([row for row in rows if row["confidence"].get(name) is not None], [], _confidence(name))
            for name in dict.fromkeys(name for row in rows for name in row["confidence"])
        }
        return {
            **_describe(found),
            "risk": float(1 - right.mean()),
            "without_confidence": len(rows) - len(kept),
            "curve": {"coverage": coverage[shown].tolist(), "risk": risk[shown].tolist()},
            "mean_confidence": _describe(mean),
        }

    def _find_parts(self, rows: Sequence[Row], names: Sequence[str]) -> dict[str, Estimate] | None:
        """The parts of the accuracy, from two or four conditions. The last one opposes the label in all inputs."""
        rates = [self._mean(rows, names, _agrees(name)) for name in names]
        if None in rates:
            return None
        weights: dict[str, Sequence[float]]
        if len(names) == 2:
            weights = {"accuracy": (1, 0), "looking": (1, -1), "guessing": (0, 1)}
        else:
            weights = {
                "accuracy": (1, 0, 0, 0),
                "looking": (0.5, 0.5, -0.5, -0.5),
                "following_text": (0.5, -0.5, 0.5, -0.5),
                "guessing": (0, 0, 0, 1),
            }
        return {name: _combine(rates, _weighted(values)) for name, values in weights.items()}

    def _find_shares(
        self, rows: Sequence[Row], parts: Mapping[str, Mapping[str, Estimate] | None]
    ) -> dict[str, Estimate | None]:
        used = parts["stated"] or parts["images"] or {}
        inputs = {name: used[name] for name in ("looking", "following_text") if name in used}
        guessing = _combine(list(inputs.values()), lambda *values: 1 - sum(map(np.abs, values))) if inputs else None
        return {
            "looking": inputs.get("looking"),
            "following_text": inputs.get("following_text"),
            "guessing": guessing,
            "responding": self._difference(rows, "opposite", "same"),
            "region": self._difference(rows, "covered", "control"),
        }

    def _find_behaviour(self, rows: Sequence[Row]) -> dict[str, Estimate | None]:
        """The mean over all answers in conditions with an expected change, or without one."""
        found = {}
        for name, should in (("changes_when_it_should", True), ("stays_when_it_should", False)):
            pairs = [
                {**row, "condition": condition, "agrees": _changed(condition)(row) is should}
                for row in rows
                for condition, expected in CHANGES.items()
                if expected is should
                and row["polarity"].get(condition) is not None
                and row["polarity"]["own"] is not None
            ]
            found[name] = self._mean(pairs, [], lambda row: row["agrees"])
        return found

    def _difference(self, rows: Sequence[Row], one: str, other: str) -> Estimate | None:
        """changed(one) - changed(other), on rows that have both."""
        changed = _changed(one), _changed(other)
        return self._mean(rows, [one, other, "own"], lambda row: float(changed[0](row)) - changed[1](row))

    def _mean(self, rows: Sequence[Row], names: Sequence[str], value: Callable[[Row], float]) -> Estimate | None:
        """The mean of `value` over the rows that have an answer in all conditions of `names`."""
        kept = [row for row in rows if all(row["polarity"].get(name) is not None for name in names)]
        if not kept:
            return None
        groups: dict[tuple[int, ...], list[float]] = defaultdict(list)
        for row in kept:
            groups[self._find_places(row, names)].append(float(value(row)))
        sums = np.array([[sum(found), len(found)] for found in groups.values()])
        places = np.array(list(groups))  # (groups, 1 + donors)
        chunks = (self._weights[start : start + CHUNK] for start in range(0, RESAMPLES, CHUNK))
        drawn = np.concatenate([chunk[:, places].prod(2) @ sums for chunk in chunks])
        draws = np.divide(drawn[:, 0], drawn[:, 1], out=np.full(RESAMPLES, np.nan), where=drawn[:, 1] > 0)
        total, count = sums.sum(0)
        return Estimate(float(total / count), draws, len(kept), len(set(places[:, 0].tolist())))

    def _find_places(self, row: Row, names: Sequence[str]) -> tuple[int, ...]:
        """Columns of the weights of the study and of its donors in these conditions. The last column is 1."""
        conditions = (*names, row.get("condition", ""))
        used = (name if any(one.startswith(name) for one in conditions) else None for name in DONORS)
        donors = [row["donor"].get(name) for name in used]
        return self._studies[row["study_id"]], *(self._studies.get(donor, len(self._studies)) for donor in donors)


def _describe(found: Mapping[str, Estimate | None]) -> dict[str, Any]:
    return {name: None if estimate is None else estimate.described for name, estimate in found.items()}


def _combine(estimates: Sequence[Any], function: Callable[..., Any]) -> Estimate:
    value, draws = function(*(one.value for one in estimates)), function(*(one.draws for one in estimates))
    return Estimate(float(value), draws, estimates[0].rows, estimates[0].studies)


def _weighted(weights: Sequence[float]) -> Callable[..., Any]:
    return lambda *values: sum(weight * value for weight, value in zip(weights, values, strict=True))


def _right(row: Row, condition: str) -> bool:
    return row["polarity"][condition] == row["label_value"]


def _agrees(condition: str) -> Callable[[Row], bool]:
    return lambda row: _right(row, condition)


def _changed(condition: str) -> Callable[[Row], bool]:
    return lambda row: row["polarity"][condition] != row["polarity"]["own"]


def _confidence(condition: str) -> Callable[[Row], float]:
    return lambda row: row["confidence"][condition]


def _risk_at(share: float) -> Callable[..., float]:
    def find(confidence: np.ndarray, right: np.ndarray, weight: np.ndarray | None = None) -> float:
        coverage, risk = risk_coverage(confidence, right, weight)
        return float(risk[np.searchsorted(coverage, share - 1e-9)])

    return find
