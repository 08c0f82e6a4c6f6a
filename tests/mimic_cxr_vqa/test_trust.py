"""What a release is worth when bits, words or files of it change: every attack ends in an error, none in wrong rows."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from builds import Build, build_release, describe_again
from datasets import load_dataset

import mimic_cxr_vqa  # noqa: F401 - registers the builder
from medvqa_core import verified_files
from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.digests import digest_file
from medvqa_core.errors import GovernanceError, InputError, MedvqaError
from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Engine
from medvqa_core.verified_files import changed_files
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.release import export_authors_csv, open_release
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.workspace import Workspace

NAME = "mimic_cxr_vqa"
FLIPS = 24


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("built"), studies=16)


@pytest.fixture
def workspace(built, tmp_path) -> Workspace:
    """An own copy, to be damaged; without the images, which nobody opens here."""
    shutil.copytree(built.workspace.root, tmp_path / "cxr")
    return Workspace(tmp_path / "cxr")


def edit(folder: Path, **fields) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def credential(workspace: Workspace, source: str = "physionet") -> None:
    """Turn a drawn build into one of MIMIC's ids, as the question step would have written it."""
    shift = {"subject_id": -80_000_000, "study_id": -40_000_000}  # 95000001 -> 15000001 and 55000001
    for name in ("studies.parquet", "questions.parquet"):
        path = workspace.questions / name
        rows = pq.read_table(path)
        for column, by in shift.items():
            place = rows.schema.get_field_index(column)
            rows = rows.set_column(place, column, pc.add(rows[column], pa.scalar(by, pa.int64())))
        pq.write_table(rows, path)
    describe_again(workspace.questions)
    edit(workspace.questions, governance="credentialed", source=source)
    workspace.answers.unlink()
    shutil.rmtree(workspace.release)


@pytest.fixture(scope="module")
def of_mimic(built, tmp_path_factory) -> Workspace:
    """A release of MIMIC's ids, whose manifests are edited again and again."""
    workspace = Workspace(tmp_path_factory.mktemp("of mimic") / "cxr")
    shutil.copytree(built.workspace.root, workspace.root)
    credential(workspace)
    answer_questions(workspace, ExtractiveEngine())
    write_release(workspace)
    assert open_release(workspace.release).governance is Governance.CREDENTIALED
    return workspace


# ------------------------------------------------------------------------------------------------ flipped bits


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.mark.parametrize("table", ["qa", "studies"])
def test_no_flipped_bit_of_a_shard_is_served(workspace, table):
    shard = next((workspace.release / table).glob("train-*"))
    whole = shard.read_bytes()
    drawn = random.Random(0)
    for _ in range(FLIPS):
        shard.write_bytes(whole)
        flip(shard, drawn.randrange(8 * len(whole)))
        with pytest.raises(InputError, match="train-.*parquet .*sha256"):
            load_dataset(NAME, data_dir=str(workspace.root))
    shard.write_bytes(whole)
    assert len(load_dataset(NAME, data_dir=str(workspace.root), split="train")) > 0


def test_a_bit_that_flips_after_the_check_is_found_when_its_page_is_read(workspace):
    """The disk decays while size and mtime stay: then the checksums of the pages are what is left."""
    release = open_release(workspace.root)
    shard = release.files["train"][0]
    whole, state = shard.read_bytes(), shard.stat()
    expected = pa.Table.from_batches(release.iterate("train", shard))
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    drawn = random.Random(1)
    for _ in range(FLIPS):
        shard.write_bytes(whole)
        flip(shard, drawn.randrange(8 * 4, 8 * (len(whole) - footer)))
        os.utime(shard, ns=(state.st_atime_ns, state.st_mtime_ns))
        try:
            rows = pa.Table.from_batches(open_release(workspace.root).iterate("train", shard))
        except MedvqaError:
            continue
        assert rows.equals(expected)


def test_files_are_compared_once(tmp_path, monkeypatch):
    path = tmp_path / "rows"
    path.write_bytes(b"rows")
    digest = digest_file(path)
    read = []
    monkeypatch.setattr(verified_files, "digest_file", lambda path: read.append(path) or digest)
    assert changed_files({path: digest}) == changed_files({path: digest}) == []
    assert read == [path]
    os.utime(path, ns=(1, 1))  # another time: compared again
    assert changed_files({path: digest}) == [] and len(read) == 2
    assert changed_files({path: "0" * 64}) == [path]  # the manifest says something else now


