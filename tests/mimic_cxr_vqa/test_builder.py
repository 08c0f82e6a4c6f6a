"""load_dataset("mimic_cxr_vqa", …): the configurations, images and their policies, the default release, the cache."""

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


@pytest.fixture(scope="module")
def sharded(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("sharded"), rows_per_shard=60)


@pytest.fixture
def own_copy(sharded, tmp_path) -> Build:
    """A build that a test may damage."""
    shutil.copytree(sharded.tree, tmp_path / "tree")
    shutil.copytree(sharded.workspace.root, tmp_path / "cxr")
    return Build(tmp_path / "tree", type(sharded.workspace)(tmp_path / "cxr"), sharded.manifest)


def test_default_configuration_has_every_row_and_the_schema_s_columns(sharded):
    splits = load_dataset(NAME, data_dir=str(sharded.workspace.root))
    assert {name: len(rows) for name, rows in splits.items()} == {
        {"validate": "validation"}.get(split, split): counts["rows"]
        for split, counts in sharded.manifest["splits"].items()
    }
    assert splits["train"].column_names == QA_SCHEMA.names
    assert all(isinstance(path, str) for path in splits["train"][0]["images"])
    assert len(set(splits["train"]["qa_id"])) == len(splits["train"])


def test_images_decode_when_a_row_is_read(sharded):
    rows = load_dataset(NAME, data_dir=str(sharded.workspace.root), image_root=str(sharded.tree), split="train")
    row = rows[0]
    assert [image.size for image in row["images"]] == [(64, 64)] * len(row["views"])
    first = PIL.Image.open(sharded.tree / "files" / row["image_paths"][0])
    assert row["images"][0].tobytes() == first.tobytes()


def test_image_root_comes_from_the_environment(sharded, monkeypatch):
    monkeypatch.setenv("MIMIC_CXR_JPG_ROOT", str(sharded.tree))
    rows = load_dataset(NAME, data_dir=str(sharded.workspace.root), split="test")
    assert isinstance(rows[0]["images"][0], PIL.Image.Image)


def test_studies_hold_the_same_questions_once_per_study(sharded):
    folder = str(sharded.workspace.root)
    studies = load_dataset(NAME, "studies", data_dir=folder, split="train")
    rows = load_dataset(NAME, data_dir=folder, split="train")
    assert len(studies) == len(set(rows["study_id"])) == sharded.manifest["splits"]["train"]["studies"]
    grouped = [(q["qa_id"], q["answer"]) for study in studies for q in study["questions"]]
    assert grouped == list(zip(rows["qa_id"], rows["answer"], strict=True))
    assert all(study["findings"] for study in studies)


def test_questions_have_no_answers_and_need_none(own_copy):
    shutil.rmtree(own_copy.workspace.release)
    own_copy.workspace.answers.unlink()
    splits = load_dataset(NAME, "questions", data_dir=str(own_copy.workspace.root))
    assert splits["train"].column_names == QUESTION_SCHEMA.names
    assert sum(map(len, splits.values())) == own_copy.manifest["counts"]["questions"]
    with pytest.raises(LoadingError, match="medvqa-hub cxr answer"):
        load_dataset(NAME, data_dir=str(own_copy.workspace.root))


@pytest.mark.parametrize("config", ["default", "studies", "questions"])
def test_streaming_gives_the_same_rows(sharded, config):
    folder = str(sharded.workspace.root)
    stream = load_dataset(NAME, config, data_dir=folder, split="train", streaming=True)
    assert list(stream) == list(load_dataset(NAME, config, data_dir=folder, split="train"))


def test_a_stream_can_be_read_in_part_and_again(sharded):
    stream = load_dataset(NAME, data_dir=str(sharded.workspace.root), split="train", streaming=True)
    first = next(iter(stream))
    assert next(iter(stream)) == first
    assert len(list(stream)) == len(list(stream)) == sharded.manifest["splits"]["train"]["rows"]


def test_data_files_are_refused(sharded):
    files = str(next((sharded.workspace.release / "qa").glob("train-*")))
    with pytest.raises(ConfigError, match="data_dir"):
        load_dataset(NAME, data_files=files, data_dir=str(sharded.workspace.root))


