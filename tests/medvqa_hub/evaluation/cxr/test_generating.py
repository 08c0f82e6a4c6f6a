"""Generating: batches of whole studies, resume after kill -9, failures recorded, the image controls."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from builds import Build, build_release
from evaluation_models import save_blip2, save_swin_ved, texts_of
from hypothesis import given
from hypothesis import strategies as st

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance
from medvqa_hub.evaluation.cxr.generating import generate_predictions
from medvqa_hub.evaluation.cxr.model_inference import StudyAnswerer
from medvqa_hub.evaluation.cxr.options import GenerationSettings
from medvqa_hub.evaluation.cxr.studies import Study, blank_images, load_studies, shuffle_images
from medvqa_hub.families.checkpoint import open_checkpoint
from medvqa_hub.launching import ProcessGroup
from mimic_cxr_vqa.release import open_release

GENERATION = GenerationSettings(max_new_tokens=8)
SETTINGS = {"model": "0" * 32}


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("build"), studies=24, seed=1)


@pytest.fixture(scope="module")
def studies(build) -> list[Study]:
    return load_studies(open_release(build.workspace.release), "train", build.tree, limit=8)


@pytest.fixture(scope="module")
def swin_ved(build, tmp_path_factory) -> Path:
    return save_swin_ved(tmp_path_factory.mktemp("swin_ved"), texts_of(open_release(build.workspace.release)))


@pytest.fixture(scope="module")
def model(swin_ved) -> StudyAnswerer:
    return StudyAnswerer(open_checkpoint(str(swin_ved)), GENERATION)


@pytest.fixture(scope="module")
def blip2(build, tmp_path_factory) -> Path:
    return save_blip2(tmp_path_factory.mktemp("blip2"), texts_of(open_release(build.workspace.release)))


@pytest.fixture(scope="module")
def multi_view(blip2) -> StudyAnswerer:
    return StudyAnswerer(open_checkpoint(str(blip2)), GENERATION)


def generate(studies, path, model, **options):
    return generate_predictions(studies, path, Governance.OPEN, SETTINGS, lambda: model, **options)


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def never_loaded() -> StudyAnswerer:
    raise AssertionError("the model was loaded although every prediction is there")


def test_answers_come_aligned_and_do_not_depend_on_batches(studies, model, tmp_path):
    few = studies[:3]
    one_by_one = [replace(study, rows=(row,)) for study in few for row in study.rows]
    together, counts = generate(few, tmp_path / "together.jsonl", model, questions_per_batch=200)
    by_study, _ = generate(few, tmp_path / "by_study.jsonl", model, questions_per_batch=1)
    singly, _ = generate(one_by_one, tmp_path / "singly.jsonl", model, questions_per_batch=1)
    assert [len(found) for found in together] == [len(study.rows) for study in few]
    ids = [[p.id for p in found] for found in together]
    assert ids == [[row["qa_id"] for row in study.rows] for study in few]
    texts = [p.answer for found in together for p in found]
    assert texts == [p.answer for found in by_study for p in found] == [p.answer for (p,) in singly]
    assert len(set(texts)) > 4, "a model that always says the same proves nothing"
    assert counts["asked"] == len(texts) == len(records(tmp_path / "together.jsonl"))
    assert all(p.details == {"tokens": 8, "truncated": True} for found in together for p in found)


def test_images_are_encoded_once_per_study(studies, model, tmp_path, monkeypatch):
    encoded = []
    encode = model.model.encode

    def counting(pixel_values, image_mask):
        encoded.append(int(image_mask.sum()))
        return encode(pixel_values, image_mask)

    monkeypatch.setattr(model.model, "encode", counting)
    generate(studies, tmp_path / "predictions.jsonl", model)
    assert sum(encoded) == sum(min(3, len(study.images)) for study in studies) and len(encoded) > 1


def test_a_second_run_does_not_load_the_model(studies, model, tmp_path):
    path = tmp_path / "predictions.jsonl"
    first, _ = generate(studies, path, model)
    before = path.read_bytes()
    again, counts = generate_predictions(studies, path, Governance.OPEN, SETTINGS, never_loaded)
    assert again == first and counts["asked"] == 0 and path.read_bytes() == before


def test_a_changed_image_is_asked_again(studies, model, tmp_path):
    copies = []
    for study in studies[:2]:
        files = [tmp_path / f"{study.study_id}-{number}.jpg" for number in range(len(study.images))]
        for file, image in zip(files, study.images, strict=True):
            file.write_bytes(image.read_bytes())
        copies.append(replace(study, images=tuple(files)))
    path = tmp_path / "predictions.jsonl"
    generate(copies, path, model)
    _, counts = generate(studies[:2], path, model)  # the same content under other names
    assert counts["asked"] == 0
    copies[0].images[0].write_bytes(studies[5].images[0].read_bytes())
    _, counts = generate(copies, path, model)
    assert counts["asked"] == len(copies[0].rows)


def broken_png() -> bytes:
    """Starts and ends as a PNG should; what lies between does not decode."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", b"not compressed at all") + chunk(b"IEND", b"")


