"""Batch files out, results back: any order, doubled, partial, broken; the release is the same each time."""

import json
import random
from collections import Counter

import pytest
from chat_server import completion, last_line
from kills import killed_copies
from scripted_engine import STUDIES, ScriptedEngine, build, records_of

from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.governance import Governance
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.batch_export import BatchOptions, export_batch
from mimic_cxr_vqa.generation.batch_import import import_batch
from mimic_cxr_vqa.generation.language_model import ALL
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.workspace import Workspace

QUESTIONS = 6 * STUDIES
ONE, TOGETHER = BatchOptions("m"), BatchOptions("m", questions_per_request=ALL)


def requests_in(folder):
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


def result(request, body=None, status=200, error=None):
    body = answer_body(request) if body is None else body
    response = {"status_code": status, "request_id": "r", "body": body}
    return {"id": "x", "custom_id": request["custom_id"], "response": response, "error": error}


def answer_body(request, text="Clear lungs are seen."):
    user = request["body"]["messages"][-1]["content"]
    numbered = [line for line in user.splitlines() if line.partition(". ")[0].isdecimal()]
    if not numbered:
        return completion(json.dumps({"answer": text}))
    return completion(json.dumps({"answers": [{"number": n, "answer": text} for n in range(1, len(numbered) + 1)]}))


def write_results(path, results):
    path.write_text("".join(json.dumps(line) + "\n" for line in results))
    return path


@pytest.mark.parametrize(("options", "requests"), [(ONE, QUESTIONS), (TOGETHER, STUDIES)])
def test_out_and_back_answers_every_question_whatever_the_order(tmp_path, options, requests):
    releases = []
    for number in range(2):
        workspace, folder = build(tmp_path / f"w{number}"), tmp_path / f"batch{number}"
        assert export_batch(workspace, folder, options) == {"requests": requests, "questions": QUESTIONS, "files": 1}
        lines = [result(request) for request in requests_in(folder)]
        random.Random(number).shuffle(lines)
        counts = import_batch(workspace, [write_results(tmp_path / "results.jsonl", lines)], "node-7")
        assert counts["taken"] == requests and counts["answered"] == QUESTIONS and counts["open"] == 0
        assert export_batch(workspace, folder, options)["requests"] == 0
        write_release(workspace)
        releases.append({file.name: file.read_bytes() for file in workspace.release.rglob("*.parquet")})
    assert releases[0] == releases[1] and releases[0]


def test_a_request_is_what_a_server_is_asked(tmp_path):
    workspace = build(tmp_path / "w")
    export_batch(workspace, tmp_path / "batch", ONE, limit=1)
    requests = requests_in(tmp_path / "batch")
    assert len(requests) == 6 and {r["url"] for r in requests} == {"/v1/chat/completions"}
    body = requests[0]["body"]
    assert body["model"] == "m" and body["response_format"]["type"] == "json_schema" and body["temperature"] == 0.0
    assert last_line(body, "radiograph: ") == "Clear lungs, study 0."
    assert len({request["custom_id"] for request in requests}) == 6


def test_files_hold_so_many_requests_each(tmp_path):
    workspace = build(tmp_path / "w")
    counts = export_batch(workspace, tmp_path / "b", BatchOptions("m", requests_per_file=10))
    assert counts["files"] == 4
    lengths = [len(file.read_text().splitlines()) for file in sorted((tmp_path / "b").glob("*.jsonl"))]
    assert lengths == [10, 10, 10, 6]


def test_doubled_partial_unknown_and_broken_results_are_counted_and_the_rest_is_exported_again(tmp_path):
    workspace, folder = build(tmp_path / "w"), tmp_path / "batch"
    export_batch(workspace, folder, ONE)
    requests = requests_in(folder)
    lines = [result(request) for request in requests[:10]]
    lines += [result(requests[0], answer_body(requests[0], "Another answer."))]  # doubled, and different
    lines += [{**lines[0], "custom_id": "0" * 32}, {**lines[0], "custom_id": "request-1"}]
    lines += [result(requests[10], status=429), result(requests[11], error={"code": "expired"})]
    lines += [result(requests[12], {"error": "too long"}, status=400)]
    path = write_results(tmp_path / "results.jsonl", lines)
    with open(path, "a") as file:
        file.write('[]\n"text"\n{"custom_id": 7}\n\n' + json.dumps(result(requests[13]))[:-40])  # cut
    counts = import_batch(workspace, [path], "node-7")
    assert counts == Counter(
        **{"taken": 11, "doubled": 1, "unknown": 2, "unreadable": 4, "unanswered": 2},
        **{"answered": 10, "flagged": 0, "failed": 1, "open": QUESTIONS - 11},
    )
    assert records_of(workspace)[0]["answer"] == "Clear lungs are seen."
    assert "status 400" in records_of(workspace)[10]["error"]
    again = import_batch(workspace, [path], "node-7")
    assert (again["taken"], again["doubled"]) == (0, 12)
    assert export_batch(workspace, folder, ONE)["questions"] == QUESTIONS - 11, "what is too long stays so"