def test_the_record_of_comparisons_is_private_and_not_needed(tmp_path, monkeypatch):
    record = tmp_path / "cache" / "verified.json"
    monkeypatch.setattr(verified_files, "_record_path", lambda: record)
    path = tmp_path / "rows"
    path.write_bytes(b"rows")
    digest = digest_file(path)
    changed_files({path: digest})
    assert record.stat().st_mode & 0o777 == 0o600
    state = path.stat()
    path.write_bytes(b"sows")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert changed_files({path: digest}) == []  # this is what the record may be trusted with
    for damage in (record.unlink, lambda: record.write_text("{"), lambda: record.write_text('{"a": 1}')):
        damage()
        assert changed_files({path: digest}) == [path]
    record.write_text(json.dumps({str(path): [state.st_size, state.st_mtime_ns, digest]}))
    record.chmod(0o622)  # whoever can write it could vouch for anything
    assert changed_files({path: digest}) == [path]


def test_an_unwritable_cache_costs_a_comparison_only(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(verified_files, "_record_path", lambda: tmp_path / "file" / "verified.json")
    path = tmp_path / "rows"
    path.write_bytes(b"rows")
    assert changed_files({path: digest_file(path)}) == []


# ------------------------------------------------------------------------------------------------ edited words


class RemoteEngine:
    """An engine that must never be asked."""

    name, settings, in_flight = "remote", {"engine": "remote"}, 1
    endpoint = "https://api.example.com/v1"

    async def answer(self, requests):
        raise AssertionError("text left the machine")


def test_a_word_in_the_questions_manifest_lets_no_text_out(workspace):
    credential(workspace)
    assert workspace.governance() is Governance.CREDENTIALED
    edit(workspace.questions, governance="open")
    engine: Engine = RemoteEngine()
    with pytest.raises(GovernanceError, match="physionet.*credentialed"):
        answer_questions(workspace, engine)
    edit(workspace.questions, governance="open", source="phantom")
    with pytest.raises(GovernanceError, match="MIMIC.*credentialed"):
        answer_questions(workspace, engine)


@pytest.mark.parametrize("word", ["open", "share-alike", "no-derivatives"])
@pytest.mark.parametrize("source", ["physionet", "phantom", "openi", "my hospital", None])
def test_no_word_makes_a_release_of_mimic_open(of_mimic, word, source):
    edit(of_mimic.release, governance=word, source=source)
    with pytest.raises(GovernanceError, match=" requires at least "):
        open_release(of_mimic.release)
    edit(of_mimic.questions, governance=word, source=source)
    with pytest.raises(GovernanceError, match=" requires at least "):
        write_release(of_mimic)


@pytest.mark.parametrize("source", ["my hospital", "", None])
def test_an_unknown_source_is_credentialed(workspace, source):
    edit(workspace.release, governance="no-derivatives", source=source)
    with pytest.raises(GovernanceError, match="credentialed"):
        open_release(workspace.release)


def test_a_word_above_the_floor_is_obeyed(workspace):
    edit(workspace.release, governance="credentialed")
    assert open_release(workspace.release).governance is Governance.CREDENTIALED


def test_a_release_of_openi_from_before_has_the_stricter_class(workspace):
    edit(workspace.release, governance="share-alike", source="openi")
    assert open_release(workspace.release).governance is Governance.NO_DERIVATIVES
    edit(workspace.release, governance="open")
    with pytest.raises(GovernanceError, match="openi.*no-derivatives"):
        open_release(workspace.release)


def test_a_word_in_the_cache_is_not_believed(workspace, tmp_path):
    edit(workspace.release, governance="share-alike", source="openi")
    options = {"data_dir": str(workspace.release), "cache_dir": str(tmp_path / "cache")}
    load_dataset(NAME, **options)
    (cached,) = (tmp_path / "cache").rglob("dataset_info.json")
    for word in ("share-alike", "open"):
        cached.write_text(re.sub(r"governance class: [a-z-]+", f"governance class: {word}", cached.read_text()))
        for streaming in (False, True):
            rows = load_dataset(NAME, split="train", streaming=streaming, **options)
            assert get_dataset_governance(rows) is Governance.NO_DERIVATIVES
            assert rows.info.description.count("governance class") == 1
            with pytest.raises(GovernanceError, match="no-derivatives.*the Hub"):
                rows.push_to_hub("me/rows")


@pytest.fixture
def exported(workspace, tmp_path) -> Path:
    export_authors_csv(open_release(workspace.root), tmp_path / "csv")
    assert open_release(tmp_path / "csv").governance is Governance.OPEN
    return tmp_path / "csv"


def as_mimic(text: str) -> str:
    return text.replace("p950", "p150").replace("s950", "s550")


def without_digests(folder: Path) -> None:
    """Remove the description of the files from the manifest."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["files"]
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("name", ["train.csv", "val.csv", "test.csv"])
def test_credentialed_files_copied_over_an_open_export_are_refused(exported, old, name):
    if old:
        without_digests(exported)
    path = exported / name
    path.write_text(as_mimic(path.read_text()))
    with pytest.raises(GovernanceError, match=" requires at least credentialed"):
        open_release(exported)


@pytest.mark.parametrize("old", [False, True])
def test_a_file_put_beside_an_open_export_is_refused(exported, old):
    if old:
        without_digests(exported)
    rows = (exported / "train.csv").read_text().replace("s950", "s970").replace("p950", "p970")
    (exported / "train_more.csv").write_text(rows)
    with pytest.raises(GovernanceError, match="differs .*credentialed"):
        open_release(exported)


def test_an_export_that_lost_or_changed_a_file_is_named(exported):
    edit(exported, governance="credentialed")
    (exported / "val.csv").write_text("no export")
    with pytest.raises(InputError, match="val.csv "):
        open_release(exported)
    (exported / "val.csv").unlink()
    with pytest.raises(InputError, match="val.csv .*manifest"):
        open_release(exported)


def test_an_export_has_at_least_the_class_of_its_source(exported):
    assert open_release(exported).governance is Governance.OPEN
    edit(exported, governance="share-alike", source="openi")
    assert open_release(exported).governance is Governance.NO_DERIVATIVES


# ------------------------------------------------------------------------------------------------ plain load_dataset

PLAIN = """
import os, sys
from datasets import load_dataset
folder, streaming, config = sys.argv[1], sys.argv[2] == "streaming", sys.argv[3]
rows = load_dataset(folder, config, split="train", streaming=streaming)
studies = [row["study_id"] for row in rows]
print(studies[0], len(studies), flush=True)
os._exit(0)  # threads of pyarrow can abort a busy interpreter while it ends
"""


def load_plainly(folder: Path, cache: Path, streaming: bool = False, config: str = "default") -> str:
    """In a process of its own, without this package."""
    command = [sys.executable, "-c", PLAIN, str(folder), "streaming" if streaming else "", config]
    environment = {**os.environ, "HF_HOME": str(cache)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_rows(folder: Path, table: str = "qa") -> str:
    rows = pa.concat_tables(pq.read_table(path) for path in sorted((folder / table).glob("train-*")))
    return f"{rows['study_id'][0]} {len(rows)}\n"


@pytest.mark.slow
def test_plain_load_dataset_serves_every_folder_its_own_rows(built, tmp_path):
    """The card's own call, in processes of their own that share a cache; then the release is built again."""
    other = build_release(tmp_path / "other", studies=9, seed=5)
    releases, cache = [built.workspace.release, other.workspace.release], tmp_path / "cache"
    assert releases[0].name == releases[1].name  # the cache is named after it
    for config, table in (("default", "qa"), ("studies", "studies")):
        expected = [first_rows(folder, table) for folder in releases]
        assert expected[0] != expected[1]
        assert [load_plainly(folder, cache, config=config) for folder in releases] == expected
        assert [load_plainly(folder, cache, True, config) for folder in releases] == expected
    before = first_rows(releases[1])
    shutil.rmtree(tmp_path / "other")
    again = build_release(tmp_path / "other", studies=9, seed=6)
    assert first_rows(again.workspace.release) != before
    for streaming in (False, True):
        assert load_plainly(again.workspace.release, cache, streaming) == first_rows(again.workspace.release)
