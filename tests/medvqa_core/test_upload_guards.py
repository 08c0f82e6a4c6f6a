"""Restricted rows are not uploaded, whatever was done to them, and other rows are."""

import io
import itertools
import sqlite3
import subprocess
import sys

import datasets
import fsspec
import pytest
from datasets import (
    Dataset,
    DatasetDict,
    Features,
    Image,
    IterableDatasetDict,
    List,
    concatenate_datasets,
    interleave_datasets,
)

import mimic_cxr_vqa  # noqa: F401 - registers the builder, and with it the guards
from medvqa_core.dataset_class import declare, describe_dataset, get_dataset_governance
from medvqa_core.errors import GovernanceError
from medvqa_core.governance import Governance
from medvqa_core.upload_guards import is_local_target

OPEN, CREDENTIALED = Governance.OPEN, Governance.CREDENTIALED
REFUSED = [Governance.NO_DERIVATIVES, CREDENTIALED]


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    """Fail when something reaches the client of the Hub."""

    def left(*_args, **_kwargs):
        raise AssertionError("left the machine")

    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", left)
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", left)
    monkeypatch.setattr("huggingface_hub.HfApi.create_commit", left)
    monkeypatch.setattr("huggingface_hub.HfApi.preupload_lfs_files", left)


def make(governance: Governance | None, **columns) -> Dataset:
    rows = Dataset.from_dict(columns or {"answer": ["no effusion", "effusion"]})
    return rows if governance is None else declare(rows, governance)


def containers(rows: Dataset) -> list:
    stream = rows.to_iterable_dataset()
    return [rows, stream, DatasetDict(train=rows), IterableDatasetDict({"train": stream})]


@pytest.mark.parametrize("governance", REFUSED)
def test_declared_rows_are_not_pushed(governance):
    for rows in containers(make(governance)):
        with pytest.raises(GovernanceError, match=f"{governance}.*the Hub"):
            rows.push_to_hub("me/rows")
        with pytest.raises(GovernanceError):
            rows.push_to_hub("me/rows", private=True)


@pytest.mark.parametrize(
    "columns",
    [
        {"subject_id": [10000032]},
        {"images": [["p10/p10000032/s50414267/a.jpg"]]},
        {"qa_id": ["a"], "study_id": ["b"], "question": ["c"]},  # our columns
        {"study_id": [1], "qa_id": ["a"], "messages": ["b"]},
    ],
)
def test_evidence_in_undeclared_rows_is_enough(columns):
    for rows in containers(Dataset.from_dict(columns)):
        with pytest.raises(GovernanceError, match="credentialed.*the Hub"):
            rows.push_to_hub("me/rows")


PATH = "files/p10/p10000032/s50414267/02aa804e.jpg"


@pytest.mark.parametrize(
    "columns",
    [
        {"subject_id": [10000032.0, None]},  # after an outer join
        {"subject_id": ["10000032"]},
        {"study_id": ["50414267.0"]},
        {"meta": [{"source": {"subject_id": 10000032}}]},
        {"messages": [[{"role": "user", "content": [{"type": "image", "path": PATH}]}]]},
        {"file_name": ["x.jpg"] * 1500 + [PATH]},
        {"x": ["D:\\mimic\\" + PATH.replace("/", "\\")]},
        {name: ["a"] for name in ("question", "answer", "category", "label_value", "provenance")},
    ],
)
def test_ids_in_other_forms_and_places_are_evidence(columns):
    with pytest.raises(GovernanceError, match="credentialed.*the Hub"):
        Dataset.from_dict(columns).push_to_hub("me/rows")


@pytest.mark.parametrize(
    "columns",
    [
        {"population": [10000032], "price": [50414267.0], "order_id": ["10000032"]},
        {"subject_id": [1.5, None], "study_id": ["A1"], "meta": [{"subject_id": 7}]} | {"subject_id": [1.5]},
        {"image": ["book/p10/p100.jpg", "img/p1000003/s5041426.png", "tv/s50/e01.jpg"]},
        {"question": ["a"], "answer": ["b"], "category": ["c"], "image": ["p1.png"]},
        {"when": [b"p10000032/s50414267"], "vector": [[10000032.0, 50414267.0]], "nothing": [None]},
    ],
)
def test_numbers_and_paths_of_others_are_no_evidence(columns):
    with pytest.raises(AssertionError, match="left the machine"):
        Dataset.from_dict(columns).push_to_hub("me/rows")


@pytest.mark.parametrize("governance", [OPEN, Governance.SHARE_ALIKE, None])
def test_open_and_unrelated_rows_pass_the_guard(governance):
    for rows in containers(make(governance)):
        with pytest.raises(AssertionError, match="left the machine"):
            rows.push_to_hub("me/rows")


