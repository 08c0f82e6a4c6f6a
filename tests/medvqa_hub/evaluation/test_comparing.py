"""`medvqa-hub compare`: scores that are those of the runs, tests by hand, and runs that are not comparable."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from builds import Build, build_release

from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.metrics import caption_row
from medvqa_core.metrics.scores import Scores, mean
from medvqa_core.runs.predictions import FILE
from medvqa_hub.cli import run
from medvqa_hub.evaluation.comparing import compare_runs
from medvqa_hub.evaluation.cxr.studies import load_studies
from medvqa_hub.evaluation.exporting import find_figures
from medvqa_hub.evaluation.hashes import hash_rows
from mimic_cxr_vqa.release import open_release
from rjua_meddqa import SAMPLE_DIR
from rjua_meddqa.inference.questions import load_questions


def say_to(folder: Path, name: str, answers: dict[str, str]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps({"id": id, "answer": text}) + "\n" for id, text in answers.items()))
    return path


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("build"), studies=16, seed=1)


@pytest.fixture(scope="module")
def rows(build) -> dict[str, str]:
    studies = load_studies(open_release(build.workspace.release), "train", None)
    return {row["qa_id"]: row["answer"] for study in studies for row in study.rows}


@pytest.fixture(scope="module")
def cxr_runs(build, rows, tmp_path_factory) -> list[Path]:
    """One knows everything, one always denies, one fails at every second question and denies the rest."""
    place, ids = tmp_path_factory.mktemp("runs"), list(rows)
    said = {
        "knows": rows,
        "denies": dict.fromkeys(ids, "No evidence of it is seen."),
        "fails": {id: "ERROR" if n % 2 else "No evidence of it is seen." for n, id in enumerate(ids)},
    }
    for name, answers in said.items():
        arguments = ["--data", str(build.workspace.root), "--split", "train", "--scored", "--out", str(place / name)]
        predictions = ["--predictions", str(say_to(place, name, answers))]
        assert run(["evaluate", "cxr", *arguments, *predictions]) == 0
    return [place / name for name in said]


def evaluate_meddqa(place: Path, name: str, answers: dict[str, str], *more: str) -> Path:
    arguments = ["--data", str(SAMPLE_DIR), "--predictions", str(say_to(place, name, answers))]
    assert run(["evaluate", "meddqa", *arguments, "--out", str(place / name), *more]) == 0
    return place / name


def test_scores_are_the_runs_own_where_nothing_failed(cxr_runs):
    made = compare_runs(cxr_runs[:2], resamples=200)
    for place, folder in enumerate(cxr_runs[:2]):
        results = json.loads((folder / "results.json").read_text())
        for name in ("bleu_1", "bleu_4", "rouge_l", "cider"):
            value, (low, high) = made.scores[name][place]
            assert value == pytest.approx(results["table_4"][name]) and low <= value + 1e-9 and value <= high + 1e-9
        assert made.scores["finding accuracy"][place][0] == pytest.approx(results["findings"]["accuracy"])
    assert made.scores["finding accuracy"][0][1] == (1.0, 1.0)
    difference, p, among = made.tests["rouge_l", 0, 1]
    assert difference < 0 and p < 0.01 and among == p  # one pair: nothing to correct


def test_a_metric_in_the_row_is_printed_exported_and_compared(build, rows, tmp_path, monkeypatch, capsys):
    """A metric is a function and an entry of METRICS: 1 if an answer begins as its reference."""

    def score(answers, references):
        samples = [float(a.split()[:1] == of[0].split()[:1]) for a, of in zip(answers, references, strict=True)]
        return Scores({"begins_alike": mean(samples)}, {"begins_alike": samples})

    rouge = caption_row.rouge_scores
    monkeypatch.setattr(caption_row, "rouge_scores", lambda a, r, w: merge_scores(score(a, r), rouge(a, r, w)))
    with pytest.raises(AssertionError, match="begins_alike.*METRICS"):
        caption_row.score_row(["a"], ["a"])
    monkeypatch.setitem(caption_row.METRICS, "begins_alike", "BeginsAlike")
    expected = sum(answer.split()[0] == "No" for answer in rows.values()) / len(rows)
    assert 0 < expected < 1
    arguments = ["--data", str(build.workspace.root), "--split", "train", "--scored", "--out", str(tmp_path / "run")]
    file = say_to(tmp_path, "answers", dict.fromkeys(rows, "No evidence of it is seen."))
    assert run(["evaluate", "cxr", *arguments, "--predictions", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("BeginsAlike") == printed.count("ROUGE-L") == 3  # Table 4, by label, by category
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert find_figures(results)[0]["begins_alike"] == results["table_4"]["begins_alike"] == pytest.approx(expected)
    positive = results["by_label"]["positive"]
    assert positive["begins_alike"] < expected < results["by_label"]["negative"]["begins_alike"]
    again = shutil.copytree(tmp_path / "run", tmp_path / "again")
    made = compare_runs([tmp_path / "run", again], resamples=20)
    assert made.scores["begins_alike"][0][0] == pytest.approx(expected)


def merge_scores(first, second):
    return Scores({**first.corpus, **second.corpus}, {**first.samples, **second.samples})


def evaluate_cxr(build, place: Path, name: str, answers: dict[str, str], *more: str) -> Path:
    arguments = ["--data", str(build.workspace.root), "--split", "train", "--scored", "--out", str(place / name)]
    assert run(["evaluate", "cxr", *arguments, "--predictions", str(say_to(place, name, answers)), *more]) == 0
    return place / name


def check_own_scores(made, runs: list[Path]) -> None:
    """Every run has the scores of its evaluation."""
    for place, folder in enumerate(runs):
        results = json.loads((folder / "results.json").read_text())
        own = {name: value for name, value in results["table_4"].items() if value is not None}
        assert made.scores.keys() == {*own, "finding accuracy"}
        own["finding accuracy"] = results["findings"]["accuracy"]
        assert {name: made.scores[name][place][0] for name in own} == pytest.approx(own)


def test_a_failed_answer_is_a_wrong_one(cxr_runs):
    made = compare_runs(cxr_runs[1:], resamples=200)
    denies, fails = (made.scores["finding accuracy"][place][0] for place in range(2))
    assert 0 < fails < denies  # by results.json, which leaves failures out, they may be as good
    assert made.scores["rouge_l"][1][0] < 0.7 * made.scores["rouge_l"][0][0]
    assert made.scores["bleu_1"][1][0] < made.scores["bleu_1"][0][0]
    assert not any(made.left_out.values())


def test_the_scores_are_those_of_an_evaluation_that_scores_failed_answers_as_empty(build, rows, tmp_path):
    said = {id: "ERROR" if n % 2 else answer for n, (id, answer) in enumerate(rows.items())}
    runs = [
        evaluate_cxr(build, tmp_path, name, answers, "--failed", "empty")
        for name, answers in (("knows", rows), ("fails", said))
    ]
    made = compare_runs(runs, resamples=50)
    check_own_scores(made, runs)
    assert not any(made.left_out.values()) and made.tests["finding accuracy", 0, 1][0] < 0
    excluded = evaluate_cxr(build, tmp_path, "excluded", said)  # --failed exclude changes nothing here
    assert compare_runs([runs[0], excluded], resamples=50).scores == made.scores


def test_unscorable_samples_are_left_out_of_pairs(build, rows, tmp_path, monkeypatch):
    """A metric that cannot score answers with the word "unclear", with a name that begins as BLEU's do."""

    def score(answers, references, _words):
        samples = [None if "unclear" in a else float(a.split()[0] == "No") for a in answers]
        return merge_scores(Scores({"bleurt": mean(samples)}, {"bleurt": samples}), rouge(answers, references, _words))

    rouge = caption_row.rouge_scores
    monkeypatch.setattr(caption_row, "rouge_scores", score)
    monkeypatch.setitem(caption_row.METRICS, "bleurt", "BLEURT")
    texts = {"unclear": lambda n: "No" if n % 4 else "unclear", "half": lambda n: "No" if n % 2 else "Yes"}
    runs = [
        evaluate_cxr(build, tmp_path, name, {id: text(n) for n, id in enumerate(rows)}) for name, text in texts.items()
    ]
    made = compare_runs(runs, resamples=50)
    check_own_scores(made, runs)
    numbers = range(len(rows))
    both = [n for n in numbers if n % 4]
    assert made.scores["bleurt"][0][0] == 1.0
    assert made.scores["bleurt"][1][0] == pytest.approx(sum(n % 2 for n in numbers) / len(rows))
    assert made.left_out["bleurt", 0, 1] == len(rows) - len(both)
    assert made.tests["bleurt", 0, 1][0] == pytest.approx(sum(n % 2 for n in both) / len(both) - 1)
    assert made.left_out["rouge_l", 0, 1] == 0


