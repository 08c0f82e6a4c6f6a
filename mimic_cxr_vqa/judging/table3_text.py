"""Format the result of `table3.measure_table3` as text, best category first."""

from collections.abc import Mapping
from typing import Any

from medvqa_core.text_tables import align
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS

_COEFFICIENTS = {"fleiss_kappa": "kappa", "ac1": "AC1", "ac2": "AC2"}


def format_table3(found: Mapping[str, Any]) -> str:
    """The table, the agreement coefficients and notes."""
    raters = list(next(iter(found["dimensions"].values()))["people"] or {})
    head = ["", *(f"V{number}" for number in range(1, len(raters) + 1))]
    head += ["judge"] if _judged(found) else []
    head += ["count", "%", "95%"] if found["sample"] else []
    head += ["corrected", "95%"] if _judged(found) and found["sample"] else []
    rows = [head]
    for name, dimension in DIMENSIONS.items():
        part = found["dimensions"][name]
        rows.append([dimension.title])
        rows += [_line(category, part, raters, found) for category in reversed(dimension.categories)]
    parts = (align(rows), *("\n".join(lines) for lines in (_agreement(found), _notes(found))))
    return "\n\n".join(filter(None, parts))


def _judged(found: Mapping[str, Any]) -> bool:
    return any(part["judge_on_these"] for part in found["dimensions"].values())


def _line(category: str, part: Mapping[str, Any], raters: list[str], found: Mapping[str, Any]) -> list[str]:
    cells = [f"  {category}", *(f"{part['people'][rater][category]:.1%}" for rater in raters)]
    if _judged(found):
        cells.append(f"{part['judge_on_these'][category]:.1%}")
    if found["sample"]:
        row = part["large_scale"][category]
        cells += [f"{row['count']:,}", f"{row['share']:.2%}", _interval(row)]
        if _judged(found):
            corrected = row["corrected"]
            cells += [f"{corrected['rate']:.2%}", _interval(corrected)] if corrected else ["-", "-"]
    return cells


def _interval(row: Mapping[str, float]) -> str:
    return f"{100 * row['low']:.1f}-{100 * row['high']:.1f}"


def _agreement(found: Mapping[str, Any]) -> list[str]:
    """Coefficients with their intervals, for people and judge together (as in the paper) and for people."""
    lines = []
    for name, dimension in DIMENSIONS.items():
        for kind, title in (("people_and_judge", "people and judge"), ("people", "people")):
            measured = (found["dimensions"][name]["agreement"] or {}).get(kind)
            if measured:
                values = ", ".join(f"{label} {_coefficient(measured, one)}" for one, label in _COEFFICIENTS.items())
                lines.append(f"{dimension.title}, {title}: {values}")
        against = found["dimensions"][name]["against_people"]
        if against:
            sensitivity, specificity = (_share(against[one]) for one in ("sensitivity", "specificity"))
            lines.append(
                f"{dimension.title}, judge against people, {against['items']} items: sensitivity {sensitivity}, "
                f"specificity {specificity}"
            )
    return lines


def _coefficient(measured: Mapping[str, Any], name: str) -> str:
    value, interval = measured[name], measured["intervals"].get(name)
    if value is None:
        return "undefined"
    return f"{value:.4f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def _share(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1%}"


def _notes(found: Mapping[str, Any]) -> list[str]:
    notes = []
    if problem := (found["judge"] or {}).get("not_independent"):
        notes.append(f"NOT INDEPENDENT: {problem}. Its rates are a regression check and not a measure of quality.")
    if found["people"]:
        how = found["people"]["stratified_by"]
        drawn = (
            f"stratified by {how}; percentages are weighted, coefficients are not" if how else "simple random sample"
        )
        notes.append(f"people: {found['people']['raters']} raters, {found['people']['items']} items, {drawn}")
    if found["sample"]:
        sample = found["sample"]
        notes.append(
            f"large scale: judge {found['judge']['name']}, {sample['pairs']:,} answers about at most "
            f"{sample['sample_reports']:,} reports, seed {sample['seed']}. Intervals over studies"
        )
    if found["sample"] and not _judged(found):
        notes.append("rates are not corrected: people did not rate any judged answer (medvqa-hub cxr review export)")
    return notes