def test_one_restricted_split_is_enough():
    splits = DatasetDict(train=make(OPEN), test=make(CREDENTIALED))
    with pytest.raises(GovernanceError, match="DatasetDict.*credentialed"):
        splits.push_to_hub("me/rows")


REMOTE = ["hf://datasets/me/rows/x", "s3://bucket/x", "https://example.com/x", "ftp://host/x", "simplecache::s3://b/x"]


@pytest.mark.parametrize("url", REMOTE)
def test_nothing_restricted_is_written_to_another_machine(url):
    for governance in REFUSED:
        rows = make(governance)
        stream = rows.to_iterable_dataset()
        for write in (rows.to_csv, rows.to_json, rows.to_parquet, stream.to_csv, stream.to_json, stream.to_parquet):
            with pytest.raises(GovernanceError, match="must not go to"):
                write(url)
            with pytest.raises(GovernanceError):
                write(path_or_buf=url)
        with pytest.raises(GovernanceError):
            rows.save_to_disk(url)
        with pytest.raises(GovernanceError):
            rows.save_to_disk(dataset_path=url)
        with pytest.raises(GovernanceError):
            DatasetDict(train=rows).save_to_disk(url)


def test_neither_an_open_remote_file_nor_a_database_server_gets_rows():
    rows = make(CREDENTIALED)
    remote = fsspec.spec.AbstractBufferedFile.__new__(fsspec.spec.AbstractBufferedFile)
    remote.closed = True  # nothing to flush when it is thrown away
    for target in (remote, object()):
        with pytest.raises(GovernanceError):
            rows.to_json(target)
    for connection in ("postgresql://me:secret@127.0.0.1/rows", "mysql://host/rows"):
        with pytest.raises(GovernanceError) as caught:
            rows.to_sql("rows", connection)
        assert "secret" not in str(caught.value)


def test_a_refusal_shows_no_key_of_the_address():
    with pytest.raises(GovernanceError) as caught:
        make(CREDENTIALED).to_csv("https://host/x?signature=secret")
    assert "secret" not in str(caught.value)


def test_restricted_rows_are_written_on_this_machine(tmp_path):
    rows = make(CREDENTIALED)
    rows.save_to_disk(str(tmp_path / "saved"))
    rows.to_csv(tmp_path / "rows.csv")
    rows.to_parquet(f"file://{tmp_path}/rows.parquet")
    rows.to_json(io.BytesIO())
    with open(tmp_path / "rows.json", "wb") as file:
        rows.to_json(file)
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        rows.to_sql("rows", connection)
    assert len(list(tmp_path.iterdir())) == 5
    assert get_dataset_governance(datasets.load_from_disk(str(tmp_path / "saved"))) is CREDENTIALED


@pytest.mark.parametrize("target", ["rows.csv", "/tmp/a:b", "C:rows", "file:///tmp/x"])
def test_local_targets(target):
    assert is_local_target(target)


CLASSES = [*Governance, None]


@pytest.mark.parametrize(("left", "right"), list(itertools.product(CLASSES, CLASSES)))
def test_joined_rows_have_the_strictest_declared_class(left, right):
    expected = max((part for part in (left, right) if part), key=lambda part: part.level, default=CREDENTIALED)

    def parts():
        return [make(left, a=["x"]), make(right, a=["y"])]

    beside = [make(left, a=["x"]), make(right, b=["y"])]
    joined = [
        concatenate_datasets(parts()),
        concatenate_datasets(beside, axis=1),
        interleave_datasets(parts()),
        interleave_datasets(parts(), probabilities=[0.5, 0.5], seed=0),
        concatenate_datasets([part.to_iterable_dataset() for part in parts()]),
        interleave_datasets([part.to_iterable_dataset() for part in parts()]),
        concatenate_datasets([concatenate_datasets(parts()), parts()[0]]),
        concatenate_datasets(parts()).map(lambda row: {"c": row["a"]}).filter(lambda row: True).select([0]),
        datasets.combine.concatenate_datasets(parts()),
        datasets.arrow_dataset._concatenate_map_style_datasets(parts()),
    ]
    assert [get_dataset_governance(rows) for rows in joined] == [expected] * len(joined)


