"""`evaluate meddqa-report`: tables and a self-contained page about several runs.

OUT/tables.md, tables.csv   Tables 5 to 8 and the hallucination rates, with the paper's rows
OUT/figure5.png             the radar chart
OUT/page.html               tables, figure, errors by cause, and up to ten cases of each cause as pictures
OUT/manifest.json           kind and governance class, the strictest of the runs and the data
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, OutputError
from medvqa_core.files import atomic_file, make_folder
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import find_manifest, write_manifest
from medvqa_core.runs.predictions import check_stated
from medvqa_hub.evaluation.meddqa import paper_rows as paper
from medvqa_hub.evaluation.meddqa.cases import Case, as_data_uri, choose_cases, read_scored
from medvqa_hub.evaluation.meddqa.tables import (
    OTHER_DATA,
    Row,
    Table,
    build_tables,
    name_runs,
    read_run,
    show,
    show_interval,
    to_markdown,
    to_records,
)
from rjua_meddqa.figures import AXES, plot_models
from rjua_meddqa.inference.causes import CAUSES
from rjua_meddqa.inference.questions import load_questions
from rjua_meddqa.restoration.pages import Page, read_pages

KIND, FORMAT = "meddqa-report", 1
SCORED, PAGES = "scored.jsonl", "pages"
TABLES_MD, TABLES_CSV, FIGURE, PAGE = "tables.md", "tables.csv", "figure5.png", "page.html"

STYLE = """
body { font: 15px/1.45 system-ui, "Noto Sans CJK SC", "Microsoft YaHei", "PingFang SC", sans-serif; margin: 2em auto;
       max-width: 1100px; padding: 0 1em; color: #1b1b1b; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; } h3 { font-size: 1em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5em 0 1em; display: block;
        overflow-x: auto; }
