"""Tables of an evaluation on RJUA-MedDQA for a terminal of 80 columns, with a row per task."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from medvqa_hub.evaluation.cxr.printing import log, make_table, number, print_file_counts

TASKS = {"entity": "Entity", "table": "Table", "table_nr": "TableNR", "mc": "Multiple choice", "sa": "Short answer"}
METRICS = {"rouge_l": "RougeL", "accuracy": "Acc"}
IMAGES_SHOWN = 20
REASONS_SHOWN = 10
NAME_WIDTH = 44  # longer names of images are cut when printed


def print_meddqa(results: dict[str, Any], out: Path) -> None:
    """Print Tables 5 to 7, the accuracy by image, and counts of failures."""
    console = Console()
    log(console, f"{results['model']['name']} on {results['data']['source']}\n")
    print_file_counts(console, results)
    print_tables(results, console)
    console.print(_by_image(results["by_image"]))
    console.print()
    for line in _lines(results, out):
        log(console, line)


def print_tables(results: dict[str, Any], console: Console) -> None:
    """Print Tables 5 and 6, and Table 7 if there are clinical-reasoning questions."""
    scores = results["scores"]
    tables = [_table_5(scores["table_5"]), _table_6(scores["table_6"])]
    if any(value is not None for value in scores["table_7"].values()):
        tables.append(_table_7(scores["table_7"]))
    for table in tables:
        console.print(table)
        console.print()
    log(console, f"scored with the profile {scores['profile']!r}, whose rules are in results.json\n")


def _table_5(row: dict[str, float | None]) -> Table:
    table = make_table("Table 5", *METRICS.values())
    for task, head in TASKS.items():
        table.add_row(head, *(number(row.get(f"{task}_{metric}")) for metric in METRICS))
    return table


def _table_6(row: dict[str, float | None]) -> Table:
    table = make_table("Table 6, by quality", "high", "low")
    for column in dict.fromkeys(key.rsplit("_", 1)[0] for key in row):
        task, metric = next((t, m) for t in TASKS for m in METRICS if column == f"{t}_{m}")
        table.add_row(f"{TASKS[task]} {METRICS[metric]}", *(number(row[f"{column}_{q}"]) for q in ("high", "low")))
    return table


def _table_7(row: dict[str, float | None]) -> Table:
    """A row for each kind of question and report, with the paper's columns D, S and A."""
    table = make_table("Table 7, clinical reasoning", "disease", "status", "advice")
    for column in dict.fromkeys(key.rsplit("_", 1)[0] for key in row):
        task, rest = column.split("_", 1)
        metric, report = rest.rsplit("_", 1)
        figures = (number(row[f"{column}_{name}"]) for name in ("disease", "status", "advice"))
        table.add_row(f"{TASKS[task]} {METRICS[metric]}, {report}", *figures)
    return table


def _by_image(images: dict[str, dict[str, Any]]) -> Table:
    shown, title = list(images.items()), "By image"
    if len(shown) > IMAGES_SHOWN:
        shown = sorted(shown, key=lambda entry: entry[1]["accuracy"] or 0.0)[:IMAGES_SHOWN]
        title = f"By image, the {IMAGES_SHOWN} lowest of {len(images):,}"
    table = make_table(title, "questions", "failed", "Acc")
    for image, found in shown:
        short = image if len(image) <= NAME_WIDTH else f"…{image[1 - NAME_WIDTH :]}"
        table.add_row(Text(short), *(number(found[name]) for name in ("questions", "failed", "accuracy")))
    return table


def _lines(results: dict[str, Any], out: Path) -> Iterator[str]:
    counts, data, hallucination = results["counts"], results["data"], results["scores"]["hallucination"]
    yield (
        f"{counts['asked']:,} of {data['questions']:,} questions asked ({results['asked_now']:,} in this run), "
        f"{counts['failed']:,} failed, {counts['empty']:,} empty answers"
    )
    yield (
        f"{data['images']:,} images, {data['missing_images']:,} missing, {data['unreadable_images']:,} unreadable"
        + (f"; {data['without_quality']:,} questions without image quality" if data["without_quality"] else "")
    )
    yield f"unanswerable (无): {_rate(hallucination)}"
    if hallucination["marked"]["unanswerable"]:
        nearest = data["absent"] == ["nearest"]
        yield f"generated to be unanswerable{' with the nearest names' if nearest else ''}:"
        yield f"  {_rate(hallucination['marked'])}"
    failures = sorted(results["failures"].items(), key=lambda entry: -entry[1])
    for reason, count in failures[:REASONS_SHOWN]:
        yield f"failed: {reason}: {count:,} questions"
    if len(failures) > REASONS_SHOWN:
        yield f"failed: {len(failures) - REASONS_SHOWN:,} more reasons, see results.json"
    yield f"predictions, scored questions and results: {out}"


def _rate(counts: dict[str, Any]) -> str:
    return (
        f"{counts['unanswerable']:,} questions, of which {counts['hallucinated']:,} got another answer "
        f"(rate {number(counts['rate'])})"
    )
