"""load_dataset("rjua_meddqa", "chat", …): questions about report images as conversations."""

import shutil

import pytest
from datasets import load_dataset

from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.errors import ConfigError
from rjua_meddqa.data_folder import SAMPLE_DIR, open_folder

CONFIGS = ("questions", "reasoning_mc", "reasoning_sa")


def load(folder=SAMPLE_DIR, config="chat", **options):
    return load_dataset("rjua_meddqa", config, data_dir=str(folder), split="test", **options)


def test_every_question_of_either_kind_is_a_conversation():
    rows = load().remove_columns("images")
    asked = [row for config in CONFIGS for row in load(config=config).remove_columns("image")]
    kinds = {(row["img_path"], row["question"], row["answer_type"]): row for row in asked}
    assert len(rows) == len(asked) and {row["task"] for row in rows} == {row["task"] for row in asked}
    for row in rows:
        source = kinds[row["img_path"], row["question"], row["answer_type"]]
        context = source.get("context")
        text = f"{context}\n{source['question']}" if context else source["question"]
        assert row["prompt"] == [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}]
        answer = [{"type": "text", "text": row["ground_truth"]}]
        assert row["completion"] == [{"role": "assistant", "content": answer}]
        assert row["context"] == context and row["unanswerable"] == source.get("unanswerable")
    (image,) = load()[0]["images"]
    assert image.tobytes() == load(config="questions")[0]["image"].tobytes()


def test_answers_are_those_of_the_questions():
    questions = load(config="questions")
    assert load()["ground_truth"][: len(questions)] == questions["answer"][:]


def test_turns_are_not_supported():
    with pytest.raises(ConfigError, match="turns"):
        load(turns="study")


def test_the_governance_class_is_kept():
    assert get_dataset_governance(load()) is open_folder(SAMPLE_DIR).governance


def test_a_folder_with_one_kind_of_question_is_enough(tmp_path):
    folder = shutil.copytree(SAMPLE_DIR, tmp_path / "data")
    (folder / "manifest.json").unlink(missing_ok=True)
    for path in folder.glob("*reasoning*"):
        path.unlink()
    assert len(load(folder)) == len(load(config="questions"))


def test_rows_without_an_image_are_not_supported():
    with pytest.raises(ConfigError, match="'error' and 'skip'"):
        load(missing_images="none")
