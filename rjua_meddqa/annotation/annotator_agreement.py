"""Agreement of two people who annotated the same reports independently."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import astuple
from typing import Any

from medvqa_core.metrics.agreement import measure_agreement
from rjua_meddqa.schema import IS_NORMAL_VALUES, Annotation

CHOICES = ("report_type", "image_type", "image_quality")


def compare_annotators(one: Mapping[str, Annotation], other: Mapping[str, Annotation]) -> dict[str, Any]:
    """Agreement on the reports that both annotated.

    Returns:
        reports: how many both annotated, and `equal`: how many have the same annotation.
        key_values, table: the share of equal pairs and rows, as 2 * equal / (both lists' lengths). None without any.
        verdicts: `is_normal` of the rows whose other fields are equal: rows, share of equal verdicts, kappa and AC1.
    """
    both = [path for path in one if path in other]
    pairs = [(one[path], other[path]) for path in both]
    verdicts: dict[tuple[str, Any], str] = {}
    for path, (mine, theirs) in zip(both, pairs, strict=True):
        rows = ({astuple(row)[:3]: row.is_normal for row in annotation.table} for annotation in (mine, theirs))
        first, second = rows
        for row in first.keys() & second.keys():
            if {first[row], second[row]} <= set(IS_NORMAL_VALUES):
                verdicts |= {("one", (path, row)): first[row], ("other", (path, row)): second[row]}
    measured = measure_agreement(verdicts, IS_NORMAL_VALUES, "identity", resamples=0) if verdicts else None
    return {
        "reports": len(both),
        "equal": sum(not find_differences(mine, theirs) for mine, theirs in pairs),
        "key_values": _share([(mine.key_values, theirs.key_values) for mine, theirs in pairs]),
        "table": _share([(mine.table, theirs.table) for mine, theirs in pairs]),
        "verdicts": {
            "rows": len(verdicts) // 2,
            "agreement": measured.raw_agreement if measured else None,
            "kappa": measured.fleiss_kappa if measured else None,
            "ac1": measured.ac1 if measured else None,
        },
    }


def find_differences(one: Annotation, other: Annotation) -> list[str]:
    """The fields in which two annotations differ."""
    return [name for name in (*CHOICES, "key_values", "table") if getattr(one, name) != getattr(other, name)]


def _share(lists: list[tuple[Collection[Any], Collection[Any]]]) -> float | None:
    equal = sum((Counter(one) & Counter(other)).total() for one, other in lists)
    total = sum(len(one) + len(other) for one, other in lists)
    return 2 * equal / total if total else None
