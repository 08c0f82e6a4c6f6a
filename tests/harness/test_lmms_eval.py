"""The tasks for lmms-eval: their files load, and their metrics on the bundled samples are those of `evaluate`.

One test needs lmms-eval itself and is skipped if it is not installed.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from paths import REPOSITORY

from medvqa_core.errors import GovernanceError
from medvqa_hub.cli import run
from medvqa_hub.evaluation.answer_files import read_answer_file
from rjua_meddqa import SAMPLE_DIR as MEDDQA_SAMPLE
from rjua_meddqa.inference.questions import load_questions

TASKS = REPOSITORY / "harness" / "lmms_eval"
CXR_SAMPLE = REPOSITORY / "mimic_cxr_vqa" / "sample"
KEYS = {
    "task", "dataset_path", "output_type", "test_split", "process_docs", "doc_to_visual", "doc_to_text",
    "doc_to_messages", "doc_to_target", "process_results", "generation_kwargs", "metric_list", "metadata",
}  # fmt: skip


@pytest.fixture(scope="module")
def utils():
    spec = importlib.util.spec_from_file_location("lmms_eval_utils", TASKS / "utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(utils, tmp_path_factory):
    """The bundled samples as lmms-eval loads them."""
    from datasets import load_dataset

    cache = str(tmp_path_factory.mktemp("cache"))
    cxr = load_dataset("mimic_cxr_vqa", "sample", split="test", cache_dir=cache)
    meddqa = load_dataset("rjua_meddqa", "sample", split="test", cache_dir=cache)
    return utils.cxr_process_docs(cxr), utils.meddqa_process_docs(meddqa)


def load(path: Path, functions: list) -> dict:
    """Load a task file with its `include`. `functions` collects each `!function`."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda _, node: functions.append(node.value) or node.value)
    found = yaml.load(path.read_text(encoding="utf-8"), Loader)
    included = found.pop("include", None)
    return (load(path.parent / included, functions) if included else {}) | found


