"""Purging: what is of the class and ours goes; all else stays, however it is dressed up."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builds import build_release
from datasets import config, load_dataset
from PIL import Image
from rows import qa_row
from stores import CREDENTIALED, OPEN, open_store, write_store

import mimic_cxr_vqa  # noqa: F401 - registers the builder
from medvqa_core.errors import ConfigError, OutputError
from medvqa_hub.cli import run
from medvqa_hub.purging.purge import remove, survey
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.schema import QA_SCHEMA
from mimic_cxr_vqa.workspace import Workspace

PATIENT, STUDY = 10**7 + 32, 5 * 10**7 + 414_267  # of MIMIC's range, put together here


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A cache of `datasets` for each test, far from the user's."""
    folder = tmp_path / "home" / "datasets"
    folder.mkdir(parents=True)
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("built"), studies=16)


@pytest.fixture
def credentialed(built, tmp_path) -> Workspace:
    """The same build as rows of the strictest class."""
    workspace = Workspace(tmp_path / "work" / "cxr")
    shutil.copytree(built.workspace.root, workspace.root)
    workspace.answers.unlink()
    shutil.rmtree(workspace.release)
    manifest = workspace.questions / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"governance": "credentialed"}))
    answer_questions(workspace, ExtractiveEngine())
    write_release(workspace)
    return workspace


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


def purge(*roots: Path) -> int:
    return remove(survey(roots, CREDENTIALED), roots)


def test_a_workspace_goes_and_an_open_one_stays(built, credentialed, tmp_path, capsys):
    shutil.copytree(built.workspace.root, tmp_path / "work" / "drawn")
    before, drawn = files_below(credentialed.root), files_below(tmp_path / "work" / "drawn")
    (credentialed.root / "notes.txt").write_text("mine")
    (credentialed.release / "qa" / "notes.parquet").write_bytes(b"mine")
    assert run(["purge", str(tmp_path / "work"), "--class", "credentialed"]) == 0
    printed = capsys.readouterr().out
    assert f"{len(before)} files of class credentialed" in printed and "nothing was removed" in printed
    assert "stays: " in printed and "notes.txt (no proof" in printed
    assert files_below(credentialed.root) == before | {"notes.txt", "release/qa/notes.parquet"}
    assert run(["purge", str(tmp_path / "work"), "--class", "credentialed", "--yes"]) == 0
    assert f"{len(before)} files removed" in capsys.readouterr().out
    assert files_below(credentialed.root) == {"notes.txt", "release/qa/notes.parquet"}
    assert not credentialed.questions.exists()  # empty folders go too
    assert files_below(tmp_path / "work" / "drawn") == drawn
    assert purge(tmp_path / "work") == 0


def test_a_submission_goes(credentialed, tmp_path):
    from medvqa_hub.publishing.physionet import publish_physionet

    publish_physionet(credentialed.root, tmp_path / "sub", "MIMIC-CXR-Ext-VQA", log=lambda line: None)
    assert (tmp_path / "sub").stat().st_mode & 0o077 == 0
    assert purge(tmp_path / "sub") == len(credentialed.manifest()["questions_per_split"]) * 2 + 6
    assert not files_below(tmp_path / "sub")


def test_other_classes_are_not_asked_for(tmp_path, capsys):
    assert run(["purge", "--class", "open", "--yes"]) == 2
    assert "--class" in capsys.readouterr().err


def test_arrow_copies_go_by_what_they_say_of_themselves(built, credentialed, cache):
    for folder in (built.workspace.root, credentialed.root):
        rows = load_dataset("mimic_cxr_vqa", data_dir=str(folder), split="test", cache_dir=str(cache))
        rows = rows.map(lambda row: {"long": len(row["answer"])})  # writes cache-….arrow beside them
        rows.save_to_disk(str(cache / "saved" / folder.parent.name))
    del rows
    arrow = {name for name in files_below(cache) if name.endswith(".arrow")}
    found = survey([cache], CREDENTIALED)
    going = {path for path in found.files if path.suffix == ".arrow"}
    assert len(arrow) == 2 * len(going) and len(going) == 5  # three splits, the map's, the saved one
    assert any(path.name.startswith("cache-") for path in going) and any("saved" in path.parts for path in going)
    remove(found, [cache])
    assert len([n for n in files_below(cache) if n.endswith(".arrow")]) == 5
    assert len(load_dataset("mimic_cxr_vqa", data_dir=str(built.workspace.root), cache_dir=str(cache))["test"]) > 0


