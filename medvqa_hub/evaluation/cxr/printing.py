"""Tables of an evaluation for a terminal of 80 columns."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from medvqa_core.metrics.caption_row import METRICS

NOT_IN_BREAKDOWN = ("bleu_2", "bleu_3")  # for 80 columns


def print_results(results: Sequence[dict[str, Any]], out: Path) -> None:
    """Print scores and finding accuracy for each kind of images, then tables by label and category."""
    console = Console()
    first = results[0]
    log(console, _summarize(results))
    print_file_counts(console, first)
    console.print(_text_table("Table 4 row", {r["images"]: r["table_4"] for r in results}, first["table_4"]))
    labelled = "findings" in first
    console.print(_conditions_table(results) if labelled else _short_table(results))
    names = [name for name, value in first["table_4"].items() if value is not None and name not in NOT_IN_BREAKDOWN]
    for part in ("by_label" if labelled else "by_answer_type", "by_category"):
        console.print(_text_table(f"{part.replace('_', ' ').capitalize()}, own images", first[part], ["rows", *names]))
    if labelled:
        console.print(_findings_table(first["findings"]["by_category"]))
    else:
        console.print(_short_by_category(first["short_answers"]["by_category"]))
    if "clinical" in first:
        console.print(_clinical_table(results))
    if "challenge" in first:
        _print_challenge(console, results)
    if first["scored_with"].get("baseline_source"):
        log(console, f"BERTScore rescaled, baseline {first['scored_with']['baseline_source']}")
    for note in first["scored_with"].get("notes") or ():
        log(console, f"note: {note}")
    log(console, f"predictions, results, chart and examples: {out}")


def _summarize(results: Sequence[dict[str, Any]]) -> str:
    asked = sum(result["asked_now"]["asked"] for result in results)
    seconds = sum(result["asked_now"]["seconds"] for result in results)
    done = "All questions had been answered before."
    if asked:
        done = f"{asked:,} questions answered in {seconds:.0f} s, {asked / max(seconds, 1e-9):,.1f} questions/s"
    data = results[0]["data"]
    counts = ", ".join(f"{name.replace('_', ' ')}: {value:,}" for name, value in results[0]["counts"].items())
    return f"{done}\n{data['split']} split of {data['source']}: {data['studies']:,} studies, {counts}"


def _text_table(title: str, rows: dict[str, dict[str, Any]], names: Iterable[str]) -> Table:
    names = list(names)
    table = make_table(title, *(METRICS.get(name, name) for name in names))
    for head, values in rows.items():
        table.add_row(head.replace("_", " "), *(number(values.get(name)) for name in names))
    return table


def _conditions_table(results: Sequence[dict[str, Any]]) -> Table:
    table = make_table("Finding accuracy", "accuracy", "balanced", "uncertain", "undecided", "rows")
    rows = {result["images"]: result["findings"] for result in results}
    for head, found in {**rows, "references": results[0]["ceiling"]}.items():
        names = ("accuracy", "balanced_accuracy", "uncertain", "undecided", "rows")
        table.add_row(head, *(number(found[name]) for name in names))
    table.add_row("commoner label", number(results[0]["findings"]["majority"]))
    return table


def _short_table(results: Sequence[dict[str, Any]]) -> Table:
    """Right answers to the questions of public datasets."""
    names = ("closed_accuracy", "open_recall", "exact", "rows", "failed")
    table = make_table("Right answers", "closed accuracy", "open recall", "exact", "rows", "failed")
    for result in results:
        table.add_row(result["images"], *(number(result["short_answers"][name]) for name in names))
    return table


def _short_by_category(by_category: dict[str, dict[str, Any]]) -> Table:
    table = make_table("Right answers by category, own images", "rows", "accuracy", "closed", "recall", "exact")
    for category, found in by_category.items():
        names = ("rows", "accuracy", "closed_accuracy", "open_recall", "exact")
        table.add_row(category, *(number(found[name]) for name in names))
    return table


def _findings_table(by_category: dict[str, dict[str, Any]]) -> Table:
    heads = ("rows", "accuracy", "recall +", "recall -", "commoner")
    table = make_table("Finding accuracy by category, own images", *heads)
    for category, found in by_category.items():
        recalls = found["recall"].values()
        table.add_row(category, *map(number, (found["rows"], found["accuracy"], *recalls, found["majority"])))
    return table


def _clinical_table(results: Sequence[dict[str, Any]]) -> Table:
    scores = [result["clinical"]["scores"] for result in results]
    version = results[0]["clinical"]["scored_with"]["RadEval"]
    table = make_table(f"Clinical scores (RadEval {version})", *(result["images"] for result in results))
    for name in scores[0]:
        table.add_row(name, *(number(of.get(name)) for of in scores))
    return table


def _print_challenge(console: Console, results: Sequence[dict[str, Any]]) -> None:
    """The score with its parts, what counted zero, and what the challenge's page leaves open."""
    found = [result["challenge"] for result in results]
    table = make_table("CXR-ORACLE: 0.5 BERTScore F1 + 0.5 RadGraph F1", *(result["images"] for result in results))
    for name in ("score", "bertscore_f1", "radgraph_f1", "pairs"):
        table.add_row(name.replace("_", " "), *(number(of[name]) for of in found))
    for name in ("failed", "empty", "unscorable"):
        table.add_row(f"zero: {name}", *(number(of["zero"].get(name, 0)) for of in found))
    console.print(table)
    log(console, "The challenge's page does not define these. Used here:")
    for name, value in found[0]["chosen_here"].items():
        log(console, f"  {name}: {value}")


def log(console: Console, text: str) -> None:
    """Print a line without colours, markup or line breaks."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def make_table(title: str, *columns: str) -> Table:
    table = Table(title=f"\n{title}", title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def number(value: float | int | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def print_file_counts(console: Console, result: dict[str, Any]) -> None:
    """Print the counts of a file of predictions, with the first ids of missing and other questions."""
    file = result.get("generation", result["model"]).get("file")
    if file is None:
        return
    log(console, "file of predictions: " + ", ".join(f"{name}: {count:,}" for name, count in file["counts"].items()))
    for kind, ids in file["named"].items():
        if ids:
            log(console, f"  {kind}: {', '.join(ids)}{', …' if file['counts'][kind] > len(ids) else ''}")