def test_a_damaged_image_fails_its_study_alone_and_is_retried_only_on_request(studies, model, tmp_path):
    damaged = tmp_path / "damaged.png"
    damaged.write_bytes(broken_png())
    few = [studies[0], replace(studies[1], images=(damaged, *studies[1].images[1:])), studies[2]]
    path = tmp_path / "predictions.jsonl"
    found, _ = generate(few, path, model)
    assert all(p.answer is None and p.error for p in found[1])
    assert all(p.error is None for p in found[0] + found[2])
    clean, _ = generate([few[0], few[2]], tmp_path / "clean.jsonl", model)
    assert [p.answer for p in found[0] + found[2]] == [p.answer for part in clean for p in part]
    generate_predictions(few, path, Governance.OPEN, SETTINGS, never_loaded)
    _, counts = generate(few, path, model, retry_failed=True)
    assert counts["asked"] == len(few[1].rows)
    again, _ = generate_predictions(few, path, Governance.OPEN, SETTINGS, never_loaded)
    assert all(p.answer is None for p in again[1])


def test_a_study_without_an_image_and_an_empty_question_are_failures(studies, model, tmp_path):
    row = {**studies[1].rows[0], "question": "  "}
    few = [replace(studies[0], images=(), views=()), replace(studies[1], rows=(row, *studies[1].rows[1:]))]
    found, _ = generate(few, tmp_path / "predictions.jsonl", model)
    assert all(p.answer is None and "Study 0" in p.error for p in found[0])
    assert found[1][0].error == "the question is empty" and all(p.error is None for p in found[1][1:])


def test_multi_view_answers_and_records_a_study_of_unknown_views(studies, multi_view, tmp_path):
    few = [studies[0], replace(studies[1], views=("OBLIQUE",) * len(studies[1].views)), studies[2]]
    found, counts = generate(few, tmp_path / "predictions.jsonl", multi_view)
    assert all("OBLIQUE" in p.error for p in found[1])
    answered = found[0] + found[2]
    assert all(p.error is None for p in answered) and len({p.answer for p in answered}) > 1
    assert counts["asked"] == sum(map(len, found))


def test_blank_images_ask_each_question_once_and_differ_from_own_ones(studies, model, tmp_path):
    path = tmp_path / "predictions.jsonl"
    own, _ = generate(studies, path, model)
    blank = blank_images(studies)
    found, counts = generate(blank, path, model)
    distinct = {(len(s.images), s.views, row["question"]) for s in blank for row in s.rows}
    assert counts["asked"] == len(distinct) < sum(len(study.rows) for study in studies)
    pairs = [(a.answer, b.answer) for x, y in zip(own, found, strict=True) for a, b in zip(x, y, strict=True)]
    assert sum(a != b for a, b in pairs) > len(pairs) / 2
    said = {}
    for study, answers in zip(blank, found, strict=True):
        for row, prediction in zip(study.rows, answers, strict=True):
            key = (study.views, row["question"])
            assert said.setdefault(key, prediction.answer) == prediction.answer


def fake_studies(patients: list[int]) -> list[Study]:
    return [Study(n, p, "test", (Path(f"{n}.jpg"),), (f"view {n}",), ()) for n, p in enumerate(patients)]


@given(st.lists(st.integers(0, 6), min_size=2, max_size=40), st.integers(0, 1000))
def test_shuffled_images_are_a_permutation_that_leaves_every_patient(patients, seed):
    studies = fake_studies(patients)
    if 2 * Counter(patients).most_common(1)[0][1] > len(patients):
        with pytest.raises(InputError, match="cannot be exchanged"):
            shuffle_images(studies, seed)
        return
    shuffled = shuffle_images(studies, seed)
    owner = {study.images: study.subject_id for study in studies}
    assert [study.study_id for study in shuffled] == list(range(len(patients)))
    assert all(owner[study.images] != study.subject_id for study in shuffled)
    assert sorted(study.images for study in shuffled) == sorted(study.images for study in studies)
    assert all(study.views == (f"view {study.images[0].stem}",) for study in shuffled)
    assert shuffle_images(studies, seed) == shuffled


