"""load_dataset("mimic_cxr_vqa", …): configs, images and their policies, the default release, the cache, damage."""

import csv
import errno
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import PIL.Image
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from builds import Build, build_release, describe_again
from datasets import concatenate_datasets, load_dataset
from paths import REPOSITORY

import mimic_cxr_vqa
from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.errors import ConfigError, InputError, OutputError, one_line
from medvqa_core.governance import Governance
from medvqa_core.loading_error import LoadingError
from mimic_cxr_vqa.release import export_authors_csv, open_release, record_last_release
from mimic_cxr_vqa.sample_writer import write_sample
from mimic_cxr_vqa.schema import QA_SCHEMA, QUESTION_SCHEMA

NAME = "mimic_cxr_vqa"


def load(source: Build | Path, config: str = "default", **options):
    folder = source.workspace.root if isinstance(source, Build) else source
    return load_dataset(NAME, config, data_dir=str(folder), **options)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("sharded"), rows_per_shard=60)


@pytest.fixture
def own_copy(sharded, tmp_path) -> Build:
    """A build that a test may damage."""
    shutil.copytree(sharded.tree, tmp_path / "tree")
    shutil.copytree(sharded.workspace.root, tmp_path / "cxr")
    return Build(tmp_path / "tree", type(sharded.workspace)(tmp_path / "cxr"), sharded.manifest)


@pytest.fixture
def csv_folder(sharded, tmp_path) -> Path:
    export_authors_csv(open_release(sharded.workspace.root), tmp_path / "csv")
    return tmp_path / "csv"


@pytest.fixture
def authors_folder(csv_folder) -> Path:
    """CSV files without a manifest, as the authors release them."""
    (csv_folder / "manifest.json").unlink()
    return csv_folder


def edit_csv(path: Path, change) -> list[list[str]]:
    """Apply `change` to the list of lines, header first."""
    with open(path, newline="") as file:
        lines = list(csv.reader(file))
    change(lines)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(lines)
    return lines


# --- configs and splits


def test_default_config_has_every_row_and_the_columns_of_the_schema(sharded):
    splits = load(sharded)
    assert {name: len(rows) for name, rows in splits.items()} == {
        {"validate": "validation"}.get(split, split): counts["rows"]
        for split, counts in sharded.manifest["splits"].items()
    }
    assert splits["train"].column_names == QA_SCHEMA.names
    assert all(isinstance(path, str) for path in splits["train"][0]["images"])
    assert len(set(splits["train"]["qa_id"])) == len(splits["train"])


def test_studies_config_has_the_same_questions_once_per_study(sharded):
    studies, rows = load(sharded, "studies", split="train"), load(sharded, split="train")
    assert len(studies) == len(set(rows["study_id"])) == sharded.manifest["splits"]["train"]["studies"]
    grouped = [(q["qa_id"], q["answer"]) for study in studies for q in study["questions"]]
    assert grouped == list(zip(rows["qa_id"], rows["answer"], strict=True))
    assert all(study["findings"] for study in studies)


def test_questions_config_does_not_need_answers(own_copy):
    shutil.rmtree(own_copy.workspace.release)
    own_copy.workspace.answers.unlink()
    for folder in (own_copy, own_copy.workspace.questions):
        splits = load(folder, "questions")
        assert splits["train"].column_names == QUESTION_SCHEMA.names
        assert sum(map(len, splits.values())) == own_copy.manifest["counts"]["questions"]
        with pytest.raises(LoadingError, match="medvqa-hub cxr answer"):
            load(folder)


@pytest.mark.parametrize(
    "config", ["studies", *(pytest.param(name, marks=pytest.mark.slow) for name in ("default", "questions"))]
)
def test_streaming_and_processes_give_the_same_rows(sharded, config, tmp_path):
    rows = load(sharded, config, split="train").to_list()
    stream = load(sharded, config, split="train", streaming=True)
    assert next(iter(stream)) == rows[0]  # a stream can be read in part and again
    assert list(stream) == list(stream) == rows
    assert sharded.manifest["splits"]["train"]["shards"] > 2
    assert load(sharded, config, split="train", num_proc=2, cache_dir=str(tmp_path)).to_list() == rows