def test_the_command_prints_and_writes_one_table(cxr_runs, tmp_path, capsys):
    assert run(["compare", *map(str, cxr_runs), "--resamples", "100", "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "3 runs on" in printed and "1: knows.jsonl, 0 answers failed" in printed
    assert "ROUGE-L, 3 against 2" in printed and "1.000 [1.000, 1.000]" in printed
    with (tmp_path / "out" / "comparison.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    values = [row for row in table if row["metric"] == "rouge_l" and not row["against"]]
    assert [row["run"] for row in values] == ["knows.jsonl", "denies.jsonl", "fails.jsonl"]
    pairs = [row for row in table if row["metric"] == "rouge_l" and row["against"]]
    assert len(pairs) == 3 and all(float(row["p_holm"]) >= float(row["p"]) for row in pairs)
    assert (tmp_path / "out" / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_runs_on_report_images(tmp_path, capsys):
    answers = {row.id: row.answer for row in load_questions(SAMPLE_DIR).rows}
    knows = evaluate_meddqa(tmp_path, "knows", answers)
    nothing = evaluate_meddqa(tmp_path, "nothing", dict.fromkeys(answers, "不知道"))
    made = compare_runs([knows, nothing], resamples=100)
    table = [json.loads((run / "results.json").read_text())["scores"]["table_5"] for run in (knows, nothing)]
    assert {name.replace(" ", "_", 1) for name in made.scores} >= {
        "entity_rouge_l",
        "table_accuracy",
        "table_nr_accuracy",
    }
    for name, scores in made.scores.items():
        column, metric = name.split(" ")
        assert [value for value, _ in scores] == pytest.approx([row[f"{column}_{metric}"] for row in table])
    images = len({row.img_path for row in load_questions(SAMPLE_DIR).rows})
    assert made.units == images
    other = evaluate_meddqa(tmp_path, "released", answers, "--profile", "released")
    with pytest.raises(InputError, match="profile 'ours' and 'released'"):
        compare_runs([knows, other])


def test_runs_on_different_questions_are_refused_and_the_difference_is_named(build, rows, cxr_runs, tmp_path):
    arguments = ["--data", str(build.workspace.root), "--split", "train", "--scored", "--limit", "3"]
    predictions = ["--predictions", str(say_to(tmp_path, "few", rows)), "--out", str(tmp_path / "few")]
    assert run(["evaluate", "cxr", *arguments, *predictions]) == 0
    with pytest.raises(InputError, match=r"few lacks \d+ \(s9"):
        compare_runs([cxr_runs[0], tmp_path / "few"])
    with pytest.raises(InputError, match=r"few lacks \d+ \(s9"):
        compare_runs([tmp_path / "few", cxr_runs[0]])
    few = json.loads((tmp_path / "few" / "results.json").read_text())
    made = compare_runs([tmp_path / "few", cxr_runs[0]], resamples=20, common=True)
    assert made.questions == few["counts"]["questions"] and made.units == 3
    assert made.scores["rouge_l"][0][0] == pytest.approx(few["table_4"]["rouge_l"])


def copy(source: Path, to: Path, change) -> Path:
    to.mkdir()
    lines = [change(json.loads(line)) for line in (source / "scored.jsonl").read_text().splitlines()]
    results = json.loads((source / "results.json").read_text()) | {"hashes": hash_rows(lines)}
    (to / "results.json").write_text(json.dumps(results))
    (to / "scored.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return to


@pytest.mark.parametrize(
    ("changed", "named"),
    [("answer", "predictions and scores"), ("reference", "data and scores"), ("rouge_l", "scores")],
)
def test_rows_that_were_edited_are_refused(cxr_runs, tmp_path, changed, named):
    run = Path(shutil.copytree(cxr_runs[0], tmp_path / "run"))
    first, rest = (run / "scored.jsonl").read_text().split("\n", 1)
    (run / "scored.jsonl").write_text(f"{rest}{first}\n")
    assert compare_runs([run, cxr_runs[1]], resamples=2).runs[0].verified, "their order does not matter"
    (run / "scored.jsonl").write_text(json.dumps(json.loads(first) | {changed: 0.5}) + "\n" + rest)
    with pytest.raises(InputError, match=f"its {named} do not have the hash"):
        compare_runs([run, cxr_runs[1]])


def test_results_without_hashes_are_not_verified(cxr_runs, tmp_path, capsys):
    run_folder = Path(shutil.copytree(cxr_runs[0], tmp_path / "run"))
    results = json.loads((run_folder / "results.json").read_text())
    del results["hashes"]
    (run_folder / "results.json").write_text(json.dumps(results))
    assert run(["compare", str(run_folder), str(cxr_runs[1]), "--resamples", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("not verified") == 1 and printed.count(", verified") == 1


def test_hashes_of_report_questions_are_verified_too(tmp_path):
    questions = {row.id: row.answer for row in load_questions(SAMPLE_DIR, None).rows}
    runs = [evaluate_meddqa(tmp_path, name, questions) for name in ("a", "b")]
    assert all(one.verified for one in compare_runs(runs, resamples=2).runs)
    text = (runs[0] / "scored.jsonl").read_text()
    (runs[0] / "scored.jsonl").write_text(text.replace('"prediction": "', '"prediction": "x', 1))
    with pytest.raises(InputError, match="predictions and scores"):
        compare_runs(runs)


def test_results_that_say_less_than_their_predictions_are_refused(cxr_runs, tmp_path):
    run = Path(shutil.copytree(cxr_runs[0], tmp_path / "run"))
    header, rest = (run / FILE).read_text(encoding="utf-8").split("\n", 1)
    (run / FILE).write_text(json.dumps(json.loads(header) | {"governance": "credentialed"}) + "\n" + rest)
    with pytest.raises(GovernanceError, match="credentialed.*open"):
        compare_runs([run, cxr_runs[1]]).governance  # noqa: B018


def test_both_words_edited_do_not_lower_what_the_ids_demand(cxr_runs, tmp_path):
    """Header and results say `open`; the questions are MIMIC's. Of other ids nobody else knows the class."""
    run = shutil.copytree(cxr_runs[0], tmp_path / "run")
    text = (run / FILE).read_text()
    assert compare_runs([run, cxr_runs[1]]).governance == "open"
    (run / FILE).write_text(re.sub(r'"s9[0-9]{7}-', '"s50414267-', text, count=1))
    with pytest.raises(GovernanceError, match="predictions.jsonl .*credentialed"):
        compare_runs([run, cxr_runs[1]]).governance  # noqa: B018


def test_other_references_and_missing_rows_are_refused(cxr_runs, tmp_path):
    changed = copy(cxr_runs[0], tmp_path / "changed", lambda line: line | {"reference": line["reference"] + "!"})
    with pytest.raises(InputError, match="reference of .* questions"):
        compare_runs([cxr_runs[0], changed])
    (changed / "scored.jsonl").unlink()
    with pytest.raises(InputError, match="--scored"):
        compare_runs([cxr_runs[0], changed])
    (changed / "results.json").write_text('{"kind": "other"}')
    with pytest.raises(InputError, match="results of kind 'other'"):
        compare_runs([cxr_runs[0], changed])
    with pytest.raises(ConfigError, match="1 runs"):
        compare_runs(cxr_runs[:1])


def test_runs_of_one_name_are_told_apart_by_their_folders(cxr_runs, tmp_path):
    again = copy(cxr_runs[0], tmp_path / "again", lambda line: line)
    made = compare_runs([cxr_runs[0], again], resamples=20)
    assert [run.name for run in made.runs] == ["knows.jsonl (knows)", "knows.jsonl (again)"]
    assert {figures[1] for figures in made.tests.values()} == {1.0}
