"""Answers by a language model: what it is told, how replies are matched to questions, what becomes of broken ones."""

import asyncio
import json

import pytest
from chat_server import ChatServerDouble, completion, connect_to, is_probe, last_line
from hypothesis import given
from hypothesis import strategies as st

from medvqa_core.errors import ConfigError
from medvqa_core.llm import server as servers
from medvqa_core.llm.json_reply import ReplyError
from medvqa_core.llm.server import ChatServer
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.language_model import ALL, LanguageModel, read_answer, read_answers
from mimic_cxr_vqa.generation.lint import RULES
from mimic_cxr_vqa.generation.prompts import NO_INDICATION, SYSTEM, SYSTEM_MANY, Prompt, read_prompt
from mimic_cxr_vqa.generation.retries import UNREAD

QUESTIONS = ("Is Edema observed?", "Can Edema be detected?", "Are there signs of Edema?")


def study(study_id=1, questions=QUESTIONS, findings="There is {mild} edema.", **fields):
    return [
        AnswerRequest(f"s{study_id}-edema-{n}", study_id, "Edema", question, "Cough.", findings, **fields)
        for n, question in enumerate(questions, 1)
    ]


def ask(double, *studies, **settings):
    async def run():
        async with ChatServer(double.endpoint, wait=1) as server:
            engine = LanguageModel(server, **settings)
            return await asyncio.gather(*(engine.answer(requests) for requests in studies))

    return asyncio.run(run())


def good(body):
    """Answers whatever it is asked, one question or several."""
    if is_probe(body):
        return completion('{"number": 1}')
    user = body["messages"][-1]["content"]
    asked = user.partition("question: ")[2]
    if not asked.startswith("\n"):
        return completion(json.dumps({"question": asked, "answer": f"Seen: {asked}"}))
    lines = [line.partition(". ") for line in asked.strip().splitlines()]
    return completion(json.dumps({"answers": [{"number": int(n), "answer": f"Seen: {q}"} for n, _, q in lines]}))


def test_the_prompt_carries_every_rule_of_the_appendix_and_the_question_last():
    for word in ("unchanged", "previous", "follow-up", "progressive", "interval", "mentioned", "described", "JSON"):
        assert word in SYSTEM
    words = [rule.partition(":")[2] for rule, _ in RULES if rule.startswith("prohibited:")]
    assert len(words) == 17 and all(word in SYSTEM for word in words)
    filled = Prompt().fill("Cough.", "Lungs {clear}: {question}.", ["Is Edema observed?"])
    assert filled == "indication: Cough.\nradiograph: Lungs {clear}: {question}.\nquestion: Is Edema observed?"
    assert Prompt().fill(None, "f", ["q"]).startswith(f"indication: {NO_INDICATION}\n")
    assert "numbered" in SYSTEM_MANY and SYSTEM_MANY != SYSTEM


def test_prompt_version_is_pinned():
    """A change of wording is a change of the dataset: answers of two wordings are not mixed. Change this on purpose."""
    assert Prompt().version == "ours-baa6e36ad3bf"
    assert Prompt(user="findings: {findings}").version != Prompt().version


def test_a_question_a_request_in_order_sharing_what_stands_in_front():
    with ChatServerDouble(good) as double:
        (replies,) = ask(double, study())
    assert [reply.answer for reply in replies] == [f"Seen: {question}" for question in QUESTIONS]
    users = [body["messages"][-1]["content"] for body in double.requests[1:]]
    assert [last_line(body, "question: ") for body in double.requests[1:]] == list(QUESTIONS)
    assert len({user.partition("question: ")[0] for user in users}) == 1
    assert double.most_at_once == 1


@pytest.mark.parametrize("size, requests", [(ALL, 1), (2, 2)])
def test_several_questions_a_request(size, requests):
    with ChatServerDouble(good) as double:
        (replies,) = ask(double, study(), questions_per_request=size)
    assert [reply.answer for reply in replies] == [f"Seen: {question}" for question in QUESTIONS]
    assert len(double.requests) == 1 + requests


