"""`evaluate cxr --engine`: what a model is sent, what becomes of its replies, what is asked again and what is not."""

import base64
import io
import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builds import Build, build_release
from chat_server import ChatServerDouble, completion, connect_to, is_probe
from datasets import load_dataset
from PIL import Image

from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import FILE
from medvqa_hub.cli import run
from medvqa_hub.evaluation.cxr import prompts
from medvqa_hub.evaluation.cxr.engine_inference import ChatReader, ask_studies
from medvqa_hub.evaluation.cxr.prompts import StudyPrompt
from medvqa_hub.evaluation.cxr.studies import load_studies, shuffle_images
from mimic_cxr_vqa.images import read_film
from mimic_cxr_vqa.release import open_release


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("build"), studies=12, seed=1)


@pytest.fixture(scope="module")
def studies(build):
    return load_studies(open_release(build.workspace.release), "train", build.tree, limit=4)


def text_of(body: dict) -> str:
    return body["messages"][-1]["content"][-1]["text"]


def images_of(body: dict) -> list[bytes]:
    parts = body["messages"][-1]["content"][:-1]
    return [base64.b64decode(part["image_url"]["url"].split(",", 1)[1]) for part in parts]


def asked_of(double: ChatServerDouble) -> list[dict]:
    return [body for body in double.requests if not is_probe(body)]


def question_of(body: dict) -> str:
    return re.search(r"^Question: (.*)$", text_of(body), re.MULTILINE)[1]


def reader(double, **options) -> ChatReader:
    return ChatReader(connect_to(double, Governance.OPEN), StudyPrompt(**options))


def evaluate(build: Build, out: Path, double, *more: str) -> int:
    given = ["--data", build.workspace.root, "--image-root", build.tree, "--out", out]
    engine = ["--engine", f"server:{double.endpoint}", "--split", "train", "--limit", "6"]
    return run(["evaluate", "cxr", *map(str, given), *engine, *more])


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_study_is_one_prompt_with_its_views_and_its_questions_come_one_after_another(studies, tmp_path):
    with ChatServerDouble(lambda body: completion("No.")) as double:
        found, counts = ask_studies(reader(double), studies, tmp_path / FILE, Governance.OPEN)
    bodies = asked_of(double)
    assert counts["asked"] == len(bodies) == sum(len(study.rows) for study in studies)
    assert {p.answer for of_study in found for p in of_study} == {"No."}
    by_images: dict[tuple, list[dict]] = {}
    for body in bodies:
        by_images.setdefault(tuple(images_of(body)), []).append(body)
    assert len(by_images) == len(studies)
    for study in studies:
        sent = tuple(image.data for image in StudyPrompt().encode(study))
        of_study = by_images[sent]
        assert [question_of(body) for body in of_study] == [row["question"] for row in study.rows]
        expected = [f"Image {n}: {view} view." for n, view in enumerate(map(prompts.canonical_view, study.views), 1)]
        assert text_of(of_study[0]).splitlines()[: len(expected)] == expected
        for path, data in zip(study.images, sent, strict=True):  # the pixels that our own models read
            assert np.array_equal(np.array(Image.open(io.BytesIO(data))), np.array(read_film(path)))
        assert len({json.dumps(body["messages"][0]) for body in of_study}) == 1
    assert not any("Indication" in text_of(body) for body in bodies)


def test_images_are_encoded_once_a_study(studies, tmp_path, monkeypatch):
    encoded: Counter = Counter()
    encode = StudyPrompt.encode
    monkeypatch.setattr(StudyPrompt, "encode", lambda self, s: encoded.update([s.study_id]) or encode(self, s))
    with ChatServerDouble(lambda body: completion("No.")) as double:
        ask_studies(reader(double), studies, tmp_path / FILE, Governance.OPEN)
        assert encoded == dict.fromkeys((study.study_id for study in studies), 1)
        ask_studies(reader(double), studies, tmp_path / FILE, Governance.OPEN)
    assert set(encoded.values()) == {1}  # answered studies are not even read


