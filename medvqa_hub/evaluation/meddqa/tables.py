"""Tables 5 to 8 of the paper with the results of several runs, as Markdown and CSV.

The paper's own rows are marked as other data, because only ten of its 2,000 reports are released.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.json_files import read_object
from medvqa_hub.evaluation.meddqa import paper_rows as paper
from rjua_meddqa.inference.causes import CAUSES

KIND, RESULTS = "meddqa-evaluation", "results.json"
OTHER_DATA = "other data"


@dataclass(frozen=True)
class Row:
    """A method's cells, each (value or None, interval or None)."""

    method: str
    cells: tuple[tuple[float | None, Sequence[float] | None], ...]
    is_paper: bool = False
    signed: tuple[int, ...] = ()  # positions of differences


@dataclass(frozen=True)
class Table:
    """A table with heads in two lines (group, head) and its rows, ours first."""

    title: str
    heads: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


def read_run(place: Path) -> dict[str, Any]:
    """Read the results of a run from its folder or from the file itself. Raises InputError."""
    path = place / RESULTS if place.is_dir() else place
    results = read_object(path, "name a folder that medvqa-hub evaluate meddqa wrote")
    scores = results.get("scores")
    if results.get("kind") != KIND or not isinstance(scores, dict) or "table_8" not in scores:
        raise InputError(
            f"{path} does not contain results of this version of evaluate meddqa. Evaluate again, which keeps existing "
            "answers."
        )
    return results | {"folder": str(path.parent)}