def test_rows_that_were_read_again_do_not_declare_a_class(tmp_path):
    rows = make(OPEN)
    rows.to_parquet(tmp_path / "rows.parquet")
    rows.to_csv(tmp_path / "rows.csv")
    again = [
        Dataset.from_dict(rows.to_dict()),
        Dataset.from_list(rows.to_list()),
        Dataset.from_pandas(rows.to_pandas()),
        Dataset.from_generator(lambda: iter(rows)),
        Dataset.from_parquet(str(tmp_path / "rows.parquet"), cache_dir=str(tmp_path)),
        Dataset.from_csv(str(tmp_path / "rows.csv"), cache_dir=str(tmp_path)),
        Dataset.from_list([left | {"b": right["answer"]} for left, right in zip(rows, rows, strict=True)]),
        datasets.load_dataset("parquet", data_files=str(tmp_path / "rows.parquet"), split="train", streaming=True),
    ]
    assert {get_dataset_governance(found) for found in again} == {CREDENTIALED}


MIMIC_ROWS = [
    {"subject_id": [10000032]},
    {"study_id": [59999999]},
    {"study_id": [90000001, 50414267]},
    {"patient_id": ["p10000032"]},
    {"study_id": ["s50414267"]},
    {"qa_id": ["s50414267-edema-1"]},
    {"images": [["p10/p10000032/s50414267/a.jpg"]]},
    {"image_paths": [["p95/p95000001/s95000001/a.jpg"], ["p10/p10000032/s50414267/a.jpg"]]},
    {"images": [[{"path": "/data/files/p10/p10000032/s50414267/a.jpg", "bytes": None}]]},
]


@pytest.mark.parametrize("columns", MIMIC_ROWS)
def test_mimic_ids_are_credentialed_whatever_is_declared(columns):
    rows = Dataset.from_dict(columns)
    with pytest.raises(GovernanceError, match="credentialed.*open"):
        declare(rows, OPEN)
    rows.info.description = describe_dataset("all mine", OPEN)
    assert get_dataset_governance(rows) is CREDENTIALED
    with pytest.raises(GovernanceError):
        rows.push_to_hub("me/rows")


IMAGES = {"images": [[{"path": "/data/files/p10/p10000032/s50414267/a.jpg", "bytes": None}]]}


@pytest.mark.parametrize("columns", MIMIC_ROWS[-3:-2] + [{"qa_id": [["s50414267-edema-1"]]}, IMAGES])
@pytest.mark.parametrize("mapped", [False, True])
def test_the_first_row_of_a_stream_is_checked(columns, mapped):
    """With lists of ids and images that name their files, and with unknown columns after a map."""
    features = Features({"images": List(Image(decode=False))}) if columns is IMAGES else None
    rows = Dataset.from_dict(columns, features=features).to_iterable_dataset()
    rows = rows.map(lambda row: row | {"more": 1}) if mapped else rows
    rows.info.description = describe_dataset("all mine", OPEN)
    assert get_dataset_governance(rows) is CREDENTIALED
    with pytest.raises(GovernanceError, match="credentialed.*open"):
        declare(rows, OPEN)


@pytest.mark.parametrize("streaming", [False, True])
def test_images_name_their_origin_under_any_name(streaming):
    rows = Dataset.from_dict(IMAGES, features=Features({"images": List(Image())})).rename_column("images", "films")
    rows = rows.to_iterable_dataset() if streaming else rows
    with pytest.raises(GovernanceError, match="credentialed.*open"):
        declare(rows, OPEN)


@pytest.mark.parametrize(
    "columns",
    [
        {"subject_id": [95000001, 3999], "study_id": [95000001, 1]},
        {"subject_id": [9_999_999], "study_id": [49_999_999]},
        {"subject_id": [20_000_000], "study_id": [60_000_000]},
        {"subject_id": [None], "qa_id": ["s95000001-edema-1"]},
        {"images": [["p95/p95000001/s95000001/a.jpg", None], None]},
    ],
)
def test_other_ids_do_not_need_a_class(columns):
    assert get_dataset_governance(declare(Dataset.from_dict(columns), OPEN)) is OPEN


def test_a_declared_class_cannot_be_lowered():
    with pytest.raises(GovernanceError, match="cannot become open"):
        declare(make(CREDENTIALED), OPEN)
    assert get_dataset_governance(declare(make(OPEN), CREDENTIALED)) is CREDENTIALED


SCRIPT = """
import datasets, mimic_cxr_vqa
rows = datasets.load_dataset("mimic_cxr_vqa", "sample", split="test", streaming={streaming})
rows.info.description = rows.info.description.replace("open", "credentialed")
try:
    rows.push_to_hub("me/rows")
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("order", "streaming"),
    [
        ("", False),
        pytest.param("", True, marks=pytest.mark.slow),
        pytest.param("import datasets, datasets.combine\n", False, marks=pytest.mark.slow),
        ("import datasets, datasets.combine\n", True),
    ],
)
def test_a_script_that_only_loads_our_rows_is_guarded(order, streaming):
    done = subprocess.run(
        [sys.executable, "-c", order + SCRIPT.format(streaming=streaming)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "GovernanceError", done.stderr