def rows_of_mimic(path: Path, subject=PATIENT, number=STUDY, schema=QA_SCHEMA) -> Path:
    """Rows as a killed build or a plain `load_dataset(folder)` leaves them: nothing says their class."""
    row = qa_row(0) | {"subject_id": subject, "study_id": number, "qa_id": f"s{number}-edema-1"}
    table = pa.Table.from_pylist([row], schema=schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            for _ in range(3):
                writer.write_table(table)
    return path


def test_what_says_nothing_goes_by_its_columns_and_ids(cache):
    going = [
        rows_of_mimic(cache / "parquet" / "release-1" / "parquet-train.arrow"),
        rows_of_mimic(cache / "mimic_cxr_vqa" / "x.incomplete" / "mimic_cxr_vqa-train-00000-00000-of-NNNNN.arrow"),
        rows_of_mimic(cache / "work" / ".release.partial" / "qa" / "train-00000.parquet"),
        rows_of_mimic(cache / "mimic_cxr_vqa" / "y" / "tmpab12cd34"),
    ]
    whole = going[1].read_bytes()
    going[1].write_bytes(whole[:-9])  # torn by the kill
    staying = [
        rows_of_mimic(cache / "drawn" / "train.arrow", 90_000_001, 95_000_001),
        rows_of_mimic(cache / "others" / "a.parquet", schema=pa.schema([QA_SCHEMA.field("study_id")])),
        cache / "others" / "b.arrow",
    ]
    staying[2].write_bytes(b"no table")
    assert set(survey([cache], CREDENTIALED).files) == set(going)
    purge(cache)
    assert not any(path.exists() for path in going) and all(path.exists() for path in staying)


def test_stores_go_by_their_first_line(tmp_path):
    scores = tmp_path / "scores"
    write_store(scores / "predictions.jsonl", governance=CREDENTIALED, kind="predictions")
    write_store(scores / "drawn" / "predictions.jsonl", governance=OPEN, kind="predictions")
    for folder in (scores, scores / "drawn"):
        for name in ("scored.jsonl", "results.json", "results-blank.json", "examples.png", "figure.png"):
            (folder / name).write_text('{"governance": "credentialed"}')
    (scores / "other.jsonl").write_text(
        '{"store": 1, "kind": "x", "governance": "open"}\n{"governance": "credentialed"}'
    )
    assert purge(scores) == 5
    assert files_below(scores) == {
        "figure.png", "other.jsonl", "drawn/predictions.jsonl", "drawn/scored.jsonl", "drawn/results.json",
        "drawn/figure.png", "drawn/results-blank.json", "drawn/examples.png",
    }  # fmt: skip


def shrunk(folder: Path, size: int = 8) -> None:
    folder.mkdir(parents=True)
    (folder / "shrunk.json").write_text(
        json.dumps({"kind": "shrunk-images", "governance": "credentialed", "size": size, "quality": 95})
    )


def test_shrunk_images_go_and_films_stay(tmp_path):
    shrunk(tmp_path / "small")
    place = tmp_path / "small" / "files" / f"p{PATIENT}" / f"s{STUDY}"
    place.mkdir(parents=True)
    Image.new("L", (8, 9)).save(place / "a.jpg")
    Image.new("L", (20, 30)).save(place / "film.jpg")  # larger than the marker says
    Image.new("L", (8, 8)).save(tmp_path / "small" / "holiday.jpg")
    (place / "broken.jpg").write_bytes(b"no image")
    assert purge(tmp_path) == 2
    assert files_below(tmp_path / "small") == {
        "holiday.jpg", f"files/p{PATIENT}/s{STUDY}/film.jpg", f"files/p{PATIENT}/s{STUDY}/broken.jpg",
    }  # fmt: skip


@pytest.mark.parametrize("table", ["mimic-cxr-2.0.0-metadata.csv.gz", "mimic-cxr-reports.zip", "cxr-study-list.csv.gz"])
def test_the_source_stays_whatever_lies_in_it(credentialed, tmp_path, table):
    source = tmp_path / "physionet"
    shrunk(source)  # a marker that says all this is ours
    place = source / "files" / f"p{PATIENT}" / f"s{STUDY}"
    place.mkdir(parents=True)
    Image.new("L", (8, 8)).save(place / "a.jpg")
    (source / table).write_bytes(b"")
    shutil.copytree(credentialed.root, source / "cxr")
    before = files_below(source)
    found = survey([source], CREDENTIALED)
    assert not found.files and "the source stays" in found.kept[source]
    with pytest.raises(ConfigError, match="lies in a copy of MIMIC-CXR"):
        survey([source / "cxr"], CREDENTIALED)
    assert files_below(source) == before


def test_links_lead_nowhere(credentialed, tmp_path):
    """Everything that a link reaches is proven where it lies, and outside of what was named."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    shutil.move(credentialed.root, outside)
    inside.mkdir()
    (inside / "all").symlink_to(outside)  # a folder
    (inside / "answers.jsonl").symlink_to(outside / "answers.jsonl")  # a store
    (inside / "release").mkdir()
    shutil.copy(outside / "release" / "manifest.json", inside / "release")  # a manifest that is believed …
    (inside / "release" / "qa").symlink_to(outside / "release" / "qa")  # … and shards that are not below it
    (inside / "release" / "studies").mkdir()
    for shard in (outside / "release" / "studies").iterdir():
        (inside / "release" / "studies" / shard.name).symlink_to(shard)
    (inside / "questions").mkdir()
    (inside / "questions" / "manifest.json").symlink_to(outside / "questions" / "manifest.json")
    (inside / "questions" / "questions.parquet").write_bytes(b"mine")
    (inside / "round").symlink_to(inside)
    before = files_below(outside)
    assert purge(inside) == 1  # the manifest
    assert files_below(outside) == before
    assert (inside / "questions" / "questions.parquet").read_bytes() == b"mine"


def test_a_link_that_comes_between_listing_and_removing_is_not_followed(credentialed, tmp_path):
    found = survey([credentialed.root], CREDENTIALED)
    moved = tmp_path / "moved"
    shutil.move(credentialed.release, moved)
    credentialed.release.symlink_to(moved)
    (credentialed.questions / "questions.parquet").write_bytes(b"new")
    before = files_below(moved)
    with pytest.raises(OutputError, match="lies behind a link now|has changed since"):
        remove(found, [credentialed.root])
    assert files_below(moved) == before
    assert (credentialed.questions / "questions.parquet").exists() and not credentialed.answers.exists()


def test_a_named_link_is_the_users_own(credentialed, tmp_path):
    (tmp_path / "scratch").symlink_to(credentialed.root)
    assert purge(tmp_path / "scratch") > 5
    assert not files_below(credentialed.root)


def test_a_store_that_is_being_written_stays(tmp_path):
    path = tmp_path / "answers.jsonl"
    with open_store(path, governance=CREDENTIALED):
        with pytest.raises(OutputError, match="being written by another process"):
            purge(tmp_path)
        assert path.exists()
    assert purge(tmp_path) == 1


def test_models_and_forged_manifests_stay(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "governance.json").write_text('{"governance": "credentialed", "format": 2}')
    (model / "model.safetensors").write_bytes(b"weights")
    for name, text in {"list": "[]", "other": '{"kind": "mine", "governance": "credentialed"}', "torn": "{"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(text)
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "manifest.json").write_text('{"kind": "vlmevalkit-tsv", "governance": "credentialed"}')
    (tables / "mine.tsv").write_text("a\tb\n")
    (tables / "cxr.tsv").write_text("index\tid\timage_path\tquestion\tanswer\tcategory\n")
    found = survey([tmp_path], CREDENTIALED)
    assert set(found.files) == {tables / "manifest.json", tables / "cxr.tsv"}
    assert "weights are no rows" in found.kept[model]


@pytest.mark.parametrize("root", ["/", "no such folder"])
def test_places_that_are_none(root, tmp_path):
    with pytest.raises(ConfigError):
        survey([Path(root) if root == "/" else tmp_path / root], CREDENTIALED)


def test_what_cannot_be_removed_is_named_and_the_rest_goes(credentialed, monkeypatch):
    unlink = Path.unlink

    def refuse(path, *args):
        if path.name == "questions.parquet":
            raise PermissionError(13, "Permission denied")
        unlink(path, *args)

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OutputError, match="questions.parquet cannot be removed .Permission denied. .1 such"):
        purge(credentialed.root)
    assert files_below(credentialed.root) == {"questions/questions.parquet"}
