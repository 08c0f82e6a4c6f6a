"""RJUA-MedDQA from image to score without a model: released sample reports, then synthetic ones by kind of image.

For each group of reports: annotated table rows whose item and result are on one restored line (see `row_check`), filled
key-values and table rows found in the drafts (see `draft_check`), and soft accuracy of `esra-rules` by task. For the
released sample also: recomputed `is_normal` verdicts, and released questions that a generated question covers. Hard
synthetic pages are measured by kind of difficulty (see `meddqa_hard`). The result file contains no text of any page.
The script also writes all tables to results/meddqa.md, a page of the site.

Run: python benchmarks/meddqa.py [--samples FOLDER] [--work FOLDER]. With a work folder, an interrupted run resumes.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from meddqa_hard import REPORTS, SEEDS, make_hard_table, make_planted_table, measure_hard
from question_reader import QuestionReader, cover
from row_check import check_rows, count_read
from timing import write_result

from medvqa_core.errors import ConfigError
from medvqa_core.metrics.scores import mean
from medvqa_hub.evaluation.meddqa.evaluating import PAGES_FOLDER, SCORED, MeddqaOptions, evaluate_meddqa
from rjua_meddqa.annotation.checking import check_file
from rjua_meddqa.annotation.draft_check import DraftCheck, check_draft
from rjua_meddqa.annotation.drafts import draft
from rjua_meddqa.data_folder import ANNOTATIONS, QUESTIONS, open_folder
from rjua_meddqa.fonts import find_fonts
from rjua_meddqa.generation.questions import Options, QuestionGenerator
from rjua_meddqa.generation.templates import load_templates
from rjua_meddqa.phantom.folder import write_phantom
from rjua_meddqa.released import read_annotations, read_questions
from rjua_meddqa.restoration.pages import Page, read_pages
from rjua_meddqa.schema import CONTENT_TASKS, Annotation
from rjua_meddqa.terms import load_terms

REAL_DATA = Path(os.environ.get("MEDVQA_REAL_DATA", Path(__file__).parents[2] / "shared" / "data"))
SAMPLES = REAL_DATA / "rjua_samples"
TABLES = Path(__file__).parent / "results" / "meddqa.md"
PREFACE = """\
Written by `python benchmarks/meddqa.py`. All released reports were seen in development. Rules were made from hard pages
of the development seed alone.

- **Rows on one line**: item and result of a table row are on one restored line, and no other row is.
- **Rows and key-values drafted**: the draft has the row or the pair.
- **Characters wrong**: edit distance to the true text in reading order. A true row is *split* if it is on several
  restored lines, and *merged* if its line has parts of another row.
- **Wrong verdicts**: drafted `is_normal` that are decided and differ from the annotation.
- **Blanks kept**: fields without a value that the draft leaves empty.
- **Entity, table, numerical**: soft accuracy of `esra-rules` by task.
- **Planted errors**: one error of each kind in every true annotation of the hard pages. Precision counts all other
  findings as false alarms, so an alarm on a right annotation counts once for each kind.
- **Fonts** of the synthetic pages: {fonts}.
"""
PARTS = ("released", "synthetic")
SYNTHETIC, SEED = 30, 2026  # another seed than the bundled sample's
TARGETS = {
    "rows_on_one_line": 49,
    "key_values_found": 23,
    "is_normal_agreement": 0.95,
    "questions_covered": 1.0,
    "accuracy": {"entity_qa": 0.55, "table_qa": 0.75, "table_nr_qa": 0.75},
}


def measure(data: Path, out: Path, kind: Callable[[Annotation], str], workers: int = 1) -> dict[str, Any]:
    """Figures of a folder of reports, in total and grouped by `kind`.

    Args:
        out: folder for pages and predictions. Existing ones are reused.
    """
    pages, scored = answer(data, out, workers)
    groups: dict[str, list[Annotation]] = {}
    for annotation in read_annotations(open_folder(data).file(ANNOTATIONS)):
        groups.setdefault(kind(annotation), []).append(annotation)
    whole = [annotation for group in groups.values() for annotation in group]
    return {
        "all": count(whole, pages, scored),
        "groups": {name: count(group, pages, scored) for name, group in sorted(groups.items())},
    }


def answer(data: Path, out: Path, workers: int) -> tuple[dict[str, Page], list[dict[str, Any]]]:
    """The restored pages of a folder by image, and its questions with answers and scores."""
    evaluate_meddqa(MeddqaOptions("esra-rules", data, out, workers=workers))
    pages = {page.image: page for page in read_pages(out / PAGES_FOLDER)}
    return pages, [json.loads(line) for line in (out / SCORED).read_text(encoding="utf-8").split("\n") if line]


def count(annotations: list[Annotation], pages: dict[str, Page], scored: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of some reports."""
    read = on_one_line = exact = 0
    drafts = DraftCheck()
    for annotation in annotations:
        page = pages[annotation.img_path]
        read += count_read(page.restored.lines, annotation.table)
        checks = check_rows(page.restored.lines, annotation.table)
        on_one_line += sum(check.found is not None for check in checks)
        exact += sum(check.found == "exact" for check in checks)
        drafts += check_draft(draft(page.restored), annotation)
    names = {annotation.img_path for annotation in annotations}
    rows = [row for row in scored if row["img_path"] in names]
    of_task = {task: [row["accuracy"] for row in rows if row["task"] == task] for task in CONTENT_TASKS}
    return {
        "reports": len(annotations),
        "questions": len(rows),
        "rows_read": read,
        "rows_on_one_line": on_one_line,
        "rows_on_one_line_result_exact": exact,
        **asdict(drafts),
        "accuracy": {task: round(mean(values), 4) if values else None for task, values in of_task.items()},
    }


