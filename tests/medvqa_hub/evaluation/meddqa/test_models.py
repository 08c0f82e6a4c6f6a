"""Models behind a server on RJUA-MedDQA: what they are shown, what becomes of their replies, what is asked again."""

import io
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from chat_server import ChatServerDouble, completion, is_probe
from meddqa_server import (
    asked,
    asked_again,
    build_told_apart,
    evaluate,
    is_second,
    knowing,
    parts_of,
    question_of,
    serve,
)
from PIL import Image

from medvqa_core.errors import ConfigError
from medvqa_hub.cli import run
from rjua_meddqa.inference.questions import load_questions
from rjua_meddqa.inference.replies import READER


@pytest.fixture
def data(tmp_path):
    return build_told_apart(tmp_path / "data")


def plain(body: dict) -> str:
    """Something that can be read as an answer to any question."""
    return "A" if "选项" in question_of(body) else "正常"


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_model_that_knows_everything_scores_one_in_every_column(data, tmp_path):
    with serve(knowing(data)) as server:
        results = evaluate(data, tmp_path / "out", server)
    scores = results["scores"]
    for name in ("table_5", "table_6"):
        assert set(scores[name].values()) == {1.0}, name
    assert {value for value in scores["table_7"].values() if value is not None} == {1.0}
    assert results["counts"]["failed"] == 0 and results["model"]["name"] == "tiny (image)"
    assert results["model"]["prompt_version"].startswith("ours-")
    assert "longest side at most 1536 pixels, never enlarged" in results["model"]["images"]


def test_an_image_stands_before_its_question_and_is_encoded_once(data, tmp_path, monkeypatch):
    from rjua_meddqa.inference.page_images import ImageRule

    encoded, encode = Counter(), ImageRule.encode
    monkeypatch.setattr(ImageRule, "encode", lambda rule, path: encoded.update([path.name]) or encode(rule, path))
    with serve(lambda body: "正常") as server:
        evaluate(data, tmp_path / "out", server)
    assert encoded == {"blood.png": 1, "normal.png": 1, "scan.png": 1}
    for body in asked(server):
        assert [part["type"] for part in body["messages"][-1]["content"]] == ["image_url", "text"]
        assert body["messages"][0]["role"] == "system" and len(body["messages"]) == 2
    assert len(asked(server)) == len(load_questions(data).rows)


def test_a_large_image_is_reduced_and_a_small_one_is_sent_as_it_is(data, tmp_path):
    Image.new("RGB", (3000, 1500), "white").save(data / "images" / "blood.png")
    with serve(lambda body: "正常") as server:
        evaluate(data, tmp_path / "out", server, longest_side=600)
    sizes = {Image.open(io.BytesIO(parts_of(body["messages"][-1])[0][0])).size for body in asked(server)}
    assert sizes == {(600, 300), (40, 30)}
    small = (data / "images" / "scan.png").read_bytes()
    assert any(parts_of(body["messages"][-1])[0] == [small] for body in asked(server))


def test_without_context_no_question_has_its_passage(data, tmp_path):
    with serve(lambda body: "A") as server:
        evaluate(data, tmp_path / "with", server)
        texts = [parts_of(body["messages"][-1])[1] for body in asked(server)]
        server.requests.clear()
        evaluate(data, tmp_path / "without", server, context=False)
        bare = [parts_of(body["messages"][-1])[1] for body in asked(server)]
    assert sum("背景知识：\n背景知识" in text for text in texts) == 3
    assert len(bare) == len(texts) and not any("背景知识：" in text for text in bare)


def test_options_are_chosen_by_letter_or_letter_and_text(data, tmp_path):
    said = {"低钾血症": "选A", "限水": "B.限水"}

    def reply(body):
        question = question_of(body)
        return next((text for word, text in said.items() if word in question and "选项" in question), "无")

    with serve(reply) as server:
        results = evaluate(data, tmp_path / "out", server)
    assert results["scores"]["table_5"]["mc_accuracy"] == 1.0
    assert results["reader"] == READER
    row = next(row for row in lines_of(tmp_path / "out" / "predictions.jsonl")[1:] if row.get("said") == "选A")
    assert row["answer"] == "A.低钾血症"