@pytest.mark.parametrize("config", ["default", "studies"])
def test_two_processes_give_the_same_rows(sharded, config, tmp_path):
    folder = str(sharded.workspace.root)
    assert sharded.manifest["splits"]["train"]["shards"] > 2
    one = load_dataset(NAME, config, data_dir=folder, split="train")
    two = load_dataset(NAME, config, data_dir=folder, split="train", num_proc=2, cache_dir=str(tmp_path))
    assert two.to_list() == one.to_list()


def test_plain_load_dataset_reads_the_release_folder_by_its_card(sharded):
    folder = str(sharded.workspace.release)
    assert load_dataset(folder)["validation"].num_rows == sharded.manifest["splits"]["validate"]["rows"]
    assert load_dataset(folder, "studies")["test"].num_rows == sharded.manifest["splits"]["test"]["studies"]


def test_mimic_s_name_of_the_validation_split_is_understood(sharded):
    rows = load_dataset(NAME, data_dir=str(sharded.workspace.root), split="validate[:3]")
    assert rows["split"][:] == ["validate"] * 3


def test_mimic_s_name_is_understood_in_a_list_of_splits(sharded):
    both = load_dataset(NAME, data_dir=str(sharded.workspace.root), split=["train", "validate"])
    assert [set(part["split"]) for part in both] == [{"train"}, {"validate"}]


def test_a_relative_folder_is_found_after_a_change_of_folder(sharded, monkeypatch, tmp_path):
    monkeypatch.chdir(sharded.workspace.root.parent)
    stream = load_dataset(NAME, data_dir=sharded.workspace.root.name, split="train", streaming=True)
    monkeypatch.chdir(tmp_path)
    assert next(iter(stream))["split"] == "train"


def test_joined_datasets_have_the_strictest_class(sharded, tmp_path):
    export_authors_csv(open_release(sharded.workspace.root), tmp_path / "csv")
    (tmp_path / "csv" / "manifest.json").unlink()  # now it is taken for MIMIC's
    strict = load_dataset(NAME, data_dir=str(tmp_path / "csv"), split="test")
    lax = load_dataset(NAME, data_dir=str(sharded.workspace.root), split="test")
    assert get_dataset_governance(concatenate_datasets([strict, lax])) is Governance.CREDENTIALED
    assert get_dataset_governance(concatenate_datasets([lax, lax])) is Governance.OPEN


def test_the_cache_of_credentialed_rows_is_its_owner_s_alone(sharded, tmp_path):
    export_authors_csv(open_release(sharded.workspace.root), tmp_path / "csv")
    (tmp_path / "csv" / "manifest.json").unlink()
    rows = load_dataset(NAME, data_dir=str(tmp_path / "csv"), split="test", cache_dir=str(tmp_path / "cache"))
    folders = Path(rows.cache_files[0]["filename"]).parents
    assert any(stat.S_IMODE(folder.stat().st_mode) == 0o700 for folder in list(folders)[:3])


def test_governance_class_stays_with_the_rows(sharded, tmp_path):
    rows = load_dataset(NAME, data_dir=str(sharded.workspace.root), split="train")
    filtered = rows.filter(lambda row: row["answer_type"] == "open").select(range(5))
    filtered.save_to_disk(str(tmp_path / "saved"))
    assert get_dataset_governance(filtered) is Governance.OPEN
    rows.info.description = "no class"
    assert get_dataset_governance(rows) is Governance.CREDENTIALED