def name_runs(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the runs in tables: model and input, and settings that distinguish equal names."""
    names = [str(run["model"]["name"]) for run in runs]
    shown = []
    for run, name in zip(runs, names, strict=True):
        model, more = run["model"], []
        if names.count(name) > 1 or model.get("shots"):
            more += [f"{model['shots']} shots"] if model.get("shots") else []
        if model.get("context") is False:
            more.append("Q")
        if names.count(name) > 1 and str(model.get("prompt_version", "ours")).partition("-")[0] != "ours":
            more.append(f"prompt {model['prompt_version']}")
        shown.append(", ".join([name, *more]))
    return [
        name if shown.count(name) == 1 else f"{name} [{Path(run['folder']).name}]"
        for run, name in zip(runs, shown, strict=True)
    ]


def build_tables(runs: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Tables 5, 6, 7 and 8, the hallucination rates of Section 5.4, and errors by cause."""
    shapes = (
        ("Table 5: five tasks", paper.TABLE_5, paper.ROWS_5),
        ("Table 6: image quality", paper.TABLE_6, paper.ROWS_6),
        ("Table 7: clinical reasoning (D disease, S status, A advice)", paper.TABLE_7, paper.ROWS_7),
    )
    names = name_runs(runs)
    tables = [
        Table(
            title,
            tuple((group, head) for _, group, head in columns),
            (
                *(
                    Row(name, tuple(_cell(run, path) for path, _, _ in columns))
                    for name, run in zip(names, runs, strict=True)
                ),
                *(Row(method, tuple((value, None) for value in row), True) for method, row in rows.items()),
            ),
        )
        for title, columns, rows in shapes
    ]
    return [*tables, _table_8(runs), _hallucination(names, runs), _errors(names, runs)]


def _table_8(runs: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each model with runs that only differ in the context."""
    pairs: dict[tuple[str, ...], dict[bool, Mapping[str, Any]]] = {}
    for run in runs:
        model = run["model"]
        if "context" in model:
            same = ("name", "engine", "input", "prompt_version", "shots", "shots_seed", "images")
            key = (*(str(model.get(field)) for field in same), run["data"]["fingerprint"])
            pairs.setdefault(key, {})[model["context"]] = run
    heads = tuple((group, head) for _, group, _ in paper.TABLE_8 for head in ("Q", "C+Q", "Δ"))
    signed = tuple(range(2, len(heads), 3))
    rows = []
    for pair in pairs.values():
        if set(pair) == {True, False}:
            cells: list[tuple[float | None, Sequence[float] | None]] = []
            for path, _, _ in paper.TABLE_8:
                without, with_context = _cell(pair[False], path), _cell(pair[True], path)
                difference = None
                if without[0] is not None and with_context[0] is not None:
                    difference = with_context[0] - without[0]
                cells += [without, with_context, (difference, None)]
            rows.append(Row(pair[True]["model"]["name"], tuple(cells), signed=signed))
    for method, values in paper.ROWS_8.items():
        rows.append(Row(method, tuple((value, None) for triple in values for value in triple), True, signed))
    return Table("Table 8: without context (Q) and with it (C+Q)", heads, tuple(rows))


def _hallucination(names: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> Table:
    """Shares of unanswerable questions that got an answer. Failed ones do not count."""
    heads = tuple((column, head) for column in ("Entity", "Table") for head in ("asked", "hallucinated", "rate"))
    rows = []
    for name, run in zip(names, runs, strict=True):
        found = [run["scores"]["hallucination"][column] for column in ("entity", "table")]
        cells = [(one[field], None) for one in found for field in ("answered", "hallucinated", "rate")]
        rows.append(Row(name, tuple(cells)))
    for method, counts in paper.HALLUCINATED.items():
        both = [counts[column] for column in ("entity", "table")]
        cells = [(value, None) for wrong, asked in both for value in (asked, wrong, wrong / asked)]
        rows.append(Row(method, tuple(cells), True))
    return Table("Hallucination on unanswerable questions (Section 5.4)", heads, tuple(rows))


def _errors(names: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> Table:
    """Wrong answers by cause, a row for each run and task."""
    rows = [
        Row(f"{name}, {task}", tuple((found.get(cause, 0), None) for cause in CAUSES))
        for name, run in zip(names, runs, strict=True)
        for task, found in run.get("errors", {}).items()
    ]
    return Table("Errors by cause", tuple(("", cause) for cause in CAUSES), tuple(rows))


def _cell(run: Mapping[str, Any], path: str) -> tuple[float | None, Sequence[float] | None]:
    table, _, column = path.partition(".")
    intervals = run["scores"].get("intervals") or {}
    return run["scores"][table].get(column), (intervals.get(table) or {}).get(column)


def show(value: float | None, is_signed: bool = False) -> str:
    """A cell's figure. Shares have two decimals, as in the paper."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:+.2f}" if is_signed else f"{value:.2f}"


def show_interval(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.2f}–{interval[1]:.2f}"


def to_markdown(tables: Iterable[Table]) -> str:
    """The tables as Markdown, with the paper's rows in italics."""
    pieces = []
    for table in tables:
        heads = ["Method", *(f"{group} {head}".strip() for group, head in table.heads)]
        lines = [f"### {table.title}", "", _line(heads), _line("---" for _ in heads)]
        for row in table.rows:
            cells = []
            for place, (value, interval) in enumerate(row.cells):
                between = f" ({show_interval(interval)})" if interval else ""
                cells.append(show(value, place in row.signed) + between)
            named = [row.method + (f" ({OTHER_DATA})" if row.is_paper else ""), *cells]
            lines.append(_line(f"*{cell}*" if row.is_paper and cell != "-" else cell for cell in named))
        pieces.append("\n".join(lines))
    note = f"In brackets 95% intervals, bootstrap over images. In italics, of other data: {paper.SOURCE}."
    return "\n\n".join([*pieces, note]) + "\n"


def to_records(tables: Iterable[Table]) -> list[tuple[str, ...]]:
    """A row for each cell: table, method, source, group, head, value, low, high."""
    lines: list[tuple[str, ...]] = [("table", "method", "source", "group", "head", "value", "low", "high")]
    for table in tables:
        for row in table.rows:
            for (group, head), (value, interval) in zip(table.heads, row.cells, strict=True):
                source = paper.SOURCE if row.is_paper else "this run"
                ends = ("", "") if interval is None else tuple(f"{end:.6f}" for end in interval)
                shown = "" if value is None else f"{value:.6g}"
                lines.append((table.title, row.method, source, group, head, shown, *ends))
    return lines


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