@pytest.mark.parametrize(
    "entries, alone",
    [
        ([(1, "a"), (3, "c")], 1),
        ([(1, "a"), (2, "b"), (2, "no"), (3, "c")], 1),
        ([(1, "a"), (2, " "), (3, "c")], 1),
        ([(0, "a"), (4, "b"), (True, "c")], 3),
        ("nonsense", 3),
    ],
)
def test_answers_that_are_missing_or_doubled_are_asked_again_alone(entries, alone):
    def reply(body):
        if is_probe(body) or not body["messages"][-1]["content"].endswith(QUESTIONS[2]) or "1. " not in str(body):
            return good(body)
        answers = [{"number": n, "answer": text} for n, text in entries] if isinstance(entries, list) else entries
        return completion(json.dumps({"answers": answers}))

    with ChatServerDouble(reply) as double:
        (replies,) = ask(double, study(), questions_per_request=ALL)
    assert len(double.requests) == 2 + alone
    assert [reply.error for reply in replies] == [None] * 3
    assert sum(reply.answer.startswith("Seen") for reply in replies) == alone


def test_an_echo_may_differ_in_case_and_punctuation():
    assert read_answer('{"question": "is edema observed", "answer": " No. "}', "Is Edema observed?") == "No."


@given(st.lists(st.tuples(st.integers(-1, 5), st.text(max_size=4))))
def test_an_entry_counts_only_if_its_number_stands_once(entries):
    found = read_answers({"answers": [{"number": n, "answer": text} for n, text in entries]}, 3)
    for number, text in found.items():
        assert [t.strip() for n, t in entries if n == number] == [text]


