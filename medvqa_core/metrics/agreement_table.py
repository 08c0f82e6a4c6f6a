"""Agreement of a rating sheet: one row per dimension."""

from dataclasses import asdict
from typing import Any

from medvqa_core.metrics.agreement import COEFFICIENTS, RESAMPLES, Agreement, measure_agreement
from medvqa_core.metrics.ratings import RatingSheet
from medvqa_core.text_tables import align

_TITLES = {
    "fleiss_kappa": "Fleiss kappa",
    "ac1": "AC1",
    "ac2": "AC2",
    "ac1_published": "AC1 published",
    "ac2_published": "AC2 published",
}


def measure_sheet(
    sheet: RatingSheet, weights: str = "quadratic", resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Agreement]:
    """Agreement by dimension. Raises InputError and ConfigError as `measure_agreement` does."""
    return {
        dimension: measure_agreement(ratings, sheet.orders[dimension], weights, resamples, seed, dimension)
        for dimension, ratings in sheet.ratings.items()
    }


def agreement_record(measured: dict[str, Agreement], sheet: RatingSheet) -> dict[str, Any]:
    """The agreement as JSON."""
    return {
        "coefficients": "ac1 and ac2 follow Gwet, ac1_published and ac2_published the paper's Table 3",
        "dimensions": {dimension: asdict(agreement) for dimension, agreement in measured.items()},
        "ignored_columns": sheet.ignored,
    }


def format_agreement(measured: dict[str, Agreement]) -> str:
    """A table of the coefficients with their 95% bootstrap intervals, one line per dimension."""
    with_interval = any(agreement.intervals for agreement in measured.values())
    head = ["dimension", "items", "raters", "raw", *_TITLES.values()]
    lines = [head]
    for dimension, agreement in measured.items():
        cells = [dimension, str(agreement.items), str(agreement.raters), f"{agreement.raw_agreement:.4f}"]
        for name in COEFFICIENTS:
            value, interval = getattr(agreement, name), agreement.intervals.get(name)
            text = "undefined" if value is None else f"{value:.4f}"
            cells.append(f"{text} [{interval[0]:.2f}, {interval[1]:.2f}]" if with_interval and interval else text)
        lines.append(cells)
    return align(lines)