th, td { padding: .25em .6em; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
small { color: #666; display: block; } .paper { font-style: italic; color: #555; }
.cases { display: grid; grid-template-columns: repeat(auto-fill, minmax(440px, 1fr)); gap: 1em; }
.case { border: 1px solid #ddd; border-radius: 6px; padding: .6em; }
.case img { max-width: 100%; border: 1px solid #eee; }
.case p { margin: .3em 0; overflow-wrap: anywhere; white-space: pre-wrap; } .case b { color: #666; font-weight: 600; }
"""


def write_report(
    runs: Sequence[Path], out: Path, data: Path | None = None, image_root: Path | None = None, pages: Path | None = None
) -> list[str]:
    """Write the tables and the page, and return lines to print.

    Args:
        data: the questions of the runs. Without them there are no pictures of wrong answers.
        pages: restored pages for locating answers, by default those of the runs.

    Raises:
        ConfigError: `runs` is empty.
        InputError: results or data cannot be read.
        OutputError: `out` cannot be written, or contains something else.
    """
    if not runs:
        raise ConfigError("No run is given. Name folders that evaluate meddqa wrote.")
    results = [read_run(run) for run in runs]
    governance = strictest(check_stated(Path(run["folder"]), run["governance"]) for run in results)
    questions = load_questions(data, image_root) if data is not None else None
    if questions is not None:
        governance = strictest((governance, questions.governance))
    tables, names = build_tables(results), name_runs(results)
    make_folder(out, governance.private)
    if find_manifest(out, "choose another folder").get("kind", KIND) != KIND:
        raise OutputError(f"{out} contains the result of another command. Choose another folder.")
    manifest = {"kind": KIND, "format": FORMAT, "governance": str(governance)}
    write_manifest(out, manifest, private=governance.private)  # before the files that it describes
    _write(out / TABLES_MD, to_markdown(tables), governance)
    text = io.StringIO(newline="")
    csv.writer(text).writerows(to_records(tables))
    _write(out / TABLES_CSV, text.getvalue(), governance)
    others = {method: _paper_axes(row) for method, row in paper.ROWS_5.items()}
    plot_models(
        {name: _axes(run) for name, run in zip(names, results, strict=True)}, out / FIGURE, others, governance.private
    )
    sections = []
    for name, run in zip(names, results, strict=True):
        cases = {}
        if questions is not None:
            found = _pages_by_image(pages or Path(run["folder"]) / PAGES)
            cases = choose_cases(read_scored(Path(run["folder"]) / SCORED), questions, found)
        sections.append(_run_section(name, run, cases))
    _write(out / PAGE, _page(tables, names, results, (out / FIGURE).read_bytes(), sections, governance), governance)
    return [to_markdown(tables), f"tables, figure and page: {out / PAGE} ({governance})"]


def _pages_by_image(folder: Path) -> dict[str, Page]:
    return {page.image: page for page in read_pages(folder)} if folder.is_dir() else {}


def _axes(run: Mapping[str, Any]) -> dict[str, float | None]:
    return {axis: run["scores"]["table_5"][column] for axis, column in AXES.items()}


def _paper_axes(row: Sequence[float]) -> dict[str, float | None]:
    columns = [path.partition(".")[2] for path, _, _ in paper.TABLE_5]
    return {axis: row[columns.index(column)] for axis, column in AXES.items()}


def _write(path: Path, text: str, governance: Governance) -> None:
    with atomic_file(path, "w", governance.private) as file:
        file.write(text)


def _page(
    tables: Iterable[Table],
    names: Sequence[str],
    runs: Sequence[Mapping[str, Any]],
    figure: bytes,
    sections: list[str],
    governance: Governance,
) -> str:
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>RJUA-MedDQA: {escape(', '.join(names))}</title><style>{STYLE}</style>",
        "<h1>RJUA-MedDQA</h1>",
        f"<p>Governance class: {governance}</p>",
        _runs_table(names, runs),
        f"<p>Small figures are 95% intervals, bootstrap over images. <span class='paper'>Rows in italics are from "
        f"{OTHER_DATA}: {escape(paper.SOURCE)}.</span></p>",
        *(_html_table(table) for table in tables),
        "<h2>Figure 5</h2>",
        f"<img alt='Figure 5' style='max-width:min(100%,760px)' src='{as_data_uri(figure, 'image/png')}'>",
        *sections,
        "</html>",
    ]
    return "\n".join(parts)


def _runs_table(names: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> str:
    heads = ("run", "data", "images", "questions", "failed", "prompt", "shots", "profile")
    lines = []
    for name, run in zip(names, runs, strict=True):
        model, counts = run["model"], run["counts"]
        shots = model.get("shots", "-")
        cells = (
            name,
            run["data"]["source"],
            run["data"]["images"],
            f"{counts['asked']:,}",
            f"{counts['failed']:,}",
            model.get("prompt_version", "-"),
            shots,
            run["scores"]["profile"],
        )
        lines.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{text}</th>" for text in heads)
    return f"<h2>Runs</h2><table><tr>{head}</tr>{''.join(lines)}</table>"


def _html_table(table: Table) -> str:
    groups: list[list[Any]] = []
    for group, _ in table.heads:
        if groups and groups[-1][0] == group:
            groups[-1][1] += 1
        else:
            groups.append([group, 1])
    first = "".join(f"<th colspan='{width}' style='text-align:center'>{escape(group)}</th>" for group, width in groups)
    second = "".join(f"<th>{escape(head)}</th>" for _, head in table.heads)
    rows = "".join(_html_row(row) for row in table.rows)
    return (
        f"<h2>{escape(table.title)}</h2><table><tr><th></th>{first}</tr><tr><th>Method</th>{second}</tr>{rows}</table>"
    )


def _html_row(row: Row) -> str:
    cells = []
    for place, (value, interval) in enumerate(row.cells):
        between = f"<small>{show_interval(interval)}</small>" if interval else ""
        cells.append(f"<td>{show(value, place in row.signed)}{between}</td>")
    name = escape(row.method) + (f" ({OTHER_DATA})" if row.is_paper else "")
    return f"<tr{' class=paper' if row.is_paper else ''}><td>{name}</td>{''.join(cells)}</tr>"


def _run_section(name: str, run: Mapping[str, Any], cases: Mapping[str, Sequence[Case]]) -> str:
    errors = run.get("errors", {})
    heads = "".join(f"<th>{cause}</th>" for cause in CAUSES)
    rows = "".join(
        f"<tr><td>{column}</td>{''.join(f'<td>{found.get(cause, 0)}</td>' for cause in CAUSES)}</tr>"
        for column, found in errors.items()
    )
    failures = "".join(
        f"<li>{escape(reason)}: {count:,}</li>"
        for reason, count in sorted(run["failures"].items(), key=lambda e: -e[1])
    )
    pictured = "".join(
        f"<h3>{cause}: {len(found)} of {sum(e.get(cause, 0) for e in errors.values())}</h3>"
        f"<div class='cases'>{''.join(map(_case, found))}</div>"
        for cause, found in cases.items()
    )
    return (
        f"<h2>Errors of {escape(name)}</h2><table><tr><th></th>{heads}</tr>{rows}</table>"
        + (f"<p>Failed, apart from these:</p><ul>{failures}</ul>" if failures else "<p>No question failed.</p>")
        + pictured
    )


def _case(case: Case) -> str:
    image = f"<img alt='' loading='lazy' src='{as_data_uri(case.picture)}'>" if case.picture else "<p>no picture</p>"
    place = " (the whole page: the place was not found)" if case.is_whole_page and case.picture else ""
    return (
        f"<div class='case'>{image}<small>{escape(case.image)}{place}</small>"
        f"<p><b>asked</b> {escape(case.question)}</p><p><b>right</b> {escape(case.answer)}</p>"
        f"<p><b>said</b> {escape(case.prediction)}</p></div>"
    )