def test_prompt_files(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("Be brief.\n=== user ===\nI: {indication}\nF: {findings}\nQ: {question}\n")
    prompt = read_prompt(path)
    assert prompt.system == "Be brief." and prompt.version.startswith("file-")
    assert prompt.fill("i", "f", ["q"]) == "I: i\nF: f\nQ: q"
    for text in ("no mark", "s\n=== user ===\n{findings}", "s\n=== user ===\n{question} {findings} {indication}"):
        path.write_text(text)
        with pytest.raises(ConfigError, match="prompt.txt"):
            read_prompt(path)
    with pytest.raises(ConfigError, match="none"):
        read_prompt(tmp_path / "none")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(servers, "FIRST_PAUSE", 0.001)


def write_workspace(tmp_path, studies=6):
    from mimic_cxr_vqa.generation.question_writer import write_questions
    from mimic_cxr_vqa.phantom.tree import write_phantom
    from mimic_cxr_vqa.sources.physionet import read_studies
    from mimic_cxr_vqa.workspace import Workspace

    write_phantom(tmp_path / "phantom", studies, seed=3, size=64)
    workspace = Workspace(tmp_path / "cxr")
    write_questions(read_studies(tmp_path / "phantom"), workspace, seed=0)
    return workspace


@pytest.mark.parametrize("size", ["1", "all"])
def test_a_server_s_answers_become_a_release_with_their_provenance(tmp_path, capsys, size):
    """The command line, from questions to rows; a stopped run goes on and asks nothing twice."""
    from medvqa_hub.cli import run
    from mimic_cxr_vqa.release import open_release

    workspace = write_workspace(tmp_path)
    with ChatServerDouble(good) as double:
        command = ["cxr", "answer", "--out", str(workspace.root), "--engine", f"server:{double.endpoint}"]
        command += ["--questions-per-request", size]
        assert run([*command, "--limit", "2"]) == 0
        first = len(double.requests)
        assert run(command) == 0
        assert run(command) == 0 and "asked: 0" in capsys.readouterr().out
        asked = [body for body in double.requests if not is_probe(body)]
    assert run(["cxr", "release", "--out", str(workspace.root)]) == 0
    rows = [row for batch in open_release(workspace.release).iterate_all() for row in batch.to_pylist()]
    assert len(rows) == workspace.manifest()["counts"]["questions"] and first < len(asked) <= len(rows)
    assert all(row["answer"] == f"Seen: {row['question']}" for row in rows)
    (described,) = open_release(workspace.release).manifest["language_models"]
    assert (described["served_by"], described["schema"], described["seed"]) == ("double", "enforced", True)
    assert "address" not in described and described["own_server"] is False
    provenance = rows[0]["provenance"]
    assert (provenance["engine"], provenance["model"]) == ("server", "tiny")
    assert provenance["revision"] == "double, schema enforced"
    assert provenance["prompt_version"] == f"{Prompt().version}, questions per request: {size}"


@pytest.mark.parametrize("size", [1, ALL])
def test_a_reply_that_cannot_be_read_is_asked_for_again_alone_with_the_reason_named(tmp_path, size):
    from mimic_cxr_vqa.generation.answers import answer_questions

    workspace = write_workspace(tmp_path, 3)

    def reply(body):
        user = body["messages"][-1]["content"]
        question, _, again = user.partition("question: ")[2].partition("\n\n")
        if is_probe(body):
            return good(body)
        if question.startswith("\n"):
            return completion("nothing for the many")
        if "Effusion" in question:
            return 400, {"error": "too long"}
        texts = {"": "I cannot help with that.", "it refused": '{"answer": "No', "was cut off": '{"answer": "Clear."}'}
        return completion(next(text for said, text in reversed(texts.items()) if said in again))

    with ChatServerDouble(reply) as double:
        engine = LanguageModel(connect_to(double, workspace.governance(), wait="1s"))
        engine.questions_per_request = size
        counts = answer_questions(workspace, engine)
    records = [json.loads(line) for line in workspace.answers.read_text().splitlines()[1:]]
    outcomes = {(record["answer"], record["error"], record["attempts"]) for record in records}
    assert outcomes == {("Clear.", None, 3), (None, "refused with status 400: too long", 1)}
    assert (counts["answered"], counts["failed"]) == (engine.counts.answered, engine.counts.failed)
    many = sum("\n1. " in body["messages"][-1]["content"] for body in double.requests)
    studies = workspace.studies_with_questions() if size == ALL else 0
    assert many == studies and len(double.requests) == 1 + many + 3 * counts["answered"] + counts["failed"]


def test_a_server_that_lost_its_model_ends_the_run_in_one_line_with_everything_kept(tmp_path, capsys):
    from medvqa_hub.cli import run
    from mimic_cxr_vqa.generation.answers import count_answers

    workspace = write_workspace(tmp_path)
    questions = workspace.manifest()["counts"]["questions"]
    with ChatServerDouble(good) as double:
        command = ["cxr", "answer", "--out", str(workspace.root), "--engine", f"server:{double.endpoint}"]
        command += ["--model", "tiny", "--slots", "2"]
        assert run([*command, "--limit", "2"]) == 0
        met = len(double.requests)
        kept = count_answers(workspace)["answered"]

        def another_model(body):
            is_first = len(double.requests) <= met + 2  # the probe and one question
            return good(body) if is_first else (404, {"error": {"message": "The model `tiny` does not exist."}})

        double.reply = another_model
        capsys.readouterr()
        assert run(command) == 1
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "rejects" in line]
        assert "404: The model `tiny` does not exist." in line and "Finished answers are kept" in line
        counts = count_answers(workspace)
        assert counts["answered"] >= kept > 0 and counts["failed"] == 0 and counts["open"] > 0
        double.reply = good
        assert run(command) == 0
    assert count_answers(workspace) == {"answered": questions, "flagged": 0, "failed": 0, "open": 0}


def test_options_of_a_server_are_refused_with_another_engine(tmp_path, capsys):
    from medvqa_hub.cli import run

    workspace = write_workspace(tmp_path, 2)
    options = ["--model x", "--prompt-file p.txt", "--questions-per-request all", "--slots 2", "--wait 1s"]
    for option in map(str.split, [*options, "--load-in 4bit", "--i-run-this-server", "--attestation a.txt"]):
        assert run(["cxr", "answer", "--out", str(workspace.root), *option]) == 1
        assert "language models" in (error := capsys.readouterr().err) and "'extractive'" in error
    assert not workspace.answers.exists()


