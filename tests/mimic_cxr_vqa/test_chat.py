"""load_dataset("mimic_cxr_vqa", "chat", …): conversations, their images, and what is refused."""

import os

import PIL.Image
import pyarrow as pa
import pytest
from builds import Build, build_release
from datasets import load_dataset
from rows import qa_row

from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.loading_error import LoadingError
from medvqa_core.minimum_class import minimum_class_for_columns
from mimic_cxr_vqa.chat_rows import answered
from mimic_cxr_vqa.schema import QA_SCHEMA

NAME = "mimic_cxr_vqa"


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("chat"), rows_per_shard=60)


def load(build: Build, config: str = "chat", split: str = "train", **options):
    return load_dataset(
        NAME, config, data_dir=str(build.workspace.root), image_root=str(build.tree), split=split, **options
    )


def text_of(message: dict) -> str:
    return message["content"][-1]["text"]


def test_a_row_is_a_question_with_its_study_s_images(build):
    rows, plain = load(build), load(build, "default")
    assert len(rows) == len(plain) and {len(row["images"]) for row in rows} == {1, 2}
    for row, asked in zip(rows, plain, strict=True):
        parts = [{"type": "image"}] * len(asked["images"]) + [{"type": "text", "text": asked["question"]}]
        assert row["prompt"] == [{"role": "user", "content": parts}]
        assert row["completion"] == [{"role": "assistant", "content": [{"type": "text", "text": asked["answer"]}]}]
        assert [image.tobytes() for image in row["images"]] == [image.tobytes() for image in asked["images"]]
        assert row["ground_truth"] == asked["answer"]
        for column in ("question", "category", "label_value", "qa_id", "study_id", "subject_id", "image_paths"):
            assert row[column] == asked[column]


def test_a_study_s_questions_in_one_conversation(build):
    rows, studies = load(build, turns="study"), load(build, "studies")
    assert len(rows) == len(studies)
    for row, study in zip(rows, studies, strict=True):
        assert [message["role"] for message in row["messages"]] == ["user", "assistant"] * len(study["questions"])
        said = list(map(text_of, row["messages"]))
        assert said[::2] == row["question"] == [question["question"] for question in study["questions"]]
        assert said[1::2] == row["ground_truth"] == [question["answer"] for question in study["questions"]]
        assert row["qa_id"] == [question["qa_id"] for question in study["questions"]]
        parts = [[part["type"] for part in message["content"]] for message in row["messages"]]
        assert parts[0] == ["image"] * len(row["images"]) + ["text"] and set(map(tuple, parts[1:])) == {("text",)}
        assert len(row["images"]) == len(study["images"]) and row["study_id"] == study["study_id"]


@pytest.mark.parametrize("turns", ["study", pytest.param("question", marks=pytest.mark.slow)])
def test_streaming_and_two_processes_give_the_same_rows(build, turns, tmp_path):
    one = load(build, turns=turns)
    assert list(load(build, turns=turns, streaming=True)) == list(one)
    two = load(build, turns=turns, num_proc=2, cache_dir=str(tmp_path))
    assert build.manifest["splits"]["train"]["shards"] > 2 and list(two) == list(one)


def test_images_are_references_that_are_read_when_a_row_is(build):
    rows = load(build)
    images = rows.data.table.column("images").combine_chunks().flatten()
    assert images.field("bytes").null_count == len(images)
    files = set(images.field("path").to_pylist())
    assert files == {str(build.tree / "files" / path) for row in rows for path in row["image_paths"]}
    assert isinstance(rows[0]["images"][0], PIL.Image.Image)


def test_the_class_travels(build):
    assert get_dataset_governance(load(build)) is Governance.OPEN
    assert get_dataset_governance(load(build, turns="study", streaming=True)) is Governance.OPEN


def test_mimic_s_ids_raise_the_class_in_a_study_s_row_too():
    ids = pa.array([["s50414267-edema-1", "s50414267-edema-2"]])
    assert minimum_class_for_columns({"qa_id": ids}) is Governance.CREDENTIALED


def test_without_images_there_is_no_conversation(build, monkeypatch):
    monkeypatch.delenv("MIMIC_CXR_JPG_ROOT", raising=False)
    with pytest.raises(ConfigError, match="image_root"):
        load_dataset(NAME, "chat", data_dir=str(build.workspace.root))
    with pytest.raises(ConfigError, match="supports 'error' and 'skip'"):
        load(build, missing_images="none")


def test_a_row_whose_image_is_missing_is_an_error_or_left_out(build, tmp_path):
    gone = load(build)[0]["image_paths"][0]
    tree = tmp_path / "tree"
    for path in (build.tree / "files").rglob("*.jpg"):
        copy = tree / "files" / path.relative_to(build.tree / "files")
        if str(copy.relative_to(tree / "files")) != gone:
            copy.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, copy)
    options = {"data_dir": str(build.workspace.root), "image_root": str(tree), "split": "train"}
    with pytest.raises(LoadingError, match="image_root"):
        load_dataset(NAME, "chat", **options)
    left = load_dataset(NAME, "chat", missing_images="skip", **options)
    assert list(left["qa_id"]) == [row["qa_id"] for row in load(build) if gone not in row["image_paths"]]


@pytest.mark.parametrize(
    ("config", "turns", "message"), [("chat", "patient", "allowed are"), ("default", "study", "chat")]
)
def test_turns_that_mean_nothing_are_refused(build, config, turns, message):
    with pytest.raises(ConfigError, match=message):
        load(build, config, turns=turns)


def test_rows_without_an_answer_teach_nothing():
    rows = pa.Table.from_pylist([qa_row(), qa_row(slug="edema-2", answer=None), qa_row(answer="")], schema=QA_SCHEMA)
    assert answered(rows).column("qa_id").to_pylist() == [qa_row()["qa_id"]]
