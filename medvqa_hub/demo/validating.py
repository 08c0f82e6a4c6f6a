"""The demo's second act: a language model answers, a judge rates, people review, Table 3; model and people scripted.

The steps are those of `cxr answer`, `judge`, `review export`, `review import` and `table3`, against a server on
loopback; only what speaks there (`scripted_server.py`) and what fills the sheets in is drawn.
"""

import csv
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

from medvqa_core.digests import digest
from medvqa_core.files import atomic_file
from medvqa_core.json_files import write_json
from medvqa_core.llm.connecting import connect_model
from medvqa_core.llm.options import EngineOptions
from medvqa_hub.demo.scripted_server import MODEL, ScriptedServer
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.language_model import LanguageModel
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict, is_flawless
from mimic_cxr_vqa.judging.model_judge import ModelJudge
from mimic_cxr_vqa.judging.pairs import Pair
from mimic_cxr_vqa.judging.probing import run_probe
from mimic_cxr_vqa.judging.review import FOR_RATERS, RATINGS, Review, open_review
from mimic_cxr_vqa.judging.review_export import export_review
from mimic_cxr_vqa.judging.review_import import import_ratings
from mimic_cxr_vqa.judging.rule_judge import judge_by_rules
from mimic_cxr_vqa.judging.run_judge import Sample, judge_sample, sampled_verdicts
from mimic_cxr_vqa.judging.sampling import FLAWED, FLAWLESS
from mimic_cxr_vqa.judging.table3 import measure_table3
from mimic_cxr_vqa.judging.table3_text import format_table3
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.sources.physionet import read_studies
from mimic_cxr_vqa.workspace import Workspace

STUDIES = 40  # that the language model answers about
SAMPLE_REPORTS = 1000  # as in the paper: all of these
ITEMS, RATERS = 60, 3
ONE_SLIP_IN = 15  # how often a drawn rater chooses another category
PLANTED = 20  # errors of each kind


def tell_how_it_is_checked(console: Console, tree: Path, out: Path, seed: int) -> dict[str, Path]:
    """Answer, judge, review and count the first studies of `tree`; what was made and where it is."""

    def log(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    workspace, sample = Workspace(out), Sample(SAMPLE_REPORTS, seed)
    console.print(Rule("10. A second act: a language model answers, a judge rates, people review"))
    log("The server is a script on this machine that answers well, but for one answer in 20; the people are drawn.")
    write_questions(read_studies(tree), workspace, seed)
    with ScriptedServer() as server:
        model = connect_model(EngineOptions((f"server:{server.endpoint}",), MODEL), workspace.governance())
        answered = answer_questions(workspace, LanguageModel(model), limit=STUDIES)
        log(f"{answered['answered']:,} answers by {server.endpoint}, {answered['failed']} failed")
        judge = ModelJudge(model)
        judged = judge_sample(workspace, judge, sample)
        verdicts = dict(sampled_verdicts(workspace, judge.name))
        objected = sum(not is_flawless(verdict) for verdict in verdicts.values())
        log(f"the judge rated {judged['judged']:,} of them and objected to {objected}; how good is it? Errors planted:")
        log(run_probe(workspace, judge, sample, PLANTED))
        review = _review(workspace, verdicts, judge.name, seed)
        judge_sample(workspace, judge, sample)  # what people rate, too
    found = measure_table3(workspace, judge.name)
    write_json(workspace.table3, found)
    console.print(Rule("11. Table 3: what people and judge log, and the judge's rates corrected by the people"))
    log(format_table3(found))
    write_release(workspace, allow_missing=True)
    return {
        "answers by the scripted model": workspace.release,
        "sheets, ratings, key": review.folder,
        "Table 3": workspace.table3,
    }


def _review(workspace: Workspace, verdicts: dict[Pair, Verdict], judge: str, seed: int) -> Review:
    """A sample stratified by the judge, its sheets filled in by drawn people and imported."""
    folder = workspace.review
    if not (folder / RATINGS).exists():
        export_review(
            folder,
            list(verdicts),
            workspace.governance(),
            min(ITEMS, len(verdicts)),
            RATERS,
            seed,
            judge,
            lambda pair: FLAWLESS if is_flawless(verdicts[pair]) else FLAWED,
        )
    review = open_review(folder)
    by_id = {pair.id: pair for pair in verdicts}
    truths = {item: judge_by_rules(by_id[entry.qa_id])[0] for item, entry in review.key().items()}
    sheets = [_fill_in(folder / FOR_RATERS / rater / "sheet.csv", truths, workspace.root) for rater in review.raters]
    import_ratings(review, sheets)
    return review


def _fill_in(sheet: Path, truths: dict[str, Verdict], out: Path) -> Path:
    """A copy of a rater's sheet with the ratings of somebody who slips now and then."""
    with sheet.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row |= {name: _rate(row, name, category) for name, category in truths[row["item"]].items()}
    filled = out / f"{rows[0]['rater']}.csv"
    with atomic_file(filled, "w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return filled


def _rate(row: dict[str, str], name: str, category: str) -> str:
    draw = int(digest(f"{row['rater']}/{row['item']}/{name}")[:12], 16)
    categories = DIMENSIONS[name].categories
    return categories[draw // ONE_SLIP_IN % len(categories)] if draw % ONE_SLIP_IN == 0 else category