class TestMissingImages:
    @pytest.fixture
    def damaged(self, own_copy):
        """A build with one image absent, one of zero bytes and one cut short."""
        rows = open_release(own_copy.workspace.root)
        paths = sorted({p for batch in rows.iterate_all() for row in batch.to_pylist() for p in row["images"]})
        absent, empty, cut = (own_copy.tree / "files" / path for path in paths[:3])
        absent.unlink()
        empty.write_bytes(b"")
        cut.write_bytes(cut.read_bytes()[:500])
        self.bad = set(paths[:3])
        return own_copy

    def load(self, build, policy):
        options = {"data_dir": str(build.workspace.root), "image_root": str(build.tree), "missing_images": policy}
        return load_dataset(NAME, **options)

    def test_error_names_the_file_and_the_remedy(self, damaged):
        with pytest.raises(LoadingError, match=r"\.jpg (is absent|has zero bytes|is truncated).*missing_images='skip'"):
            self.load(damaged, "error")

    def test_skip_leaves_out_the_rows_and_counts_them(self, damaged, caplog):
        splits = self.load(damaged, "skip")
        rows = [row for split in splits.values() for row in split.remove_columns("images")]
        assert rows and not any(self.bad & set(row["image_paths"]) for row in rows)
        skipped = damaged.manifest["counts"]["rows"] - len(rows)
        assert skipped > 0
        assert sum(map(int, re.findall(r"'rows_skipped': (\d+)", caplog.text))) == skipped

    def test_none_keeps_the_rows_with_a_gap(self, damaged):
        splits = self.load(damaged, "none")
        assert sum(map(len, splits.values())) == damaged.manifest["counts"]["rows"]
        for rows in splits.values():
            for row in rows:
                for path, image in zip(row["image_paths"], row["images"], strict=True):
                    assert (image is None) == (path in self.bad)

    def test_unknown_policy(self, damaged):
        with pytest.raises(ConfigError, match="'ignore'.*error, skip, none"):
            self.load(damaged, "ignore")


class TestDefaultRelease:
    def test_environment_wins_over_the_last_build(self, sharded, monkeypatch, tmp_path):
        record_last_release(tmp_path)
        monkeypatch.setenv("MIMIC_CXR_VQA_DIR", str(sharded.workspace.root))
        assert len(load_dataset(NAME, split="train")) == sharded.manifest["splits"]["train"]["rows"]

    def test_last_build(self, sharded, monkeypatch):
        monkeypatch.delenv("MIMIC_CXR_VQA_DIR", raising=False)
        record_last_release(sharded.workspace.release)
        assert len(load_dataset(NAME, split="train")) == sharded.manifest["splits"]["train"]["rows"]

    def test_neither_names_the_sample_and_the_build_command(self, monkeypatch, tmp_path):
        monkeypatch.delenv("MIMIC_CXR_VQA_DIR", raising=False)
        gone = tmp_path / "gone"
        gone.mkdir()
        record_last_release(gone)
        gone.rmdir()
        with pytest.raises(InputError, match="'sample'.*medvqa-hub cxr questions") as caught:
            load_dataset(NAME)
        assert "\n" not in str(caught.value)


def test_a_rebuilt_release_is_not_served_from_the_cache(tmp_path):
    first = build_release(tmp_path, studies=12)
    folder = str(first.workspace.root)
    before = load_dataset(NAME, data_dir=folder, split="train")
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    build_release(tmp_path, studies=12, seed=1)
    assert load_dataset(NAME, data_dir=folder, split="train").to_list() != before.to_list()


