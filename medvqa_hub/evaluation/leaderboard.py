"""`medvqa-hub export leaderboard`: a page of tables made from the results of evaluations, without any row.

Results are in one table if they are about the same questions (hash of the data) and were scored alike. Rows in
`scored.jsonl`, if a folder has them, are verified by their hashes and not shown. The page is one file of HTML without
scripts and without links to other files.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import atomic_file
from medvqa_core.json_files import read_object
from medvqa_core.metrics.caption_row import METRICS
from medvqa_hub.evaluation.comparing import CXR, MEDDQA, read_run
from medvqa_hub.evaluation.exporting import find_figures

FIRST = ("challenge_score", "bertscore", "rouge_l")  # tables are sorted by the first of them that all results have
COUNTS = ("questions", "failed", "predictions", "rows")
SHOWN = 12  # digits of a hash
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1b1b1b }
.table { overflow-x: auto } table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap }
th:first-child, td:first-child { text-align: left } thead th { border-bottom: 2px solid #1b1b1b }
td.best { font-weight: 700 } .note, code { color: #555; font-size: .85em }
"""


@dataclass(frozen=True)
class Entry:
    """The results of one evaluation. `verified`: its rows are there and have the hashes that the results state."""

    name: str
    results: Mapping[str, Any]
    figures: Mapping[str, float]
    verified: bool

    @property
    def group(self) -> tuple[str, ...]:
        """What results must share to be in one table: kind, data and scoring."""
        results = self.results
        scored = results["scored_with"] if results["kind"] == CXR else results["scores"]
        names = ("profile", "tokenizer", "bertscore_settings", "baseline_source", "failed_answers", "units")
        how = {name: scored.get(name) for name in names if name in scored}
        how |= {"chosen": results.get("challenge", {}).get("chosen_here")}
        return str(results["kind"]), _hash(results, "data"), str(how)


def read_entry(folder: Path) -> Entry:
    """Read the results in a folder of an evaluation, and verify its rows if it has them. Raises InputError."""
    if (folder / "scored.jsonl").is_file():
        run = read_run(folder)
        results, verified = run.results, run.verified
    else:
        results, verified = read_object(folder / "results.json", "name a folder that medvqa-hub evaluate wrote"), False
    if results.get("kind") not in (CXR, MEDDQA):
        raise InputError(f"{folder} has results of kind {results.get('kind')!r}. Expected {CXR} or {MEDDQA}.")
    if "hashes" not in results:
        raise InputError(f"{folder}: the results do not state hashes. Evaluate again, which keeps existing answers.")
    figures, _ = find_figures(dict(results))
    present = {name: value for name, value in figures.items() if value is not None}
    return Entry(str(results["model"].get("name")), results, present, verified)


def write_leaderboard(folders: Sequence[Path], out: Path, title: str = "Leaderboard") -> int:
    """Write the page and return the number of tables.

    Raises:
        ConfigError: no folder is given.
        InputError: a folder does not hold results, or its rows do not have the hashes of its results.
        OutputError: the page cannot be written.
    """
    if not folders:
        raise ConfigError("No folder is given. Name folders that medvqa-hub evaluate wrote.")
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for folder in folders:
        entry = read_entry(folder)
        groups.setdefault(entry.group, []).append(entry)
    parts = "\n".join(_make_section(entries) for entries in groups.values())
    title = html.escape(title)
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style></head>\n'
        f"<body><h1>{title}</h1>\n{parts}\n</body></html>\n"
    )
    with atomic_file(out, "w") as file:
        file.write(page)
    return len(groups)


def _make_section(entries: Sequence[Entry]) -> str:
    """A heading, how the results were scored, and their table, the best first."""
    names = list(dict.fromkeys(name for entry in entries for name in entry.figures))
    shared = [name for name in names if all(name in entry.figures for entry in entries)]
    first = next((name for name in FIRST if name in shared), shared[0] if shared else names[0])
    names = [first, *(name for name in names if name != first)]
    ordered = sorted(entries, key=lambda entry: entry.figures.get(first, float("-inf")), reverse=True)
    best = {name: max(entry.figures[name] for entry in entries if name in entry.figures) for name in names}
    figures = (METRICS.get(name, name.replace("_", " ")) for name in names)
    head = "".join(f"<th>{html.escape(text)}</th>" for text in ("model", *figures, *COUNTS))
    rows = "\n".join(_make_row(entry, names, best) for entry in ordered)
    return (
        f"<h2>{html.escape(_describe(entries[0].results))}</h2>\n"
        f'<p class="note">Data <code>{html.escape(_hash(entries[0].results, "data"))}</code>. '
        f"{html.escape(_describe_scoring(entries[0].results))}</p>\n"
        f'<div class="table"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _make_row(entry: Entry, names: Sequence[str], best: Mapping[str, float]) -> str:
    cells = [f"<td>{html.escape(entry.name)}</td>"]
    for name in names:
        value = entry.figures.get(name)
        mark = ' class="best"' if value is not None and value == best[name] else ""
        cells.append(f"<td{mark}>{'-' if value is None else f'{value:.4f}'}</td>")
    counts = entry.results["counts"]
    questions = counts.get("questions", counts.get("asked"))
    cells += [f"<td>{questions:,}</td>", f"<td>{counts['failed']:,}</td>"]
    cells.append(f"<td><code>{html.escape(_hash(entry.results, 'predictions')[:SHOWN])}</code></td>")
    cells.append(f"<td>{'verified' if entry.verified else 'not given'}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _describe(results: Mapping[str, Any]) -> str:
    data = results["data"]
    if results["kind"] == MEDDQA:
        return f"RJUA-MedDQA ({results['counts']['asked']:,} questions)"
    return f"MIMIC-CXR-VQA: {data['source']}, {data['split']} split ({data['studies']:,} studies)"


def _describe_scoring(results: Mapping[str, Any]) -> str:
    if results["kind"] == MEDDQA:
        return f"Profile {results['scores']['profile']}, ROUGE-L on {results['scores']['units']}."
    scored = results["scored_with"]
    chosen = results.get("challenge", {}).get("chosen_here", {})
    more = "".join(f" {name}: {value}." for name, value in chosen.items())
    return f"Profile {scored['profile']}, failed answers: {scored['failed_answers']}.{more}"


def _hash(results: Mapping[str, Any], part: str) -> str:
    return str(results["hashes"][part])
