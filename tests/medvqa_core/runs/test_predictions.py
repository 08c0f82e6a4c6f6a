"""Predictions: keys of content, failures apart from answers, resume, parts of several processes."""

import json

import pytest

from medvqa_core.errors import ConfigError, GovernanceError, InputError, OutputError
from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import Prediction, PredictionStore, merge_parts, part_path

SETTINGS = {"model": "a" * 32, "num_beams": 2}
OPEN = Governance.OPEN


def make(store: PredictionStore, number: int, error: str | None = None) -> Prediction:
    key = store.key(images=["x"], question=str(number))
    return Prediction(key, f"row-{number}", None if error else f"answer {number}", error, {"tokens": number})


def lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("answer", "error"), [("yes", "broken"), (None, None)])
def test_a_prediction_is_an_answer_or_a_failure(answer, error):
    with pytest.raises(ValueError, match="answer or an error"):
        Prediction("0" * 32, "row", answer, error)


def test_an_empty_answer_is_an_answer():
    assert Prediction("0" * 32, "row", "").error is None


def test_predictions_come_back_and_failures_stay_failures(tmp_path):
    path = tmp_path / "predictions.jsonl"
    with PredictionStore(path, OPEN, SETTINGS) as store:
        good, bad = make(store, 1), make(store, 2, "image cannot be decoded")
        store.append([good, bad])
        store.append([])
    assert [record.get("error") for record in lines(path)[1:]] == [None, "image cannot be decoded"]
    assert lines(path)[2]["answer"] is None and len(lines(path)) == 3
    assert path.stat().st_mode & 0o777 == 0o600
    with PredictionStore(path, OPEN, read_only=True) as store:
        assert store.settings == SETTINGS and list(store.predictions()) == [good, bad]
        assert not store.is_open(good.key) and not store.is_open(bad.key)
        assert store.is_open(bad.key, retry_failed=True) and not store.is_open(good.key, retry_failed=True)
        assert store.is_open(store.key(question="3")) and store.find(store.key(question="3")) is None


def test_a_key_depends_on_settings_and_on_all_that_is_asked(tmp_path):
    keys = set()
    for number, settings in enumerate([SETTINGS, {**SETTINGS, "num_beams": 1}, {**SETTINGS, "model": "b" * 32}]):
        with PredictionStore(tmp_path / f"{number}.jsonl", OPEN, settings) as store:
            for images in (["x"], ["y"], ["x", "y"], []):
                keys |= {store.key(images=images, question=question) for question in ("Edema?", "edema?")}
    assert len(keys) == 3 * 4 * 2


def test_other_settings_and_weaker_classes_are_refused(tmp_path):
    path = tmp_path / "predictions.jsonl"
    PredictionStore(path, Governance.CREDENTIALED, SETTINGS).close()
    with pytest.raises(ConfigError, match="num_beams was 2, now 4"):
        PredictionStore(path, Governance.CREDENTIALED, {**SETTINGS, "num_beams": 4})
    with pytest.raises(GovernanceError, match="cannot become open"):
        PredictionStore(path, OPEN, SETTINGS)


def test_a_record_that_is_no_prediction_is_an_error(tmp_path):
    path = tmp_path / "predictions.jsonl"
    with PredictionStore(path, OPEN, SETTINGS) as store:
        key = make(store, 1).key
    with open(path, "a") as file:
        file.write(json.dumps({"key": key, "id": "row", "answer": None, "error": None}) + "\n")
    with PredictionStore(path, OPEN, SETTINGS) as store, pytest.raises(InputError, match=key):
        store.find(key)


def test_parts_are_merged_once_whenever_the_merge_was_killed(tmp_path):
    path = tmp_path / "predictions.jsonl"
    with PredictionStore(path, OPEN, SETTINGS) as store:
        first = make(store, 0)
        store.append([first])
    for process in (0, 1):
        with PredictionStore(part_path(path, process), OPEN, SETTINGS) as part:
            part.append([make(part, 10 * process + number) for number in (1, 2)])
    saved = part_path(path, 0).read_bytes()
    assert merge_parts(path, OPEN, SETTINGS) == 4
    part_path(path, 0).write_bytes(saved)  # killed after the records were written, before the part was removed
    assert merge_parts(path, OPEN, SETTINGS) == 0
    assert [record["id"] for record in lines(path)[1:]] == ["row-0", "row-1", "row-2", "row-11", "row-12"]
    assert list(tmp_path.iterdir()) == [path] and merge_parts(path, OPEN, SETTINGS) == 0


def test_a_part_of_another_run_is_not_merged(tmp_path):
    path = tmp_path / "predictions.jsonl"
    PredictionStore(part_path(path, 0), OPEN, {**SETTINGS, "model": "b" * 32}).close()
    with pytest.raises(ConfigError, match="model was"):
        merge_parts(path, OPEN, SETTINGS)


def test_two_writers_are_refused(tmp_path):
    path = tmp_path / "predictions.jsonl"
    with PredictionStore(path, OPEN, SETTINGS), pytest.raises(OutputError, match="another process"):
        PredictionStore(path, OPEN, SETTINGS)