def measure_released(data: Path, out: Path) -> dict[str, Any]:
    """`measure` by image, with the checks that need no image."""
    figures = measure(data, out, lambda annotation: annotation.img_path)
    folder = open_folder(data)
    report = check_file(folder.file(ANNOTATIONS))
    generator = QuestionGenerator(load_templates(), load_terms(), Options(pairs=None))
    generated = [q for a in read_annotations(folder.file(ANNOTATIONS)) for q in generator.questions(a)]
    released = read_questions(folder.file(QUESTIONS))
    covered = cover(released, generated, QuestionReader(load_templates(), load_terms()))
    return figures | {
        "is_normal": {"decided": report.decided, "agreeing": report.agreeing},
        "released_questions": {"total": covered.total, "covered": covered.covered},
    }


def missed(released: dict[str, Any]) -> list[str]:
    """The targets that the released sample does not reach."""
    found, decided, questions = released["all"], released["is_normal"], released["released_questions"]
    reached = {
        "rows on one line": found["rows_on_one_line"] >= TARGETS["rows_on_one_line"],
        "key-values found": found["key_values_found"] >= TARGETS["key_values_found"],
        "is_normal": decided["agreeing"] >= TARGETS["is_normal_agreement"] * decided["decided"],
        "questions covered": questions["covered"] >= TARGETS["questions_covered"] * questions["total"],
        **{task: (found["accuracy"][task] or 0) >= least for task, least in TARGETS["accuracy"].items()},
    }
    return [name for name, is_reached in reached.items() if not is_reached]


def kind_of(annotation: Annotation) -> str:
    """`photo low`, `pdf high`, …"""
    return f"{annotation.image_type} {annotation.image_quality}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("--work", type=Path, help="keep pages and predictions here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        figures = run(options.samples, options.work or Path(scratch))
    write_result("meddqa", figures)
    if all(part in figures for part in (*PARTS, "hard")):
        TABLES.write_text(make_tables(figures), encoding="utf-8")


def run(samples: Path, work: Path) -> dict[str, Any]:
    """Measure both sets of reports. A set that is not available is skipped with a message."""
    figures: dict[str, Any] = {"targets": TARGETS, "fonts": [path.stem for path in find_fonts()]}
    if (samples / "images").is_dir():
        released = figures["released"] = measure_released(samples, work / "released")
        figures["missed"] = missed(released)
        show("released sample", released)
        print(f"is_normal: {released['is_normal']}, released questions: {released['released_questions']}")
        print(f"targets missed: {', '.join(figures['missed']) or 'none'}")
    else:
        print(f"no sample reports at {samples}: skipped")
    try:
        write_phantom(work / "reports", SYNTHETIC, SEED)
    except ConfigError as error:  # no font
        print(f"no synthetic reports: {error}")
    else:
        figures["synthetic"] = measure(work / "reports", work / "synthetic", kind_of, workers=2)
        show(f"{SYNTHETIC} synthetic reports", figures["synthetic"])
        figures["hard"] = {}
        for name, seed in SEEDS.items():
            data = work / f"hard_{name}_reports"
            write_phantom(data, REPORTS, seed, hard=True)
            pages, scored = answer(data, work / f"hard_{name}", workers=2)
            annotations = read_annotations(open_folder(data).file(ANNOTATIONS))
            figures["hard"][name] = measure_hard(data, annotations, pages, scored)
            print(f"{REPORTS} hard reports, {name}\n{make_hard_table(figures['hard'][name])}")
        print(make_planted_table(figures["hard"]))
    return figures


def show(title: str, figures: dict[str, Any]) -> None:
    print(f"{title}\n{make_table(figures)}")


def make_table(figures: dict[str, Any]) -> str:
    """The Markdown table of one set of reports, a row for all of them and one per group."""
    lines = [
        "| reports | number | key-values drafted | rows on one line | rows drafted | questions | entity | table "
        "| numerical |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in {"all": figures["all"], **figures["groups"]}.items():
        values = [found["accuracy"][task] for task in CONTENT_TASKS]  # a result file sorts them by name
        accuracies = ("-" if value is None else f"{value:.3f}" for value in values)
        cells = (
            name,
            found["reports"],
            f"{found['key_values_found']} of {found['key_values']}",
            f"{found['rows_on_one_line']} of {found['rows']}" if found["rows"] else "-",
            f"{found['rows_found']} of {found['rows']}" if found["rows"] else "-",
            found["questions"],
            *accuracies,
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def make_tables(figures: dict[str, Any]) -> str:
    """The page of all tables."""
    tables = {"Released reports": make_table(figures["released"])}
    tables[f"{SYNTHETIC} plain synthetic reports"] = make_table(figures["synthetic"])
    tables |= {
        f"{REPORTS} hard synthetic pages: {name.replace('_', '-')}": make_hard_table(found)
        for name, found in figures["hard"].items()
    }
    tables["Errors that the authors of the rules planted"] = make_planted_table(figures["hard"])
    sections = [f"## {title}\n\n{table}" for title, table in tables.items()]
    preface = PREFACE.format(fonts=", ".join(figures["fonts"]))
    return "\n".join(["# Report images: all tables\n", preface, *sections])


if __name__ == "__main__":
    main()