def test_the_folder_loads_without_the_builder(sharded):
    folder = str(sharded.workspace.release)
    assert load_dataset(folder)["validation"].num_rows == sharded.manifest["splits"]["validate"]["rows"]
    assert load_dataset(folder, "studies")["test"].num_rows == sharded.manifest["splits"]["test"]["studies"]


def test_mimic_s_name_of_the_validation_split(sharded):
    assert load(sharded, split="validate[:3]")["split"][:] == ["validate"] * 3
    assert [set(part["split"]) for part in load(sharded, split=["train", "validate"])] == [{"train"}, {"validate"}]


def test_a_relative_folder_is_found_after_a_change_of_folder(sharded, monkeypatch, tmp_path):
    monkeypatch.chdir(sharded.workspace.root.parent)
    stream = load(Path(sharded.workspace.root.name), split="train", streaming=True)
    monkeypatch.chdir(tmp_path)
    assert next(iter(stream))["split"] == "train"


def test_wrong_options_are_refused(sharded):
    with pytest.raises(ConfigError, match="data_dir"):
        load(sharded, data_files=str(next((sharded.workspace.release / "qa").glob("train-*"))))
    with pytest.raises(ConfigError, match="duplicates='all'.*error and first"):
        load(sharded, duplicates="all")
    with pytest.raises(ValueError, match="'everything' not found.*sample"):
        load(sharded, "everything")


# --- governance


def test_the_class_stays_with_the_rows(sharded, tmp_path):
    rows = load(sharded, split="train")
    filtered = rows.filter(lambda row: row["answer_type"] == "open").select(range(5))
    filtered.save_to_disk(str(tmp_path / "saved"))
    assert get_dataset_governance(filtered) is Governance.OPEN
    rows.info.description = "no class"
    assert get_dataset_governance(rows) is Governance.CREDENTIALED


def test_files_without_a_manifest_are_credentialed(sharded, csv_folder, tmp_path):
    assert open_release(csv_folder).governance is Governance.OPEN
    (csv_folder / "manifest.json").unlink()
    strict = load(csv_folder, split="test", cache_dir=str(tmp_path / "cache"))
    assert get_dataset_governance(strict) is Governance.CREDENTIALED
    folders = list(Path(strict.cache_files[0]["filename"]).parents)[:3]
    assert any(stat.S_IMODE(folder.stat().st_mode) == 0o700 for folder in folders), "the cache is private"
    lax = load(sharded, split="test")
    assert get_dataset_governance(concatenate_datasets([strict, lax])) is Governance.CREDENTIALED
    assert get_dataset_governance(concatenate_datasets([lax, lax])) is Governance.OPEN


# --- images


def test_images_decode_when_a_row_is_read(sharded, monkeypatch):
    row = load(sharded, image_root=str(sharded.tree), split="train")[0]
    assert [image.size for image in row["images"]] == [(64, 64)] * len(row["views"])
    first = PIL.Image.open(sharded.tree / "files" / row["image_paths"][0])
    assert row["images"][0].tobytes() == first.tobytes()
    monkeypatch.setenv("MIMIC_CXR_JPG_ROOT", str(sharded.tree))
    assert isinstance(load(sharded, split="test")[0]["images"][0], PIL.Image.Image)


@pytest.fixture
def damaged(own_copy) -> tuple[Build, set[str]]:
    """A build with one image absent, one of zero bytes and one truncated, and their paths."""
    rows = open_release(own_copy.workspace.root)
    paths = sorted({p for batch in rows.iterate_all() for row in batch.to_pylist() for p in row["images"]})
    absent, empty, cut = (own_copy.tree / "files" / path for path in paths[:3])
    absent.unlink()
    empty.write_bytes(b"")
    cut.write_bytes(cut.read_bytes()[:500])
    return own_copy, set(paths[:3])