@pytest.mark.parametrize("path", sorted(TASKS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_task_file_names_existing_functions(path, utils):
    functions: list[str] = []
    task = load(path, functions)
    assert task.keys() >= KEYS and task["task"] == path.stem
    assert task["dataset_path"] in ("mimic_cxr_vqa", "rjua_meddqa")
    for name in functions:
        module, _, function = name.partition(".")
        assert module == "utils" and callable(getattr(utils, function)), name
    measures = [metric["metric"] for metric in task["metric_list"]]
    expected = utils.tasks.CXR_MEASURES if task["dataset_path"] == "mimic_cxr_vqa" else utils.tasks.MEDDQA_MEASURES
    assert tuple(measures) == expected


def test_prompts_are_those_of_evaluate(rows, utils):
    from medvqa_hub.evaluation.cxr.prompts import STYLES, StudyPrompt
    from medvqa_hub.evaluation.cxr.studies import load_studies
    from mimic_cxr_vqa.release import open_release
    from rjua_meddqa.inference.engines import DocumentRequest
    from rjua_meddqa.inference.prompts import OUR_PROMPT

    cxr, meddqa = rows
    studies = {study.study_id: study for study in load_studies(open_release(CXR_SAMPLE), "test", CXR_SAMPLE)}
    for doc in cxr.select(range(0, len(cxr), 40)):
        system, user = utils.cxr_doc_to_messages(doc)
        study = studies[doc["study_id"]]
        assert system["content"][0]["text"] == STYLES["sentence"]
        assert user["content"][-1]["text"] == StudyPrompt().text(study, doc) == utils.cxr_doc_to_text(doc)
        assert len(user["content"]) - 1 == len(study.images) == len(utils.cxr_doc_to_visual(doc))
    doc = meddqa[0]
    row = load_questions(MEDDQA_SAMPLE).rows[0]
    request = DocumentRequest(row.id, row.image, row.question, row.task, row.answer_type, row.context)
    assert utils.meddqa_doc_to_text(doc) == OUR_PROMPT.user_text(request)
    assert utils.meddqa_doc_to_messages(doc)[1]["content"][0]["url"].mode == "RGB"


def write_log(path: Path, rows, records) -> Path:
    """Write a log like --log_samples."""
    lines = [
        {"doc_id": place, "target": row["answer"], "filtered_resps": text, "doc_hash": "0", **measures}
        for place, (row, (text, measures)) in enumerate(zip(rows, records, strict=True))
    ]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def replies(rows) -> list[str]:
    """Right, wrong, empty and failed replies in turn."""
    kinds = ("{}", "No such thing is seen. 无", "", "[LMMS_EVAL_REQUEST_FAILED after 3 retries] x", "{} or not")
    return [kinds[place % len(kinds)].format(row["answer"]) for place, row in enumerate(rows)]


def evaluated(dataset, data, log, out, *more) -> dict:
    """The results of `evaluate --predictions` on a log."""
    options = ["--data", data, "--predictions", log, "--out", out, *more]
    assert run(["evaluate", dataset, *map(str, options)]) == 0
    return json.loads((out / "results.json").read_text())


def test_cxr_figures_are_those_of_evaluate_on_the_log(rows, utils, tmp_path):
    said = replies(rows[0])
    made = [(text, utils.cxr_process_results(doc, [text])) for doc, text in zip(rows[0], said, strict=True)]
    measured = {
        name: getattr(utils, f"cxr_{name}")([record[name] for _, record in made]) for name in utils.tasks.CXR_MEASURES
    }
    log = write_log(tmp_path / "samples.jsonl", rows[0], made)
    results = evaluated("cxr", CXR_SAMPLE, log, tmp_path / "out", "--split", "test")
    assert measured["failed"] == results["counts"]["failed"] == len([text for text in said if text.startswith("[")])
    assert measured["finding_accuracy"] == results["findings"]["accuracy"]
    for name in utils.tasks.CXR_TEXT_SCORES:
        assert measured[name] == pytest.approx(results["table_4"][name], abs=1e-12), name


def test_meddqa_figures_are_those_of_evaluate_on_the_log(rows, utils, tmp_path):
    questions = load_questions(MEDDQA_SAMPLE).rows
    assert [row["id"] for row in rows[1]] == [row.id for row in questions]
    said = replies(rows[1])
    made = [(text, utils.meddqa_process_results(doc, [text])) for doc, text in zip(rows[1], said, strict=True)]
    log = write_log(tmp_path / "samples.jsonl", rows[1], made)
    results = evaluated("meddqa", MEDDQA_SAMPLE, log, tmp_path / "out")
    for name in utils.tasks.MEDDQA_MEASURES:
        measured = getattr(utils, f"meddqa_{name}")([record[name] for _, record in made])
        expected = results["counts"]["failed"] if name == "failed" else results["scores"]["table_5"][name]
        assert measured == pytest.approx(expected, abs=1e-12), name


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("lmms_eval") is None, reason="lmms-eval is not installed here")
def test_lmms_eval_runs_a_task_to_its_scores(tmp_path):
    """Its dummy model gets the same scores from `evaluate --predictions` on its log."""
    task = "mimic_cxr_vqa_sample"
    command = [sys.executable, "-m", "lmms_eval", "--model", "dummy", "--include_path", str(TASKS), "--tasks", task,
               "--log_samples", "--output_path", str(tmp_path)]  # fmt: skip
    subprocess.run(command, check=True, env={**os.environ, "HF_HOME": str(tmp_path / "hf")}, timeout=600)
    (log,) = tmp_path.rglob(f"*_samples_{task}.jsonl")
    (written,) = tmp_path.rglob("*_results.json")
    theirs = json.loads(written.read_text())["results"][task]
    ours = evaluated("cxr", CXR_SAMPLE, log, tmp_path / "out", "--split", "test")["table_4"]
    assert {name: theirs[f"{name},none"] for name in ours if f"{name},none" in theirs} == pytest.approx(
        {name: value for name, value in ours.items() if f"{name},none" in theirs}
    )


def test_a_log_without_ids_is_read_by_position_and_checked(rows, tmp_path):
    references = {row["qa_id"]: row["answer"] for row in rows[0]}
    log = write_log(tmp_path / "samples.jsonl", rows[0], [("No.", {})] * len(rows[0]))
    assert read_answer_file(log, references).counts["missing"] == 0


def test_credentialed_rows_need_the_user_s_confirmation(utils, monkeypatch, tmp_path):
    from datasets import load_dataset

    monkeypatch.delenv("MEDVQA_HUB_I_RUN_THIS_MODEL", raising=False)
    rows = load_dataset("mimic_cxr_vqa", "sample", split="test", cache_dir=str(tmp_path))
    utils.cxr_process_docs(rows)  # synthetic
    for description in ("governance class: credentialed", ""):  # undeclared data is credentialed
        rows.info.description = description
        with pytest.raises(GovernanceError, match="MEDVQA_HUB_I_RUN_THIS_MODEL=1"):
            utils.cxr_process_docs(rows)
    monkeypatch.setenv("MEDVQA_HUB_I_RUN_THIS_MODEL", "1")
    assert utils.cxr_process_docs(rows)[0]["images"][0].keys() == {"bytes", "path"}
