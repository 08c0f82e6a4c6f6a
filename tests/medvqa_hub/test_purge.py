"""`purge` deletes files with rows of a class that this package wrote, and nothing else."""

import json
import os
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
from medvqa_hub.purge import delete_files, find_files
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.schema import QA_SCHEMA
from mimic_cxr_vqa.workspace import Workspace
from rjua_meddqa.data_folder import open_folder, record_part

PATIENT, STUDY = 10**7 + 32, 5 * 10**7 + 414_267  # in MIMIC's range, put together here


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A cache of `datasets` for each test."""
    folder = tmp_path / "home" / "datasets"
    folder.mkdir(parents=True)
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("built"), studies=16)


@pytest.fixture
def credentialed(built, tmp_path) -> Workspace:
    """The same build as credentialed rows."""
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
    return delete_files(find_files(roots, CREDENTIALED))


def test_a_credentialed_workspace_is_deleted_and_an_open_one_stays(built, credentialed, tmp_path, capsys):
    shutil.copytree(built.workspace.root, tmp_path / "work" / "drawn")
    before, drawn = files_below(credentialed.root), files_below(tmp_path / "work" / "drawn")
    (credentialed.root / "notes.txt").write_text("mine")
    (credentialed.release / "qa" / "notes.parquet").write_bytes(b"mine")
    mine = {"notes.txt", "release/qa/notes.parquet"}
    for options, left in (([], before | mine), (["--yes"], mine)):
        assert run(["purge", str(tmp_path / "work"), "--class", "credentialed", *options]) == 0
        printed = capsys.readouterr().out
        assert f"{len(before)} files of class credentialed" in printed and ("--yes" in printed) == (not options)
        assert files_below(credentialed.root) == left
    assert not credentialed.questions.exists()  # empty folders are deleted too
    assert files_below(tmp_path / "work" / "drawn") == drawn
    assert purge(tmp_path / "work") == 0
    assert run(["purge", "--class", "open", "--yes"]) == 2


def test_arrow_copies_state_their_class(built, credentialed, cache):
    for folder in (built.workspace.root, credentialed.root):
        rows = load_dataset("mimic_cxr_vqa", data_dir=str(folder), split="test", cache_dir=str(cache))
        rows = rows.map(lambda row: {"long": len(row["answer"])})  # writes cache-….arrow
        rows.save_to_disk(str(cache / "saved" / folder.parent.name))
    del rows
    arrow = {name for name in files_below(cache) if name.endswith(".arrow")}
    found = find_files([cache], CREDENTIALED)
    listed = {path for path in found if path.suffix == ".arrow"}
    assert len(arrow) == 2 * len(listed) and len(listed) == 5  # three splits, the map's, the saved one
    assert any(path.name.startswith("cache-") for path in listed) and any("saved" in path.parts for path in listed)
    delete_files(found)
    assert len([n for n in files_below(cache) if n.endswith(".arrow")]) == 5
    assert len(load_dataset("mimic_cxr_vqa", data_dir=str(built.workspace.root), cache_dir=str(cache))["test"]) > 0


def write_rows(path: Path, subject=PATIENT, number=STUDY, schema=QA_SCHEMA) -> Path:
    """Rows as a killed build or a plain `load_dataset(folder)` leaves them, without a stated class."""
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


def test_tables_without_a_class_are_recognised_by_columns_and_ids(cache):
    ours = [
        write_rows(cache / "parquet" / "release-1" / "parquet-train.arrow"),
        write_rows(cache / "mimic_cxr_vqa" / "x.incomplete" / "mimic_cxr_vqa-train-00000-00000-of-NNNNN.arrow"),
        write_rows(cache / "work" / ".release.partial" / "qa" / "train-00000.parquet"),
        write_rows(cache / "mimic_cxr_vqa" / "y" / "tmpab12cd34"),
    ]
    ours[1].write_bytes(ours[1].read_bytes()[:-9])  # cut off by a kill
    others = [
        write_rows(cache / "drawn" / "train.arrow", 90_000_001, 95_000_001),
        write_rows(cache / "others" / "a.parquet", schema=pa.schema([QA_SCHEMA.field("study_id")])),
        cache / "others" / "b.arrow",
    ]
    others[2].write_bytes(b"not a table")
    assert set(find_files([cache], CREDENTIALED)) == set(ours)
    purge(cache)
    assert not any(path.exists() for path in ours) and all(path.exists() for path in others)


def test_stores_are_recognised_by_their_header(tmp_path):
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


def write_marker(folder: Path) -> Path:
    """Mark `folder` as shrunk images and return the place of a study's images."""
    place = folder / "files" / f"p{PATIENT}" / f"s{STUDY}"
    place.mkdir(parents=True)
    marker = {"kind": "shrunk-images", "governance": "credentialed", "size": 8, "quality": 95}
    (folder / "shrunk.json").write_text(json.dumps(marker))
    Image.new("L", (8, 9)).save(place / "a.jpg")
    return place