class TestAuthorsCsv:
    @pytest.fixture
    def csv_folder(self, sharded, tmp_path) -> Path:
        export_authors_csv(open_release(sharded.workspace.root), tmp_path / "csv")
        return tmp_path / "csv"

    @pytest.fixture
    def authors_folder(self, csv_folder) -> Path:
        """Files without a manifest of ours: they may be edited."""
        (csv_folder / "manifest.json").unlink()
        return csv_folder

    def test_loads_with_the_same_values(self, sharded, csv_folder):
        from_csv = load_dataset(NAME, data_dir=str(csv_folder), split="train").remove_columns("provenance")
        ours = load_dataset(NAME, data_dir=str(sharded.workspace.root), split="train").remove_columns("provenance")
        assert from_csv.to_list() == ours.to_list()

    def test_exports_to_the_same_bytes_again(self, csv_folder, tmp_path):
        export_authors_csv(open_release(csv_folder), tmp_path / "again")
        for name in ("train.csv", "val.csv", "test.csv"):
            assert (tmp_path / "again" / name).read_bytes() == (csv_folder / name).read_bytes()

    def test_is_credentialed_unless_its_manifest_says_otherwise(self, csv_folder):
        assert open_release(csv_folder).governance is Governance.OPEN
        (csv_folder / "manifest.json").unlink()
        rows = load_dataset(NAME, data_dir=str(csv_folder), split="test")
        assert get_dataset_governance(rows) is Governance.CREDENTIALED

    def test_studies_take_labels_from_the_questions(self, csv_folder, sharded):
        studies = load_dataset(NAME, "studies", data_dir=str(csv_folder), split="train")
        ours = load_dataset(NAME, "studies", data_dir=str(sharded.workspace.root), split="train")
        assert studies["labels"][:] == ours["labels"][:]
        assert set(studies["findings"]) == {None}

    def test_failed_replies_are_left_out_unless_wanted(self, authors_folder, caplog):
        path = authors_folder / "test.csv"
        with open(path, newline="") as file:
            lines = list(csv.reader(file))
        lines[1][4] = "error"  # the answer
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(lines)
        total = len(lines) - 1
        folder = str(authors_folder)
        assert len(load_dataset(NAME, data_dir=folder, split="test")) == total - 1
        assert "left out 1 rows" in caplog.text
        kept = load_dataset(NAME, data_dir=folder, split="test", failed_answers="keep")
        assert kept[0]["answer"] == "error" and kept[0]["provenance"]["lint"] == ["failed_reply"]

    def test_report_text_in_the_wrong_column_is_not_shown(self, authors_folder):
        path = authors_folder / "test.csv"
        with open(path, newline="") as file:
            lines = list(csv.reader(file))
        lines[1][5] = "A long sentence of a report about somebody with a secret finding."
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(lines)
        with pytest.raises(LoadingError, match="row 2: a text of 65 characters: question_label is unknown") as caught:
            load_dataset(NAME, data_dir=str(authors_folder))
        assert "secret" not in str(caught.value)

    def test_file_with_nothing_but_a_header(self, authors_folder):
        path = authors_folder / "test.csv"
        path.write_text(path.read_text().splitlines(keepends=True)[0])
        with pytest.raises(LoadingError, match="test.csv: no rows found"):
            load_dataset(NAME, data_dir=str(authors_folder))

    def test_repeated_question(self, authors_folder, tmp_path, caplog):
        path = authors_folder / "test.csv"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines, lines[-1]]))
        with pytest.raises(LoadingError, match="test.csv: qa_id 's95.* occurs twice"):
            load_dataset(NAME, data_dir=str(authors_folder), duplicates="error")
        with pytest.raises(ConfigError, match="duplicates='all': allowed are error and first"):
            load_dataset(NAME, data_dir=str(authors_folder), duplicates="all")
        rows = load_dataset(NAME, data_dir=str(authors_folder), split="test")
        assert len(rows) == len(lines) - 1 and len(set(rows["qa_id"])) == len(rows)
        assert "left out 1 rows with repeated questions" in caplog.text
        assert export_authors_csv(open_release(authors_folder), tmp_path / "again")["test"] == len(rows)
        assert "1 repeated rows left out" in caplog.text

    def test_a_failure_that_was_repeated_with_success_is_no_repeated_row(self, authors_folder, caplog):
        path = authors_folder / "test.csv"
        with open(path, newline="") as file:
            header, first, *others = list(csv.reader(file))
        failed = [*first[:4], "error: Connection refused", *first[5:]]
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([header, failed, first, *others])
        rows = load_dataset(NAME, data_dir=str(authors_folder), split="test")
        assert rows[0]["answer"] == first[4] and len(rows) == 1 + len(others)
        assert "left out 1 rows whose reply could not be parsed" in caplog.text

    @pytest.mark.parametrize("end", [".csv", "_all.csv", "_all_small.csv"])
    def test_the_names_of_the_authors_scripts_are_found(self, authors_folder, end):
        before = {name: len(split) for name, split in load_dataset(NAME, data_dir=str(authors_folder)).items()}
        for name in ("train", "val", "test"):
            split = "validate" if name == "val" else name
            (authors_folder / f"{name}.csv").rename(authors_folder / f"generated_questions_answers_{split}{end}")
        assert {name: len(split) for name, split in load_dataset(NAME, data_dir=str(authors_folder)).items()} == before

    def test_patient_in_two_splits(self, authors_folder):
        train = (authors_folder / "train.csv").read_text().splitlines(keepends=True)
        with open(authors_folder / "test.csv", "a") as file:
            file.write(train[1].replace("s9500", "s9599"))
        with pytest.raises(LoadingError, match="test.csv: patient 9.* is in the splits train and test"):
            load_dataset(NAME, data_dir=str(authors_folder))

    def test_several_files_of_a_split_are_read_in_order(self, authors_folder, sharded):
        header, *lines = (authors_folder / "train.csv").read_text().splitlines(keepends=True)
        (authors_folder / "train.csv").unlink()
        (authors_folder / "train-1.csv").write_text("".join([header, *lines[:50]]))
        (authors_folder / "train-2.csv").write_text("".join([header, *lines[50:]]))
        (authors_folder / "latest.csv").write_text("not ours")
        ours = load_dataset(NAME, data_dir=str(sharded.workspace.root), split="train")
        assert load_dataset(NAME, data_dir=str(authors_folder), split="train")["qa_id"][:] == ours["qa_id"][:]

    def test_answers_keep_their_engine(self, csv_folder):
        rows = load_dataset(NAME, data_dir=str(csv_folder), split="test")
        assert rows[0]["provenance"]["engine"] == "extractive"