def test_what_a_run_would_leave_aside_is_refused_before_anything_is_read(tmp_path, capsys):
    from medvqa_hub.cli import run

    server = "--engine server:http://127.0.0.1:1/v1"
    for options, said in (
        ("--engine gpt", "'gpt' is unknown. Expected extractive, server:URL"),
        ("--engine extractive --engine extractive", "only servers share the work"),
        (f"{server} --questions-per-request none", "--questions-per-request 'none'"),
        ("--dry-run --shard 1/2 --limit 3", "--shard, --limit cannot be combined with --dry-run"),
        (f"{server} --probe 2 --ray local", "--ray cannot be combined with --dry-run"),
        ("--ray-workers 2", "--ray-workers and --ray-gpus"),
    ):
        assert run(["cxr", "answer", "--out", str(tmp_path / "absent"), *options.split()]) == 1
        assert said in capsys.readouterr().err


def test_a_dry_run_counts_and_asks_nothing_and_a_probe_says_how_long_the_rest_takes(tmp_path, capsys):
    from medvqa_hub.cli import run
    from mimic_cxr_vqa.generation.answers import count_answers

    workspace = write_workspace(tmp_path)
    questions = workspace.manifest()["counts"]["questions"]
    with ChatServerDouble(good, latency=0.01) as double:
        command = ["cxr", "answer", "--out", str(workspace.root), "--engine", f"server:{double.endpoint}"]
        assert run([*command, "--dry-run", "--questions-per-request", "all"]) == 0
        said = capsys.readouterr().out
        studies = workspace.studies_with_questions()
        assert f"to ask: {questions:,} questions about {studies} studies in {studies} requests" in said
        assert all(map(is_probe, double.requests)) and not workspace.answers.exists()
        assert run([*command, "--dry-run", "--probe", "2"]) == 0
        said = capsys.readouterr().out
        asked = len([body for body in double.requests if not is_probe(body)])
        assert f"in {questions} requests; run --probe 50 for tokens" in said
        assert f"probe: {asked} questions in " in said and "60% cached, 0 flagged, 0 failed" in said
        left = questions - asked
        assert f"remaining: {left} questions, {107 * left:,} tokens, 0.0 hours; 0.0 GPU hours with one GPU" in said
        assert "64 slots" in said
        assert count_answers(workspace)["answered"] == asked, "what a probe answers is kept"
        assert run([*command, "--probe", "2"]) == 0 and run(command) == 0
        assert len([body for body in double.requests if not is_probe(body)]) == questions
    assert run(["cxr", "answer", "--out", str(tmp_path / "cxr"), "--probe", "2"]) == 1
    assert "only applies to language models" in capsys.readouterr().err


def test_throughput_counts_what_models_say_and_invents_nothing():
    from medvqa_core.llm.chat import ChatReply, Usage
    from medvqa_core.llm.throughput import Throughput

    class Session:
        def __init__(self, reply):
            self.reply = reply

        async def chat(self, request):
            return self.reply

    def count(counts, reply):
        asyncio.run(counts.chat(Session(reply), None))

    counts = Throughput(started=10.0)
    assert str(Throughput()) == ""
    count(counts, ChatReply("a", usage=Usage(100, None, 20)))
    counts.answered, counts.ended = 1, 14.0
    assert str(counts) == "0.2 answers/s, 30 tokens/s, 0 flagged, 0 failed"
    count(counts, ChatReply(None, "no", usage=Usage(100, 50, None)))
    counts.failed, counts.ended = 1, 14.0
    assert str(counts) == "0.5 answers/s, 55 tokens/s, 25% cached, 0 flagged, 1 failed"


@pytest.mark.parametrize(
    "answer", ["...", "N/A", "error", "<your answer>", QUESTIONS[0], "As an AI, I cannot see images."]
)
def test_what_says_nothing_is_no_answer_and_is_asked_again(answer):
    with pytest.raises(ReplyError) as refused:
        read_answer(json.dumps({"answer": answer}), QUESTIONS[0])
    assert any(str(refused.value).startswith(start) for start in UNREAD), "retries has no words for it"
    if answer != QUESTIONS[0]:
        assert read_answers({"answers": [{"number": 1, "answer": answer}]}, 1) == {}


@pytest.mark.parametrize("answer", ["No.", "Yes", "Cardiomegaly.", "Nothing else is seen."])
def test_a_short_answer_is_one(answer):
    assert read_answer(json.dumps({"answer": answer}), QUESTIONS[0]) == answer