@pytest.mark.parametrize("status", [[], {}, "200", None, True, 200.5, -1])
def test_a_result_with_a_status_that_is_none_stays_open(status, tmp_path):
    workspace, folder = build(tmp_path / "w", studies=1), tmp_path / "batch"
    export_batch(workspace, folder, ONE, limit=1)
    lines = [result(request, status=status) for request in requests_in(folder)]
    counts = import_batch(workspace, [write_results(tmp_path / "r.jsonl", lines)], "node-7")
    assert (counts["unanswered"], counts["open"]) == (6, 6)


def test_broken_rules_are_named_in_the_next_export_and_three_attempts_are_all(tmp_path):
    workspace, folder = build(tmp_path / "w", studies=1), tmp_path / "batch"
    for attempt in range(1, 4):
        counts = export_batch(workspace, folder, TOGETHER)
        requests = requests_in(folder)
        assert len(requests) == (1 if attempt == 1 else 6), "once together, then alone"
        named = ['do not use "new"' in request["body"]["messages"][-1]["content"] for request in requests]
        assert all(named) == any(named) == (attempt > 1)
        lines = [result(request, answer_body(request, "A new opacity.")) for request in requests]
        counts = import_batch(workspace, [write_results(tmp_path / "r.jsonl", lines)], "node-7")
        assert (counts["flagged"], counts["open"]) == (6, 0)
    assert export_batch(workspace, folder, TOGETHER)["requests"] == 0
    assert {record["attempts"] for record in records_of(workspace)} == {1, 2, 3}


def test_what_could_not_be_read_goes_out_again_alone_with_the_reason_named(tmp_path):
    """As a server is asked: twice more at most, once where the limit cut it, never where the request was refused."""
    workspace, folder = build(tmp_path / "w", studies=1), tmp_path / "batch"
    bodies = [
        (completion("no JSON"), 200, "it held no JSON object"),
        (completion(""), 200, "it was empty"),
        (completion("I cannot help with that."), 200, "it refused"),
        (completion('{"answer": "No', finish="length"), 200, "it was longer than is allowed"),
        ({"error": "too long"}, 400, None),
        ({"error": "no such model"}, 404, ""),
    ]
    export_batch(workspace, folder, ONE)
    by_user = dict(zip((r["body"]["messages"][-1]["content"] for r in requests_in(folder)), bodies, strict=True))
    for attempt, left in ((1, 6), (2, 5), (3, 4), (4, 1)):
        requests = requests_in(folder)
        asked = [request["body"]["messages"][-1]["content"].partition("\n\n") for request in requests]
        assert len(requests) == left
        for user, _, again in asked:
            reason = by_user[user][2]
            assert bool(again) == bool(reason and attempt > 1) and (not again or reason in again)
            assert again.startswith("Two earlier replies") == bool(reason and attempt == 3)
        lines = [result(r, *by_user[user][:2]) for r, (user, _, _) in zip(requests, asked, strict=True)]
        counts = import_batch(workspace, [write_results(tmp_path / "r.jsonl", lines)], "node-7")
        assert (counts["failed"], counts["open"], counts["unanswered"]) == (5, 1, 1), "another model's machine answered"
        export_batch(workspace, folder, ONE)


def test_what_is_missing_or_doubled_in_a_reply_to_several_is_asked_again_alone(tmp_path):
    workspace, folder = build(tmp_path / "w", studies=1), tmp_path / "batch"
    export_batch(workspace, folder, TOGETHER)
    (request,) = requests_in(folder)
    entries = [{"number": n, "answer": f"Answer {n}."} for n in (1, 2, 3, 3, 9)]
    body = completion(json.dumps({"answers": entries}))
    counts = import_batch(workspace, [write_results(tmp_path / "r.jsonl", [result(request, body)])], "node-7")
    assert (counts["answered"], counts["failed"]) == (2, 4)
    assert export_batch(workspace, folder, TOGETHER) == {"requests": 4, "questions": 4, "files": 1}
    lines = [result(request) for request in requests_in(folder)]
    assert import_batch(workspace, [write_results(tmp_path / "r.jsonl", lines)], "node-7")["answered"] == 6