def test_seeds_shuffle_differently():
    studies = fake_studies(list(range(30)))
    assert len({tuple(study.images for study in shuffle_images(studies, seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize(
    ("values", "message"),
    [({"num_beams": 0}, "num_beams is 0"), ({"max_new_tokens": 0}, "at least 1"), ({"dtype": "int8"}, "bfloat16")],
)
def test_generation_settings_out_of_range(values, message):
    with pytest.raises(ConfigError, match=message):
        GenerationSettings(**values)


def test_bfloat16_answers(studies, swin_ved, tmp_path):
    settings = GenerationSettings(max_new_tokens=4, dtype="bfloat16")
    model = StudyAnswerer(open_checkpoint(str(swin_ved)), settings)
    found, _ = generate(studies[:1], tmp_path / "predictions.jsonl", model)
    assert str(model.model.dtype) == "torch.bfloat16" and all(p.error is None for p in found[0])


def test_greedy_answers_have_the_mean_log_probability_of_their_tokens(studies, swin_ved, blip2, tmp_path):
    import torch

    found = {}
    for name, folder in (("swin_ved", swin_ved), ("blip2", blip2)):
        model = StudyAnswerer(open_checkpoint(str(folder)), GenerationSettings(num_beams=1, max_new_tokens=8))
        found[name] = model, generate(studies[:2], tmp_path / f"{name}.jsonl", model)[0]
        assert all(-20 < p.details["logprob"] < 0 for answers in found[name][1] for p in answers)
    model, answers = found["swin_ved"]
    study, row, prediction = studies[0], studies[0].rows[0], answers[0][0]
    images, text = model.prepare_images([study]), model.processor(text=[row["question"]], study_index=[0])
    sequence = model.model.generate(**text, **images, num_beams=1, do_sample=False, max_new_tokens=8)
    with torch.no_grad():  # one pass over the whole sequence instead of token by token
        text |= {"input_ids": sequence, "attention_mask": torch.ones_like(sequence)}
        logits = model.model(**text, **images).logits[0, :-1]
    chosen = logits.log_softmax(-1).gather(1, sequence[0, 1:, None])[-prediction.details["tokens"] :]
    assert prediction.details["logprob"] == pytest.approx(chosen.mean().item(), abs=1e-3)


RUN = """
import sys
from pathlib import Path
from medvqa_core.governance import Governance
from medvqa_hub.evaluation.cxr.model_inference import StudyAnswerer
from medvqa_hub.evaluation.cxr.options import GenerationSettings
from medvqa_hub.families.checkpoint import open_checkpoint
from medvqa_hub.launching import ProcessGroup
from medvqa_hub.evaluation.cxr.generating import generate_predictions
from medvqa_hub.evaluation.cxr.studies import load_studies
from mimic_cxr_vqa.release import open_release
release, tree, checkpoint, out = map(Path, sys.argv[1:])
studies = load_studies(open_release(release), "train", tree, limit=8)
model = lambda: StudyAnswerer(open_checkpoint(str(checkpoint)), GenerationSettings(max_new_tokens=8))
generate_predictions(studies, out, Governance.OPEN, {"model": "0" * 32}, model, questions_per_batch=8)
"""


@pytest.mark.slow
def test_killed_and_restarted_it_leaves_the_same_records(build, studies, swin_ved, model, tmp_path):
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    generate(studies, whole, model, questions_per_batch=8)
    command = [sys.executable, "-c", RUN, str(build.workspace.release), str(build.tree), str(swin_ved), str(killed)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ)
    deadline = time.monotonic() + 120
    while not killed.exists() or killed.read_bytes().count(b"\n") < 2:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, "nothing was written"
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with open(killed, "ab") as file:
        file.write(b'{"key": "0123')  # and the machine died in the middle of a line
    done = len(records_of_bytes(killed))
    assert 0 < done < len(records(whole)), "killed too late to prove anything"
    _, counts = generate(studies, killed, model, questions_per_batch=8)
    assert counts["asked"] == len(records(whole)) - done
    keys = [record["key"] for record in records(killed)]
    assert len(set(keys)) == len(keys)
    assert sorted(map(str, records(killed))) == sorted(map(str, records(whole)))


def records_of_bytes(path: Path) -> list[bytes]:
    """Whole lines after the header."""
    return path.read_bytes().split(b"\n")[1:-1]


def test_an_image_of_absurd_size_is_a_failure_not_the_end_of_the_run(studies, model, tmp_path, monkeypatch):
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 100)
    found, _ = generate(studies[:1], tmp_path / "predictions.jsonl", model)
    assert all(p.answer is None and "exceeds limit" in p.error for p in found[0])


def test_a_launcher_s_cpus_are_used_where_there_are_gpus(monkeypatch):
    monkeypatch.delenv("ACCELERATE_USE_CPU", raising=False)
    assert ProcessGroup().device is None
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert ProcessGroup().device == "cpu"