def test_what_changed_is_asked_again_and_nothing_else(studies, tmp_path):
    with ChatServerDouble(lambda body: completion("No.")) as double:

        def asked(changed, **options) -> list[str]:
            before = len(double.requests)
            ask_studies(reader(double, **options), changed, tmp_path / FILE, Governance.OPEN)
            return [question_of(body) for body in double.requests[before:] if not is_probe(body)]

        every = [row["question"] for study in studies for row in study.rows]
        assert sorted(asked(studies)) == sorted(every)
        assert asked(studies) == []
        first, *others = studies
        other_question = ({**first.rows[0], "question": "Is there a tube?"}, *first.rows[1:])
        assert asked([replace(first, rows=other_question), *others]) == ["Is there a tube?"]
        path = tmp_path / "other.png"
        Image.fromarray(np.arange(64 * 64, dtype=np.uint8).reshape(64, 64)).save(path)
        other_image = replace(first, images=(path, *first.images[1:]))
        assert asked([other_image, *others]) == [row["question"] for row in first.rows]
        copy = tmp_path / "copy.jpg"
        shutil.copy(first.images[0], copy)  # the same content elsewhere is the same request
        assert asked([replace(first, images=(copy, *first.images[1:])), *others]) == []
        assert sorted(asked(studies, side=64)) == sorted(every)  # the prompt's image rule
        told = [study for study in studies if (study.indication or "").strip()]
        again = asked(studies, indication=True)
        assert len(again) == len(every) and told
    assert any("Indication: " in text_of(body) for body in asked_of(double))


def test_another_model_shares_nothing(studies, tmp_path, capsys, build):
    with ChatServerDouble(lambda body: completion("No."), models=("one", "two")) as double:
        assert evaluate(build, tmp_path / "out", double, "--model", "one") == 0
        assert evaluate(build, tmp_path / "out", double, "--model", "two") == 1
    assert "model was 'one', now 'two'" in capsys.readouterr().err