class TestDamagedRelease:
    def test_truncated_shard(self, own_copy):
        shard = next((own_copy.workspace.release / "qa").glob("train-*"))
        shard.write_bytes(shard.read_bytes()[:-10])
        with pytest.raises(InputError, match="bytes, not"):
            load_dataset(NAME, data_dir=str(own_copy.workspace.root))

    @pytest.mark.parametrize("processes", [None, 2])
    def test_patient_in_two_splits(self, own_copy, processes):
        """A shard copied into another split, sizes and counts made to agree: seen however many processes load it."""
        folder = own_copy.workspace.release
        manifest = json.loads((folder / "manifest.json").read_text())
        for table in ("qa", "studies"):
            source = next((folder / table).glob("train-*"))
            target = folder / table / "test-00001-of-00002.parquet"
            rows = pq.read_table(source)
            rows = rows.set_column(rows.schema.get_field_index("split"), "split", pa.array(["test"] * len(rows)))
            rows = rows.set_column(1 if table == "studies" else 2, "study_id", pc.add(rows["study_id"], 1000))
            pq.write_table(rows, target)
            manifest["files"][f"{table}/{target.name}"] = {"bytes": target.stat().st_size, "sha256": ""}
            if table == "qa":
                manifest["splits"]["test"]["rows"] += len(rows)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        describe_again(folder)
        with pytest.raises(InputError, match="patient 9.* is in the splits test and train"):
            load_dataset(NAME, data_dir=str(own_copy.workspace.root), num_proc=processes)

    def test_shard_that_lost_rows(self, own_copy):
        folder = own_copy.workspace.release
        shard = next((folder / "qa").glob("train-*"))
        pq.write_table(pq.read_table(shard).slice(0, 10), shard)
        describe_again(folder)
        with pytest.raises(InputError, match="the train split has .* rows"):
            load_dataset(NAME, data_dir=str(own_copy.workspace.root))

    @pytest.mark.parametrize("field", ["files", "splits", "counts"])
    def test_manifest_without_a_field(self, own_copy, field):
        path = own_copy.workspace.release / "manifest.json"
        manifest = json.loads(path.read_text())
        del manifest[field]
        path.write_text(json.dumps(manifest))
        with pytest.raises(InputError, match=f"no object '{field}'"):
            load_dataset(NAME, data_dir=str(own_copy.workspace.root))

    def test_missing_shard(self, own_copy):
        next((own_copy.workspace.release / "qa").glob("test-*")).unlink()
        with pytest.raises(InputError, match="is missing"):
            load_dataset(NAME, data_dir=str(own_copy.workspace.root))

    def test_manifest_that_points_out_of_the_folder(self, own_copy):
        path = own_copy.workspace.release / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["files"]["../../../secret.parquet"] = {"bytes": 0, "sha256": ""}
        path.write_text(json.dumps(manifest))
        with pytest.raises(InputError, match="leaves its root"):
            load_dataset(NAME, data_dir=str(own_copy.workspace.root))

    def test_unknown_governance_class_is_not_taken_for_open(self, own_copy):
        path = own_copy.workspace.release / "manifest.json"
        path.write_text(path.read_text().replace('"governance": "open"', '"governance": "public"'))
        with pytest.raises(Exception, match="governance class 'public' is unknown"):
            load_dataset(NAME, data_dir=str(own_copy.workspace.root))

    def test_empty_folder(self, tmp_path):
        with pytest.raises(InputError, match="does not hold a release"):
            load_dataset(NAME, data_dir=str(tmp_path))


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
    done = subprocess.run(
        [sys.executable, "-c", SAMPLE_SCRIPT], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['test', 'train', 'validation']")


def test_sample_is_what_the_sample_writer_writes(tmp_path):
    """Rows and names of the images; their bytes are the JPEG encoder's business."""
    write_sample(tmp_path / "sample")
    bundled, written = open_release(mimic_cxr_vqa.SAMPLE_DIR), open_release(tmp_path / "sample")
    assert pa.Table.from_batches(bundled.iterate_all()).equals(pa.Table.from_batches(written.iterate_all()))
    names = [sorted(str(p.relative_to(r.folder)) for p in r.folder.rglob("*.jpg")) for r in (bundled, written)]
    assert names[0] == names[1] and len(names[0]) > 40
    assert bundled.governance is Governance.OPEN
    assert bundled.manifest["counts"] == written.manifest["counts"]
    size = sum(path.stat().st_size for path in mimic_cxr_vqa.SAMPLE_DIR.rglob("*") if path.is_file())
    assert size < 3_000_000


def test_unknown_configuration_names_the_known_ones(sharded):
    with pytest.raises(ValueError, match="'everything' not found.*sample"):
        load_dataset(NAME, "everything", data_dir=str(sharded.workspace.root))


@pytest.mark.parametrize("name", ["default", "studies", "questions"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_stream_left_unfinished_says_nothing_at_exit(sharded, tmp_path, kind, name):
    folder = sharded.workspace.root
    if kind == "csv":
        export_authors_csv(open_release(folder), tmp_path / "csv")
        folder = tmp_path / "csv"
    code = (
        "from datasets import load_dataset\nimport mimic_cxr_vqa\n"
        f"rows = load_dataset('{NAME}', '{name}', data_dir={str(folder)!r}, streaming=True, split='train')\n"
        "stream = iter(rows)\nprint(next(stream)['study_id'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:1], done.stderr) == (0, "9", "")


@pytest.mark.parametrize("processes", [None, 2])
def test_all_images_gone_is_said_in_our_words(sharded, tmp_path, processes):
    (tmp_path / "files").mkdir()
    options = {"data_dir": str(sharded.workspace.root), "image_root": str(tmp_path), "missing_images": "skip"}
    with pytest.raises(LoadingError, match="train: no row has its images below .*files"):
        load_dataset(NAME, **options, num_proc=processes)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_in_one_line(sharded, tmp_path, monkeypatch, number):
    def fail(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("datasets.arrow_writer.ArrowWriter.write_table", fail)
    with pytest.raises(OutputError, match="cannot write .*:") as caught:
        load_dataset(NAME, data_dir=str(sharded.workspace.root), cache_dir=str(tmp_path))
    assert caught.value.__suppress_context__ or caught.value.__cause__ is not None
    assert "\n" not in one_line(caught.value)


def test_the_questions_folder_itself_is_a_data_dir(sharded):
    workspace = sharded.workspace
    rows = load_dataset(NAME, "questions", data_dir=str(workspace.questions), split="train")
    assert len(rows) == len(load_dataset(NAME, "questions", data_dir=str(workspace.root), split="train"))
    with pytest.raises(LoadingError, match="has questions but no answers"):
        load_dataset(NAME, data_dir=str(workspace.questions))


def test_images_behind_links_into_a_named_store(own_copy, tmp_path, monkeypatch):
    objects, linked = tmp_path / "objects", tmp_path / "linked"
    shutil.copytree(own_copy.tree / "files", objects)
    for path in objects.rglob("*.jpg"):
        link = linked / "files" / path.relative_to(objects)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    options = {"data_dir": str(own_copy.workspace.root), "image_root": str(linked), "split": "test"}
    with pytest.raises(LoadingError, match="leads out of .*image_store"):
        load_dataset(NAME, missing_images="skip", **options)
    assert load_dataset(NAME, image_store=str(objects), **options)[0]["images"][0].size == (64, 64)
    monkeypatch.setenv("MIMIC_CXR_JPG_STORE", str(objects))
    assert load_dataset(NAME, **options)[0]["images"][0].size == (64, 64)