def test_shrunk_images_are_deleted_and_originals_stay(tmp_path):
    place = write_marker(tmp_path)
    Image.new("L", (20, 30)).save(place / "original.jpg")  # larger than the marker states
    Image.new("L", (8, 8)).save(tmp_path / "holiday.jpg")
    (place / "broken.jpg").write_bytes(b"not an image")
    assert purge(tmp_path) == 2
    assert {Path(name).name for name in files_below(tmp_path)} == {"holiday.jpg", "original.jpg", "broken.jpg"}


@pytest.mark.parametrize("table", ["mimic-cxr-2.0.0-metadata.csv.gz", "mimic-cxr-reports.zip", "cxr-study-list.csv.gz"])
def test_a_copy_of_mimic_stays_with_everything_in_it(credentialed, tmp_path, table):
    source = tmp_path / "physionet"
    write_marker(source)
    (source / table).write_bytes(b"")
    shutil.copytree(credentialed.root, source / "cxr")
    assert not find_files([source], CREDENTIALED)
    with pytest.raises(ConfigError, match="copy of MIMIC-CXR"):
        find_files([source / "cxr"], CREDENTIALED)


def test_links_are_not_followed(credentialed, tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    shutil.move(credentialed.root, outside)
    for name in ("release/studies", "questions"):
        (inside / name).mkdir(parents=True)
    (inside / "all").symlink_to(outside)
    (inside / "round").symlink_to(inside)
    shutil.copy(outside / "release" / "manifest.json", inside / "release")  # its shards are behind links
    for name in ("answers.jsonl", "release/qa", "questions/manifest.json"):
        (inside / name).symlink_to(outside / name)
    for shard in (outside / "release" / "studies").iterdir():
        (inside / "release" / "studies" / shard.name).symlink_to(shard)
    (inside / "questions" / "questions.parquet").write_bytes(b"mine")
    before = files_below(outside)
    assert purge(inside) == 1  # the manifest
    assert files_below(outside) == before
    assert (inside / "questions" / "questions.parquet").read_bytes() == b"mine"
    (tmp_path / "scratch").symlink_to(outside)  # the user may name a link
    assert purge(tmp_path / "scratch") == len(before)


def test_a_link_that_appears_after_listing_is_not_followed(credentialed, tmp_path):
    found = find_files([credentialed.root], CREDENTIALED)
    moved = tmp_path / "moved"
    shutil.move(credentialed.release, moved)
    credentialed.release.symlink_to(moved)
    before = files_below(moved)
    with pytest.raises(OutputError, match="link"):
        delete_files(found)
    assert files_below(moved) == before and not credentialed.answers.exists()


def test_a_store_that_is_being_written_stays(tmp_path):
    path = tmp_path / "answers.jsonl"
    with open_store(path, governance=CREDENTIALED):
        with pytest.raises(OutputError, match="another process"):
            purge(tmp_path)
        assert path.exists()
    assert purge(tmp_path) == 1


def test_models_and_foreign_manifests_stay(tmp_path):
    model, tables = tmp_path / "model", tmp_path / "tables"
    for folder in (model, tables):
        folder.mkdir()
    (model / "governance.json").write_text('{"governance": "credentialed", "format": 2}')
    (model / "model.safetensors").write_bytes(b"weights")
    for name, text in {"list": "[]", "other": '{"kind": "mine", "governance": "credentialed"}', "torn": "{"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(text)
    (tables / "manifest.json").write_text('{"kind": "vlmevalkit-tsv", "governance": "credentialed"}')
    (tables / "mine.tsv").write_text("a\tb\n")
    (tables / "cxr.tsv").write_text("index\tid\timage_path\tquestion\tanswer\tcategory\n")
    assert set(find_files([tmp_path], CREDENTIALED)) == {tables / "manifest.json", tables / "cxr.tsv"}


@pytest.mark.parametrize("root", ["/", "no such folder"])
def test_a_root_must_be_a_folder_of_the_user(root, tmp_path):
    with pytest.raises(ConfigError):
        find_files([tmp_path / root], CREDENTIALED)


def test_a_failure_is_reported_and_the_other_files_are_deleted(credentialed, monkeypatch):
    unlink = os.unlink

    def refuse(path, *args, **options):
        if Path(path).name == "questions.parquet":
            raise PermissionError(13, "Permission denied")
        unlink(path, *args, **options)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(OutputError, match="questions.parquet: Permission denied"):
        purge(credentialed.root)
    assert files_below(credentialed.root) == {"questions/questions.parquet"}


@pytest.mark.slow
def test_everything_made_of_report_images_is_deleted_and_the_images_stay(tmp_path, capsys):
    """The commands of docs/meddqa.md on credentialed images."""
    pytest.importorskip("rapidocr")
    assert run(["meddqa", "phantom", "--out", str(tmp_path / "drawn"), "--reports", "2"]) == 0
    photos, made, cells = tmp_path / "photos", tmp_path / "made", tmp_path / "table.json"
    shutil.copytree(tmp_path / "drawn" / "images", photos)
    pages, drafts, questions = made / "pages", made / "drafts", made / "questions"
    cells.write_text(json.dumps([["项目", "结果"], ["钾", "4.1"]]), encoding="utf-8")
    ocr = f"meddqa ocr --images {photos} --out {made}/read"
    for command in (
        f"meddqa esra --images {photos} --out {pages}",
        f"meddqa preannotate --pages {pages} --out {drafts}",
        f"meddqa check --data {drafts} --pages {pages} --out {made}/checked.json",
        f"meddqa labelstudio-export --data {drafts} --pages {pages} --out {made}/tasks",
        f"meddqa generate --data {drafts} --out {questions}",
        f"evaluate meddqa --data {questions} --image-root {photos} --out {made}/scores",
        f"evaluate meddqa-report {made}/scores --out {made}/report",
        ocr,
    ):
        assert run(command.split()) == 0, capsys.readouterr().err
    boxes = next((made / "read" / "boxes").glob("*.jpg.json"), None) or next(
        (made / "read" / "boxes").glob("*.png.json")
    )
    run(["meddqa", "check", "--table", str(cells), "--boxes", str(boxes), "--out", str(made / "table_findings.json")])
    before = files_below(made)
    assert len(before) > 15 and "table_findings.json" in before
    assert run(["purge", str(tmp_path), "--class", "credentialed", "--yes"]) == 0
    assert files_below(made) == set()
    assert len(files_below(photos)) == 2 and (tmp_path / "drawn" / "annotations.csv").is_file()
    assert cells.is_file()


def test_files_of_the_audit_are_deleted(tmp_path):
    write_store(tmp_path / "audit" / "predictions.jsonl", governance=CREDENTIALED, kind="predictions")
    changed = f"images/film-blank-{'0a' * 8}.png"
    for name in ("audit.json", "audit.jsonl", "audit.png", "audit-examples.png", changed, "images/mine.png"):
        path = tmp_path / "audit" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"{}")
    exported = tmp_path / "exported" / "questions.jsonl"
    (exported.parent / "images").mkdir(parents=True)
    (exported.parent / "images" / f"film-noise-{'0b' * 8}.png").write_bytes(b"")
    exported.write_text('{"kind": "audit-questions", "governance": "credentialed"}\n{"id": "s1"}\n')
    purge(tmp_path)
    assert files_below(tmp_path) == {"audit/images/mine.png"}  # photographs beside predictions


def test_the_users_own_files_in_a_folder_of_report_data_stay_with_their_class(tmp_path):
    own = {"contexts.csv": "of an expert", "README.md": "my notes", "annotations.csv": "annotated elsewhere"}
    for name, text in own.items():
        (tmp_path / name).write_text(text)
    record_part(tmp_path, "questions", CREDENTIALED, {})  # makes the folder credentialed
    manifest = json.loads((tmp_path / "manifest.json").read_text()) | {"governance": "credentialed"}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "questions.jsonl").write_text("{}\n")
    purge(tmp_path)
    assert files_below(tmp_path) == {*own, "manifest.json"}
    assert open_folder(tmp_path).governance is CREDENTIALED  # without the manifest, it would be the authors' release


def test_corrections_are_deleted_with_their_boxes(tmp_path):
    write_store(tmp_path / "edits.jsonl", governance=CREDENTIALED, kind="corrections")
    record_part(tmp_path, "annotations", CREDENTIALED, {})
    (tmp_path / "annotations.csv").write_text("img_path\n")
    (tmp_path / "boxes").mkdir()
    (tmp_path / "boxes" / "a.json").write_text("[]")
    purge(tmp_path)
    assert files_below(tmp_path) == set()


def test_a_csv_of_the_users_beside_answers_stays(tmp_path):
    for folder, begin in (("ours", '"qa_id","study_id","question","prediction","error","governance"'), ("mine", "a,b")):
        write_store(tmp_path / folder / "answers.jsonl", governance=CREDENTIALED, kind="answers")
        (tmp_path / folder / "answers.csv").write_text(f"{begin}\n")
    purge(tmp_path)
    assert files_below(tmp_path) == {"mine/answers.csv"}