def test_a_perfect_model_has_full_marks_in_every_column(build, tmp_path, capsys):
    studies = load_studies(open_release(build.workspace.release), "train", build.tree, limit=6)
    prompt = StudyPrompt()
    answers = {
        (tuple(image.data for image in prompt.encode(study)), row["question"]): row["answer"]
        for study in studies
        for row in study.rows
    }

    def know(body):
        if is_probe(body):
            return completion("Hello.")
        return completion(answers[tuple(images_of(body)), question_of(body)])

    with ChatServerDouble(know) as double:
        assert evaluate(build, tmp_path / "out", double, "--scored", "--examples", "0") == 0
    assert "Table 4 row" in capsys.readouterr().out
    results = read(tmp_path / "out" / "results.json")
    row = results["table_4"]
    bleu_and_rouge = [row[name] for name in ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l")]
    assert bleu_and_rouge == pytest.approx([1.0] * 5, abs=1e-6)
    assert results["findings"] == results["ceiling"] and results["findings"]["accuracy"] == 1.0
    assert results["counts"]["failed"] == 0 and results["model"]["kind"] == "server"
    assert results["generation"]["image_rule"].startswith("grey, shorter side at most 512")
    lines = (tmp_path / "out" / "scored.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["error"] for line in lines] == [None] * results["counts"]["questions"]


def test_nothing_answered_is_an_error_not_a_zero(build, tmp_path, capsys):
    with ChatServerDouble(lambda body: completion("Hello.") if is_probe(body) else (400, {"error": "no"})) as double:
        assert evaluate(build, tmp_path / "out", double) == 1
    assert "No answer can be scored" in capsys.readouterr().err
    lines = (tmp_path / "out" / FILE).read_text(encoding="utf-8").splitlines()[1:]
    assert all(json.loads(line)["answer"] is None for line in lines)


def test_failures_are_records_with_their_reason_and_can_be_asked_again(studies, tmp_path):
    study = studies[0]
    cut = completion("There is", finish="length")
    replies = {study.rows[0]["question"]: (400, {"error": {"message": "image too large"}}),
               study.rows[1]["question"]: cut, study.rows[2]["question"]: "no JSON"}  # fmt: skip
    bad = True

    def reply(body):
        return completion("No.") if is_probe(body) or not bad else replies.get(question_of(body), completion("No."))

    with ChatServerDouble(reply) as double:
        found, _ = ask_studies(reader(double), [study], tmp_path / FILE, Governance.OPEN)
        errors = [p.error for p in found[0][:4]]
        assert errors[0] == "refused with status 400: image too large"
        assert errors[1].startswith("finish_reason=length") and errors[2] == "the server's reply is no chat completion"
        assert errors[3] is None and [p.answer for p in found[0][:3]] == [None] * 3
        bad, before = False, len(double.requests)
        found, counts = ask_studies(reader(double), [study], tmp_path / FILE, Governance.OPEN, retry_failed=True)
        assert counts["asked"] == 3 and {p.answer for p in found[0]} == {"No."}
        assert len(double.requests) == before + 1 + 3  # the probe, and three questions


def test_an_unreadable_image_fails_its_study_alone_and_blank_questions_are_not_asked(studies, tmp_path):
    path = tmp_path / "cut.jpg"
    path.write_bytes(studies[0].images[0].read_bytes()[:600])
    broken = replace(studies[0], images=(path, *studies[0].images[1:]))
    blank = replace(studies[1], rows=({**studies[1].rows[0], "question": " "}, *studies[1].rows[1:]))
    with ChatServerDouble(lambda body: completion("No.")) as double:
        found, _ = ask_studies(reader(double), [broken, blank], tmp_path / FILE, Governance.OPEN)
    assert all("cut.jpg" in p.error for p in found[0])
    assert [p.error for p in found[1]] == ["the question is empty", *[None] * (len(found[1]) - 1)]
    assert len(asked_of(double)) == len(blank.rows) - 1


def test_a_reasoning_model_s_thoughts_stay_apart(studies, tmp_path):
    with ChatServerDouble(lambda body: completion("<think>hm, yes</think> No edema.")) as double:
        found, _ = ask_studies(reader(double), studies[:1], tmp_path / FILE, Governance.OPEN)
    assert {p.answer for p in found[0]} == {"No edema."}
    assert found[0][0].details == {"tokens": 7, "reasoning": "<think>hm, yes</think>"}


def test_controls_send_other_images_and_blank_ones(build, tmp_path):
    with ChatServerDouble(lambda body: completion("No.")) as double:
        assert evaluate(build, tmp_path / "out", double, "--shuffle-images", "--blank-images", "--examples", "0") == 0
    studies = load_studies(open_release(build.workspace.release), "train", build.tree, limit=6)
    sent = {tuple(images_of(body)) for body in asked_of(double)}
    for exchanged in shuffle_images(studies, 0):
        assert tuple(image.data for image in StudyPrompt().encode(exchanged)) in sent
    grey = [data for images in sent for data in images if np.ptp(np.array(Image.open(io.BytesIO(data)))) == 0]
    assert grey
    names = ("results.json", "results-shuffled.json", "results-blank.json")
    own, shuffled, blank = (read(tmp_path / "out" / name)["counts"] for name in names)
    assert own["answered"] == shuffled["answered"] == blank["answered"] == own["questions"]
    keys = [tuple(images_of(body)) + (text_of(body),) for body in asked_of(double)]
    assert len(keys) == len(set(keys))  # blank studies ask alike: each distinct request once


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--beams", "4"], "not with --engine"),
        (["--bf16"], "not with --engine"),
    ],
)
def test_options_of_checkpoints_are_refused(build, tmp_path, capsys, more, expected):
    with ChatServerDouble(lambda body: completion("No.")) as double:
        assert evaluate(build, tmp_path / "out", double, *more) == 1
        assert not double.requests
    assert expected in capsys.readouterr().err