def test_credentialed_batches_say_so_and_come_back_from_one_s_own_machine_only(tmp_path):
    workspace, folder = build(tmp_path / "w", governance=Governance.CREDENTIALED), tmp_path / "batch"
    export_batch(workspace, folder, ONE)
    (file,) = folder.glob("*.jsonl")
    assert file.name == "CREDENTIALED-batch-0001.jsonl"
    assert file.stat().st_mode & 0o077 == folder.stat().st_mode & 0o077 == 0
    assert "Credentialed Health Data Use Agreement" in (folder / "CREDENTIALED.txt").read_text()
    path = write_results(tmp_path / "r.jsonl", [result(request) for request in requests_in(folder)])
    with pytest.raises(GovernanceError, match="--i-run-this-server"):
        import_batch(workspace, [path], "node-7")
    with pytest.raises(ConfigError, match="--answered-by is empty"):
        import_batch(workspace, [path], " ", own_machine=True)
    assert not records_of(workspace)
    assert import_batch(workspace, [path], "node-7", own_machine=True)["answered"] == QUESTIONS
    notes = [json.loads(line) for line in (workspace.root / "batches" / "imports.jsonl").read_text().splitlines()]
    assert [note["answered_by"] for note in notes[1:]] == ["node-7"] and len(notes[1]["sha256"]) == 64


def test_nothing_was_exported_or_the_answers_are_another_engine_s(tmp_path):
    workspace = build(tmp_path / "w")
    with pytest.raises(InputError, match="requests.jsonl: no such file"):
        import_batch(workspace, [tmp_path / "r.jsonl"], "node-7")
    answer_questions(workspace, ScriptedEngine(), limit=1)
    with pytest.raises(ConfigError, match="engine was 'scripted', now 'batch'"):
        export_batch(workspace, tmp_path / "batch", ONE)


def test_as_typed(tmp_path, capsys):
    from medvqa_hub.cli import run

    workspace, folder = build(tmp_path / "w"), tmp_path / "batch"
    out = ["--out", str(workspace.root)]
    assert run(["cxr", "batch-export", *out, "--to", str(folder), "--model", "m", "--questions-per-request", "4"]) == 0
    assert "36 questions in 12 requests, 1 files" in capsys.readouterr().out
    path = write_results(tmp_path / "r.jsonl", [result(request) for request in requests_in(folder)])
    assert run(["cxr", "batch-import", *out, str(path), "--answered-by", "node-7"]) == 0
    assert "taken: 12" in capsys.readouterr().out
    assert run(["cxr", "release", *out]) == 0


IMPORT = """
import sys
from pathlib import Path
from kills import kill_at_each_write
from mimic_cxr_vqa.generation import batch_import
from mimic_cxr_vqa.workspace import Workspace
batch_import.AT_ONCE = 2
source, copies, results = sys.argv[1:]
kill_at_each_write(lambda f: batch_import.import_batch(Workspace(f), [Path(results)], "node-7"), source, copies)
"""


@pytest.mark.slow
def test_a_killed_import_leaves_the_same_bytes(tmp_path):
    source = build(tmp_path / "source", studies=2)
    export_batch(source, tmp_path / "batch", ONE)
    path = write_results(tmp_path / "r.jsonl", [result(request) for request in requests_in(tmp_path / "batch")])
    copies = killed_copies(IMPORT, source.root, tmp_path / "copies", path)
    import_batch(source, [path], "node-7")
    expected = source.answers.read_bytes()
    struck = set()
    for folder in copies:
        workspace = Workspace(folder)
        struck.add(len(workspace.answers.read_bytes().splitlines()))
        import_batch(workspace, [path], "node-7")
        assert workspace.answers.read_bytes() == expected
        assert (folder / "batches" / "imports.jsonl").read_bytes().count(b"\n") == 2, "noted once"
    assert struck == set(range(1, 14)), "from the export's header to the last of 12 answers, torn ones counted"