def test_missing_images(damaged, caplog):
    build, bad = damaged
    with pytest.raises(LoadingError, match=r"\.jpg .*missing_images='skip'"):
        load(build, image_root=str(build.tree))
    with pytest.raises(ConfigError, match="'ignore'.*error, skip, none"):
        load(build, image_root=str(build.tree), missing_images="ignore")
    splits = load(build, image_root=str(build.tree), missing_images="skip")
    rows = [row for split in splits.values() for row in split.remove_columns("images")]
    assert rows and not any(bad & set(row["image_paths"]) for row in rows)
    skipped = build.manifest["counts"]["rows"] - len(rows)
    assert 0 < skipped == sum(map(int, re.findall(r"'rows_skipped': (\d+)", caplog.text)))
    splits = load(build, image_root=str(build.tree), missing_images="none")
    assert sum(map(len, splits.values())) == build.manifest["counts"]["rows"]
    for row in (row for rows in splits.values() for row in rows):
        assert [image is None for image in row["images"]] == [path in bad for path in row["image_paths"]]


@pytest.mark.parametrize("processes", [None, 2])
def test_all_images_missing(sharded, tmp_path, processes):
    (tmp_path / "files").mkdir()
    with pytest.raises(LoadingError, match="train: .*files"):
        load(sharded, image_root=str(tmp_path), missing_images="skip", num_proc=processes)


def test_images_behind_links_into_a_named_store(own_copy, tmp_path, monkeypatch):
    objects, linked = tmp_path / "objects", tmp_path / "linked"
    shutil.copytree(own_copy.tree / "files", objects)
    for path in objects.rglob("*.jpg"):
        link = linked / "files" / path.relative_to(objects)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    options = {"image_root": str(linked), "split": "test"}
    with pytest.raises(LoadingError, match="image_store"):
        load(own_copy, missing_images="skip", **options)
    assert load(own_copy, image_store=str(objects), **options)[0]["images"][0].size == (64, 64)
    monkeypatch.setenv("MIMIC_CXR_JPG_STORE", str(objects))
    assert load(own_copy, **options)[0]["images"][0].size == (64, 64)


# --- the default release and the cache


def test_the_default_release(sharded, monkeypatch, tmp_path):
    rows = sharded.manifest["splits"]["train"]["rows"]
    record_last_release(tmp_path)
    monkeypatch.setenv("MIMIC_CXR_VQA_DIR", str(sharded.workspace.root))
    assert len(load_dataset(NAME, split="train")) == rows
    monkeypatch.delenv("MIMIC_CXR_VQA_DIR")
    record_last_release(sharded.workspace.release)
    assert len(load_dataset(NAME, split="train")) == rows
    record_last_release(tmp_path / "gone")
    with pytest.raises(InputError, match="'sample'.*medvqa-hub cxr questions"):
        load_dataset(NAME)