def test_shots_are_of_the_same_kind_and_never_of_the_same_image(data, tmp_path):
    """Also not of a copy of the image under another name."""
    shutil.copy(data / "images" / "blood.png", data / "images" / "normal.png")
    rows = load_questions(data).rows
    kinds = {row.question.removeprefix("问题:").strip(): (row.task, row.answer_type) for row in rows}
    blood, scan = ((data / "images" / name).read_bytes() for name in ("blood.png", "scan.png"))
    with serve(lambda body: "正常") as server:
        results = evaluate(data, tmp_path / "out", server, shots=2)
        for body in asked(server):
            *before, last = body["messages"][1:]
            (own,), _ = parts_of(last)
            assert [message["role"] for message in before] == ["user", "assistant"] * (len(before) // 2)
            for message in before[::2]:
                (shown,), text = parts_of(message)
                assert shown != own and {shown, own} == {blood, scan}
                assert kinds[text.partition("问题：")[2]] == kinds[question_of(body)]
        first = server.requests[:]
        server.requests.clear()
        again = evaluate(data, tmp_path / "again", server, shots=2)
    assert asked(server) == [body for body in first if body in asked(server)]  # the same draw
    given = results["model"]["shots_given"]
    assert results["model"]["shots"] == 2 and set(given) == {"0", "1"} and sum(given.values()) == len(rows)
    assert results["model"]["shots_shown"] == again["model"]["shots_shown"] != []


def test_a_broken_image_is_no_example_and_fails_its_own_questions_alone(data, tmp_path):
    (data / "images" / "scan.png").write_bytes(b"no image")
    with serve(plain) as server:
        results = evaluate(data, tmp_path / "out", server, shots=1)
    assert not set(results["model"]["shots_shown"]) & {row.id for row in load_questions(data).rows if "scan" in row.id}
    assert results["by_image"]["scan.png"]["failed"] == results["by_image"]["scan.png"]["questions"]
    assert results["counts"]["failed"] == results["by_image"]["scan.png"]["failed"]


def test_replies_are_constrained_to_options_verdicts_and_lists(data, tmp_path):
    """A model that obeys the schema scores like one that ignores it and answers in words."""
    known = knowing(data)

    def obeys(body):
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        if schema is None:
            return known(body)
        kind, answer = schema["properties"]["answer"], known(body)
        if "enum" in kind:
            assert answer in kind["enum"]
            return json.dumps({"answer": answer}, ensure_ascii=False)
        return json.dumps({"answer": answer.split(";")}, ensure_ascii=False)

    with serve(obeys) as server:
        obeying = evaluate(data, tmp_path / "obeys", server)
        kinds = {str(body.get("response_format"))[:30] for body in asked(server)}
        assert len(kinds) == 2 and asked_again(server) == []
    with serve(known) as server:
        ignoring = evaluate(data, tmp_path / "ignores", server)
    with serve(known) as server:
        evaluate(data, tmp_path / "paper", server, prompt="paper")
        assert all("response_format" not in body for body in asked(server))
    assert obeying["scores"] == ignoring["scores"] and obeying["failures"] == ignoring["failures"] == {}


def test_a_reply_without_an_answer_is_asked_once_more_with_the_reason(data, tmp_path):
    def reply(body):
        return "正常" if is_second(body) else "可能是92或97"

    with serve(reply) as server:
        evaluate(data, tmp_path / "out", server)
        again = asked_again(server)
    assert any("several values" in body["messages"][-1]["content"] for body in again)
    assert all([m["role"] for m in body["messages"][-3:]] == ["user", "assistant", "user"] for body in again)
    rows = lines_of(tmp_path / "out" / "predictions.jsonl")[1:]
    assert sum("first" in row for row in rows) == len(again)


def test_what_is_asked_again_is_what_changed(data, tmp_path):
    out, rows = tmp_path / "out", load_questions(data).rows
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("=== any ===\n回答\n", encoding="utf-8")

    def ask(server, **asking) -> int:
        server.requests.clear()
        evaluate(data, out, server, **{"prompt": str(prompt)} | asking)
        return len(asked(server))

    with serve(lambda body: "正常") as server:
        assert ask(server) == len(rows)
        assert ask(server) == 0
        prompt.write_text("=== any ===\n回答\n=== table_qa/single_span ===\n一格\n", encoding="utf-8")
        cells = sum((row.task, row.answer_type) == ("table_qa", "single_span") for row in rows)
        assert ask(server) == cells > 0  # the wording of one kind
        Image.new("RGB", (40, 30), (99, 0, 0)).save(data / "images" / "scan.png")
        assert ask(server) == sum(row.img_path == "scan.png" for row in rows)  # one image
        assert ask(server, context=False) == sum(bool(row.context) for row in rows)  # what had a passage
        assert ask(server, shots=1) > 0 and ask(server, shots=1) == 0
        assert ask(server) == 0  # and back again: all is kept
        assert ask(server, longest_side=500) == len(rows)
        with pytest.raises(ConfigError, match="model was 'tiny', now 'other'"):
            server.models = ("tiny", "other")
            evaluate(data, out, server, model="other")


@pytest.mark.parametrize(
    "reply, reason",
    [
        ((400, {"error": {"message": "no images here"}}), "refused with status 400: no images here"),
        ("{", "the server's reply is no chat completion"),
        ({"choices": []}, "the server's reply is no chat completion"),
    ],
    ids=["images refused", "broken JSON", "no choices"],
)
def test_a_server_that_answers_badly_fails_questions_and_never_answers_them(data, tmp_path, reply, reason):
    from chat_server import ChatServerDouble, completion, is_probe

    with ChatServerDouble(lambda body: completion("hello") if is_probe(body) else reply) as server:
        results = evaluate(data, tmp_path / "out", server)
    assert results["failures"] == {reason: results["counts"]["asked"]}
    assert results["scores"]["all"]["accuracy"] == 0.0


def test_a_server_that_goes_away_stops_the_run_and_the_rest_is_asked_later(data, tmp_path):
    from medvqa_core.llm.server import ServerError

    rows, served = load_questions(data).rows, []

    def reply(body):
        if is_probe(body):
            return completion("hello") if len(served) <= 8 else (503, {})
        served.append(question_of(body))
        return (503, {}) if len(served) > 8 else completion(plain(body))

    out = tmp_path / "out"
    with ChatServerDouble(reply) as server, pytest.raises(ServerError, match="status 503"):
        evaluate(data, out, server, slots=1)
    kept = 8  # replies, also of a page with open questions
    assert not (out / "results.json").exists()
    with serve(plain) as server:
        results = evaluate(data, out, server)
        assert len(asked(server)) == results["asked_now"] == len(rows) - kept
    assert results["counts"]["failed"] == 0


def test_a_slow_server_keeps_an_images_questions_on_one_seat(data, tmp_path):
    with serve(lambda body: "正常", latency=0.01) as server:
        evaluate(data, tmp_path / "out", server, slots=2)
        assert server.most_at_once == 2
        server.most_at_once = 0
        evaluate(data, tmp_path / "many", server, slots=64)
        assert server.most_at_once == 3  # images, however many questions


def test_the_command_line(data, tmp_path, capsys):
    arguments = ["evaluate", "meddqa", "--data", str(data), "--out", str(tmp_path / "out")]
    assert run([*arguments, "--shots", "2"]) == 1
    assert "--shots" in capsys.readouterr().err
    assert run([*arguments, "--longest-side", "-9"]) == 1
    assert "--longest-side" in capsys.readouterr().err
    assert run([*arguments, "--engine", "esra-rules", "--model", "x"]) == 1
    assert "--model" in capsys.readouterr().err
    with serve(lambda body: "正常") as server:
        command = [*arguments, "--engine", f"server:{server.endpoint}", "--context", "no", "--shots", "1"]
        assert run(command) == 0
    assert "tiny (image) on" in capsys.readouterr().out
