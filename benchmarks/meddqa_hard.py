"""Hard synthetic pages by kind of difficulty: text against the true text, drafts, verdicts, and injected errors.

Rules are developed on the pages of the development seed only. The held-out seed is measured beside it. A page counts
once for each of its difficulties and once in total. `wrong_verdicts` counts drafted rows whose item and result are as
annotated and whose decided `is_normal` differs. `blank_kept` counts fields without a value that the draft leaves empty.
"""

import csv
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from page_text import PageText, compare_page
from planted import PLANTS, measure_planted
from row_check import check_rows

from medvqa_core.metrics.scores import mean
from rjua_meddqa.annotation.draft_check import DraftCheck, check_draft
from rjua_meddqa.annotation.drafts import Draft, draft
from rjua_meddqa.annotation.page_check import page_text
from rjua_meddqa.annotation.report_words import fold
from rjua_meddqa.answers import is_missing
from rjua_meddqa.phantom.folder import BOXES, DIFFICULTIES, TEXTS
from rjua_meddqa.restoration.ocr import read_boxes
from rjua_meddqa.restoration.pages import Page
from rjua_meddqa.schema import CONTENT_TASKS, UNDECIDED, Annotation

SEEDS = {"development": 41, "held_out": 97}
REPORTS = 39  # three of each difficulty, and others beside it
COLUMNS = (
    "pages",
    "number",
    "characters wrong",
    "rows split",
    "rows merged",
    "rows on one line",
    "rows drafted",
    "with range",
    "wrong verdicts",
    "key-values drafted",
    "blanks kept",
    "entity",
    "table",
)


def measure_hard(
    data: Path, annotations: Iterable[Annotation], pages: dict[str, Page], scored: list[dict[str, Any]]
) -> dict[str, Any]:
    """Figures of all hard pages of a folder, by difficulty, and of the errors planted into their annotations."""
    with open(data / DIFFICULTIES, encoding="utf-8", newline="") as file:
        difficulties = {row["img_path"]: row["difficulties"].split(";") for row in csv.DictReader(file)}
    annotations = list(annotations)
    groups: dict[str, list[Annotation]] = {}
    for annotation in annotations:
        for name in difficulties[annotation.img_path]:
            groups.setdefault(name, []).append(annotation)
    planted = measure_planted((a, page_text(pages[a.img_path].restored)) for a in annotations)
    return {
        "all": _count(data, annotations, pages, scored),
        "groups": {name: _count(data, group, pages, scored) for name, group in sorted(groups.items())},
        "planted": {name: asdict(tally) for name, tally in planted.items()},
    }


def _count(
    data: Path, annotations: list[Annotation], pages: dict[str, Page], scored: list[dict[str, Any]]
) -> dict[str, Any]:
    drafts, text = DraftCheck(), PageText()
    on_one_line = wrong = blanks = kept = 0
    for annotation in annotations:
        page = pages[annotation.img_path]
        drafted = draft(page.restored)
        drafts += check_draft(drafted, annotation)
        text += _compare(data, page)
        checks = check_rows(page.restored.lines, annotation.table)
        on_one_line += sum(check.found is not None for check in checks)
        wrong += _wrong_verdicts(drafted, annotation)
        empty = [key for key, value in annotation.key_values if is_missing(value)]
        filled = {fold(key) for key, value in drafted.key_values if not is_missing(value)}
        blanks, kept = blanks + len(empty), kept + sum(fold(key) not in filled for key in empty)
    names = {annotation.img_path for annotation in annotations}
    of_task = {
        task: [row["accuracy"] for row in scored if row["img_path"] in names and row["task"] == task]
        for task in CONTENT_TASKS
    }
    return {
        "reports": len(annotations),
        "characters": text.characters,
        "character_error_rate": round(text.error_rate, 4),
        "text_rows": text.rows,
        "rows_split": text.split,
        "rows_merged": text.merged,
        "rows_on_one_line": on_one_line,
        "wrong_verdicts": wrong,
        "blanks": blanks,
        "blanks_kept": kept,
        **asdict(drafts),
        "accuracy": {task: round(mean(values), 4) if values else None for task, values in of_task.items()},
    }


def _compare(data: Path, page: Page) -> PageText:
    stem = Path(page.image).stem
    numbers = {id(box): number for number, box in enumerate(page.boxes)}
    lines = [[page.original_boxes[numbers[id(box)]] for box in line] for line in page.restored.lines]
    true = [line.split("\t") for line in (data / TEXTS / f"{stem}.txt").read_text(encoding="utf-8").splitlines()]
    return compare_page(page.restored.text, lines, true, read_boxes(data / BOXES / f"{stem}.json"))


def _wrong_verdicts(drafted: Draft, annotation: Annotation) -> int:
    """是 for 否 or 否 for 是, or either where the annotation leaves it open."""
    true = {(fold(row.item), fold(row.result)): row.is_normal for row in annotation.table}
    decided = [row for row in drafted.table if row.is_normal != UNDECIDED]
    return sum(
        row.is_normal[:1] != true[name][:1] for row in decided if (name := (fold(row.item), fold(row.result))) in true
    )


def make_hard_table(figures: dict[str, Any]) -> str:
    """The Markdown table of one seed's pages."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for name, found in {"all": figures["all"], **figures["groups"]}.items():
        has_table = found["rows"] > 0
        cells = (
            name,
            found["reports"],
            f"{found['character_error_rate']:.1%}",
            f"{found['rows_split']} of {found['text_rows']}",
            found["rows_merged"],
            f"{found['rows_on_one_line']} of {found['rows']}" if has_table else "-",
            f"{found['rows_found']} of {found['rows']}" if has_table else "-",
            found["rows_with_range"] if has_table else "-",
            found["wrong_verdicts"] if has_table else "-",
            f"{found['key_values_found']} of {found['key_values']}",
            f"{found['blanks_kept']} of {found['blanks']}",
            *(_share(found["accuracy"][task]) for task in ("entity_qa", "table_qa")),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def make_planted_table(figures: dict[str, dict[str, Any]]) -> str:
    """The Markdown table of planted errors: found and false alarms by seed."""
    lines = [
        "| error | " + " | ".join(f"{seed.replace('_', '-')}: found | recall | precision" for seed in SEEDS) + " |",
        "|---" * (1 + 3 * len(SEEDS)) + "|",
    ]
    for name in (*PLANTS, "all"):
        cells = []
        for part in (figures[seed] for seed in SEEDS):
            tallies = list(part["planted"].values()) if name == "all" else [part["planted"][name]]
            planted, found, false = (sum(t[key] for t in tallies) for key in ("planted", "found", "false"))
            cells += [f"{found} of {planted}", _ratio(found, planted), _ratio(found, found + false)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _ratio(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