def test_credentialed_images_stay_here(build, tmp_path, capsys):
    folder = tmp_path / "cxr"
    shutil.copytree(build.workspace.release, folder)
    manifest = read(folder / "manifest.json")
    (folder / "manifest.json").write_text(json.dumps({**manifest, "governance": "credentialed"}))
    common = ["evaluate", "cxr", "--data", str(folder), "--image-root", str(build.tree), "--split", "train"]
    with ChatServerDouble(lambda body: completion("No.")) as double:
        for address, expected in (("http://10.0.0.9/v1", "10.0.0.9"), (double.endpoint, "--i-run-this-server")):
            assert run([*common, "--engine", f"server:{address}", "--out", str(tmp_path / "out")]) == 1
            assert expected in capsys.readouterr().err
        assert not double.requests
        own = ["--i-run-this-server", "--limit", "2", "--out", str(tmp_path / "out")]
        assert run([*common, "--engine", f"server:{double.endpoint}", *own]) == 0
    assert read(tmp_path / "out" / "results.json")["governance"] == "credentialed"
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0


def test_nothing_named_is_said(build, tmp_path, capsys):
    assert run(["evaluate", "cxr", "--data", str(build.workspace.root), "--image-root", str(build.tree),
                "--split", "train", "--out", str(tmp_path / "out")]) == 1  # fmt: skip
    assert "--model FOLDER, --engine" in capsys.readouterr().err


def test_a_server_that_goes_in_the_middle_ends_the_run_and_the_same_command_goes_on(build, tmp_path, capsys):
    """What was answered before is not asked again, and the predictions are those of a run without interruption."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    with ChatServerDouble(lambda body: completion("No.")) as steady:
        assert evaluate(build, whole, steady, "--examples", "0", "--slots", "2") == 0
    answered: list[str] = []

    def dies_after_a_study(body):
        if gone and len(answered) >= 120:
            return 503, {}
        if is_probe(body):
            return completion("Hello.")
        answered.append(question_of(body))
        return completion("No.")

    gone = True
    with ChatServerDouble(dies_after_a_study) as double:
        assert evaluate(build, out, double, "--examples", "0", "--slots", "2", "--wait", "1s") == 1
        assert "has not answered for" in capsys.readouterr().err
        kept = len((out / FILE).read_text(encoding="utf-8").splitlines()) - 1
        gone, before = False, len(double.requests)
        assert evaluate(build, out, double, "--examples", "0", "--slots", "2") == 0
        again = len([body for body in double.requests[before:] if not is_probe(body)])
    total = read(out / "results.json")["counts"]["questions"]
    assert 0 < kept < total and again <= total - kept  # replies of unfinished studies are kept elsewhere
    assert sorted((out / FILE).read_text().splitlines()) == sorted((whole / FILE).read_text().splitlines())


def test_a_bare_question_is_what_train_vlm_trains_on(build, tmp_path, capsys):
    options = {"data_dir": str(build.workspace.root), "image_root": str(build.tree), "split": "train"}
    rows = load_dataset("mimic_cxr_vqa", "chat", **options)
    taught = {row["prompt"][0]["content"][-1]["text"] for row in rows.remove_columns("images")}
    with ChatServerDouble(lambda body: completion("No.")) as double:
        assert evaluate(build, tmp_path / "out", double, "--bare-question", "--examples", "0") == 0
        asked = asked_of(double)
        assert evaluate(build, tmp_path / "two", double, "--bare-question", "--indication") == 1
    assert asked and all([message["role"] for message in body["messages"]] == ["user"] for body in asked)
    assert {text_of(body) for body in asked} <= taught and all(images_of(body) for body in asked)
    assert "cannot be combined with --indication" in capsys.readouterr().err