def test_a_rebuilt_release_is_not_served_from_the_cache(tmp_path):
    before = load(build_release(tmp_path, studies=12), split="train").to_list()
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    assert load(build_release(tmp_path, studies=12, seed=1), split="train").to_list() != before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_gives_one_line(sharded, tmp_path, monkeypatch, number):
    def fail(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("datasets.arrow_writer.ArrowWriter.write_table", fail)
    with pytest.raises(OutputError, match="cannot write .*:") as caught:
        load(sharded, cache_dir=str(tmp_path))
    assert caught.value.__suppress_context__ or caught.value.__cause__ is not None
    assert "\n" not in one_line(caught.value)


# --- the authors' CSV files


def test_csv_loads_with_the_same_values(sharded, csv_folder, tmp_path):
    rows, ours = (load(folder, split="train") for folder in (csv_folder, sharded))
    assert rows.remove_columns("provenance").to_list() == ours.remove_columns("provenance").to_list()
    assert rows[0]["provenance"]["engine"] == "extractive"
    studies, ours = (load(folder, "studies", split="train") for folder in (csv_folder, sharded))
    assert studies["labels"][:] == ours["labels"][:] and set(studies["findings"]) == {None}
    export_authors_csv(open_release(csv_folder), tmp_path / "again")
    for name in ("train.csv", "val.csv", "test.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (csv_folder / name).read_bytes()


def test_failed_replies_are_left_out_by_default(authors_folder, caplog):
    lines = edit_csv(authors_folder / "test.csv", lambda lines: lines[1].__setitem__(4, "error"))
    assert len(load(authors_folder, split="test")) == len(lines) - 2
    assert "left out 1 rows whose reply could not be parsed" in caplog.text
    kept = load(authors_folder, split="test", failed_answers="keep")
    assert kept[0]["answer"] == "error" and kept[0]["provenance"]["lint"] == ["failed_reply"]


def test_a_failed_reply_before_a_good_one_is_not_a_repeated_row(authors_folder, caplog):
    failed = "error: Connection refused"
    lines = edit_csv(authors_folder / "test.csv", lambda lines: lines.insert(1, [*lines[1][:4], failed, *lines[1][5:]]))
    rows = load(authors_folder, split="test")
    assert rows[0]["answer"] == lines[2][4] and len(rows) == len(lines) - 2
    assert "left out 1 rows whose reply could not be parsed" in caplog.text


def test_repeated_questions(authors_folder, tmp_path, caplog):
    lines = edit_csv(authors_folder / "test.csv", lambda lines: lines.append(lines[-1]))
    with pytest.raises(LoadingError, match="test.csv: qa_id 's95"):
        load(authors_folder, duplicates="error")
    rows = load(authors_folder, split="test")
    assert len(rows) == len(lines) - 2 == len(set(rows["qa_id"]))
    assert "left out 1 rows with repeated questions" in caplog.text
    assert export_authors_csv(open_release(authors_folder), tmp_path / "again")["test"] == len(rows)
    assert "1 rows with repeated questions left out" in caplog.text


def test_report_text_in_the_wrong_column_is_not_shown(authors_folder):
    text = "A long sentence of a report about somebody with a secret finding."
    edit_csv(authors_folder / "test.csv", lambda lines: lines[1].__setitem__(5, text))
    with pytest.raises(LoadingError, match="row 2: .*65 characters: question_label") as caught:
        load(authors_folder)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("end", [".csv", "_all.csv", "_all_small.csv"])
def test_the_names_of_the_authors_scripts_are_found(authors_folder, end):
    before = {name: len(split) for name, split in load(authors_folder).items()}
    for name in ("train", "val", "test"):
        split = "validate" if name == "val" else name
        (authors_folder / f"{name}.csv").rename(authors_folder / f"generated_questions_answers_{split}{end}")
    assert {name: len(split) for name, split in load(authors_folder).items()} == before


def test_several_files_of_a_split_are_read_in_order(authors_folder, sharded):
    header, *lines = (authors_folder / "train.csv").read_text().splitlines(keepends=True)
    (authors_folder / "train.csv").unlink()
    (authors_folder / "train-1.csv").write_text("".join([header, *lines[:50]]))
    (authors_folder / "train-2.csv").write_text("".join([header, *lines[50:]]))
    (authors_folder / "latest.csv").write_text("not ours")
    assert load(authors_folder, split="train")["qa_id"][:] == load(sharded, split="train")["qa_id"][:]


def test_a_csv_patient_in_two_splits_and_an_empty_file(authors_folder):
    train, path = (authors_folder / "train.csv").read_text().splitlines(keepends=True), authors_folder / "test.csv"
    content = path.read_text()
    path.write_text(content + train[1].replace("s9500", "s9599"))
    with pytest.raises(LoadingError, match="test.csv: patient 9.*train and test"):
        load(authors_folder)
    path.write_text(content.splitlines(keepends=True)[0])
    with pytest.raises(LoadingError, match="test.csv: "):
        load(authors_folder)


# --- damaged releases


def edit_manifest(folder: Path, change) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def shorten(folder: Path) -> None:
    shard = next((folder / "qa").glob("train-*"))
    pq.write_table(pq.read_table(shard).slice(0, 10), shard)
    describe_again(folder)


def truncate(folder: Path) -> None:
    shard = next((folder / "qa").glob("train-*"))
    shard.write_bytes(shard.read_bytes()[:-10])


DAMAGE = {  # what is wrong -> (how to do it in the release, expected error)
    "truncated": (truncate, "bytes, not"),
    "fewer rows": (shorten, "the train split has .* rows"),
    "missing shard": (lambda folder: next((folder / "qa").glob("test-*")).unlink(), "is missing"),
    "no files": (lambda f: edit_manifest(f, lambda m: m.pop("files")), "'files'"),
    "no splits": (lambda f: edit_manifest(f, lambda m: m.pop("splits")), "'splits'"),
    "no counts": (lambda f: edit_manifest(f, lambda m: m.pop("counts")), "'counts'"),
    "path out of the folder": (
        lambda f: edit_manifest(f, lambda m: m["files"].update({"../../../x.parquet": {"bytes": 0, "sha256": ""}})),
        "leaves its root",
    ),
    "unknown class": (lambda f: edit_manifest(f, lambda m: m.update(governance="public")), "'public' is unknown"),
}


@pytest.mark.parametrize(("damage", "expected"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_release(own_copy, damage, expected):
    damage(own_copy.workspace.release)
    with pytest.raises(Exception, match=expected):
        load(own_copy)


@pytest.mark.parametrize("processes", [None, 2])
def test_a_patient_in_two_splits(own_copy, processes):
    """A shard is copied into another split, and sizes and counts are made to agree."""
    folder = own_copy.workspace.release
    manifest = json.loads((folder / "manifest.json").read_text())
    for table in ("qa", "studies"):
        target = folder / table / "test-00001-of-00002.parquet"
        rows = pq.read_table(next((folder / table).glob("train-*")))
        rows = rows.set_column(rows.schema.get_field_index("split"), "split", pa.array(["test"] * len(rows)))
        rows = rows.set_column(1 if table == "studies" else 2, "study_id", pc.add(rows["study_id"], 1000))
        pq.write_table(rows, target)
        manifest["files"][f"{table}/{target.name}"] = {"bytes": target.stat().st_size, "sha256": ""}
        if table == "qa":
            manifest["splits"]["test"]["rows"] += len(rows)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    describe_again(folder)
    with pytest.raises(InputError, match="patient 9.*test and train"):
        load(own_copy, num_proc=processes)


def test_an_empty_folder(tmp_path):
    with pytest.raises(InputError, match="does not hold a release"):
        load(tmp_path)


# --- the bundled sample, and fresh interpreters

SAMPLE_SCRIPT = """
from datasets import concatenate_datasets, load_dataset
import mimic_cxr_vqa
rows = load_dataset("mimic_cxr_vqa", "sample")
stream = load_dataset("mimic_cxr_vqa", "sample", streaming=True)
first = next(iter(stream["train"]))
assert first["qa_id"] == rows["train"][0]["qa_id"]
assert first["images"][0].size == rows["train"][0]["images"][0].size
print(sorted(rows), len(set(rows["train"]["study_id"])))
"""


@pytest.mark.parametrize("where", ["empty folder", "repository root"])
def test_sample_loads_in_a_fresh_interpreter(where, tmp_path):
    folder = tmp_path if where == "empty folder" else REPOSITORY
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", SAMPLE_SCRIPT]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['test', 'train', 'validation']")


def test_sample_is_up_to_date(tmp_path):
    """Rows and image names are compared, but not image bytes, which depend on the JPEG encoder."""
    write_sample(tmp_path / "sample")
    bundled, written = open_release(mimic_cxr_vqa.SAMPLE_DIR), open_release(tmp_path / "sample")
    assert pa.Table.from_batches(bundled.iterate_all()).equals(pa.Table.from_batches(written.iterate_all()))
    names = [sorted(str(p.relative_to(r.folder)) for p in r.folder.rglob("*.jpg")) for r in (bundled, written)]
    assert names[0] == names[1] and len(names[0]) > 40
    assert bundled.governance is Governance.OPEN
    assert bundled.manifest["counts"] == written.manifest["counts"]
    size = sum(path.stat().st_size for path in mimic_cxr_vqa.SAMPLE_DIR.rglob("*") if path.is_file())
    assert size < 3_000_000


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("parquet", "studies"),
        pytest.param("parquet", "default", marks=pytest.mark.slow),
        pytest.param("csv", "default", marks=pytest.mark.slow),
    ],
)
def test_an_unfinished_stream_prints_nothing_at_exit(sharded, csv_folder, kind, config):
    folder = csv_folder if kind == "csv" else sharded.workspace.root
    code = (
        "from datasets import load_dataset\nimport mimic_cxr_vqa\n"
        f"rows = load_dataset('{NAME}', '{config}', data_dir={str(folder)!r}, streaming=True, split='train')\n"
        "stream = iter(rows)\nprint(next(stream)['study_id'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:1], done.stderr) == (0, "9", "")
