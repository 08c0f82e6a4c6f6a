"""`push dataset`: what loads from the Hub afterwards, and every release that does not go, however it is dressed up."""

import base64
import io
import json
import re
import shutil
import zipfile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from builds import describe_again
from PIL import Image
from pushing import run_stranger

from medvqa_core.errors import GovernanceError, InputError, MedvqaError
from medvqa_hub.cli import run
from medvqa_hub.publishing.dataset import push_dataset
from medvqa_hub.publishing.sending import Push
from medvqa_hub.publishing.staging import MARK
from rjua_meddqa import SAMPLE_DIR


def push(hub, api, folder, repo_id="me/rows", **options):
    return push_dataset(Push(folder, repo_id, **options), hub=api, log=lambda line: None)


@pytest.fixture
def release(built, tmp_path):
    """An own copy of the release, to be damaged."""
    return shutil.copytree(built.workspace.release, tmp_path / "release")


def edit(folder, **fields) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


LOAD = """
from datasets import load_dataset, get_dataset_config_names
rows = load_dataset("me/rows")
print({name: len(split) for name, split in rows.items()})
first = next(iter(load_dataset("me/rows", split="test", streaming=True)))
assert first == rows["test"][0]
studies = load_dataset("me/rows", "studies", split="train", revision="v1.0.0")
print(len(studies), sorted(get_dataset_config_names("me/rows")))
"""


@pytest.mark.slow
def test_a_stranger_loads_the_rows_whole_and_as_a_stream(built, hub, api, tmp_path):
    push(hub, api, built.workspace.root)
    printed = run_stranger(hub, LOAD, tmp_path).splitlines()
    splits = built.manifest["splits"]
    expected = {
        "train": splits["train"]["rows"],
        "validation": splits["validate"]["rows"],
        "test": splits["test"]["rows"],
    }
    assert yaml.safe_load(printed[-2]) == expected
    assert printed[-1] == f"{splits['train']['studies']} ['default', 'studies']"


def test_a_release_is_complete_and_opens_from_a_download(built, hub, api, tmp_path, release):
    from mimic_cxr_vqa.release import open_release

    (release / "notes.zip").write_bytes(b"PK\x03\x04 reports")
    (release / "images").mkdir()
    (release / "images" / "a.png").write_bytes(b"\x89PNG")
    done = push(hub, api, release)
    files = hub.dataset("me/rows").files
    shards = {name for name in built.manifest["files"] if name.endswith(".parquet")}
    assert set(files) == shards | {"README.md", "manifest.json", "eval.yaml", MARK}
    card = files["README.md"].decode()
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "apache-2.0"
    assert 'load_dataset("me/rows", split="train")' in card and "not the older template-based dataset" in card
    downloaded = api.snapshot_download("me/rows", repo_type="dataset", revision=done.tag, cache_dir=tmp_path / "cache")
    shutil.copytree(downloaded, tmp_path / "again", ignore=shutil.ignore_patterns(MARK))
    assert (
        sum(len(batch) for batch in open_release(tmp_path / "again").iterate_all()) == built.manifest["counts"]["rows"]
    )
    assert push(hub, api, tmp_path / "again") == done  # the same content is the same version


REFUSED = [
    {"governance": "credentialed"},
    {"governance": "no-derivatives"},
    {"governance": "no-derivatives", "source": "openi"},
    {"source": "openi"},  # the word says open
    {"source": "physionet"},
    {"source": "my hospital"},
    {"source": None},
    {"governance": "share-alike", "source": "physionet"},
    {"governance": "free"},
]


@pytest.mark.parametrize("fields", REFUSED, ids=str)
@pytest.mark.parametrize("public", [None, False, True])
def test_refused_whatever_a_word_or_a_name_says(fields, public, release, hub, api, tmp_path):
    edit(release, **fields)
    with pytest.raises(GovernanceError):
        push(hub, api, release, public=public)
    renamed = release.rename(tmp_path / "phantom-open-release")
    with pytest.raises(GovernanceError):
        push(hub, api, renamed, public=public)
    (tmp_path / "linked").symlink_to(renamed)
    with pytest.raises(GovernanceError):
        push(hub, api, tmp_path / "linked", public=public)
    assert not hub.requests


def rewrite(release, change) -> str:
    """Another table in place of the first shard of questions; its name."""
    path = sorted((release / "qa").glob("test-*.parquet"))[0]
    pq.write_table(change(pq.read_table(path)), path)
    describe_again(release)
    return path.name


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("L", (8, 8)).save(file, "PNG")
    return file.getvalue()


def replace(table: pa.Table, column: str, values) -> pa.Table:
    return table.set_column(table.column_names.index(column), table.schema.field(column), pa.chunked_array([values]))


SHARDS = {
    "image bytes": lambda rows: rows.append_column("image", pa.array([picture()] * len(rows), pa.binary())),
    "images in place of paths": lambda rows: rows.set_column(
        rows.column_names.index("images"), "images", pa.array([[picture()]] * len(rows), pa.list_(pa.binary()))
    ),
    "an image as text": lambda rows: replace(
        rows, "answer", pa.array([base64.b64encode(picture()).decode()] * len(rows))
    ),
    "a path of MIMIC's": lambda rows: replace(
        rows, "answer", pa.array(["see files/p10/p10000032/s50414267/a.jpg"] * len(rows))
    ),
    "ids of MIMIC's": lambda rows: replace(
        rows, "subject_id", pc.subtract(rows["subject_id"], 80_000_000).combine_chunks()
    ),
}


@pytest.mark.parametrize("attack", SHARDS)
def test_shards_with_more_than_rows_are_refused(attack, release, hub, api):
    rewrite(release, SHARDS[attack])
    with pytest.raises(GovernanceError):
        push(hub, api, release)
    assert not hub.requests


def test_a_described_archive_is_no_shard(release, hub, api):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as made:
        made.writestr("reports.zip", b"PK\x03\x04")
    for name in ("qa/extra.zip", "qa/test-00001-of-00001.parquet", "more/train-00000-of-00001.parquet"):
        (release / name).parent.mkdir(exist_ok=True)
        (release / name).write_bytes(inner.getvalue())
        manifest = json.loads((release / "manifest.json").read_text())
        edit(release, files={**manifest["files"], name: {"bytes": 0, "sha256": ""}})
        describe_again(release)
        with pytest.raises(MedvqaError):
            push(hub, api, release)
        edit(release, files=manifest["files"])
    assert not hub.requests


def test_a_linked_shard_and_a_changed_one_are_refused(release, hub, api, tmp_path):
    path = sorted((release / "qa").glob("*.parquet"))[0]
    path.rename(tmp_path / path.name)
    path.symlink_to(tmp_path / path.name)
    with pytest.raises(InputError, match="symbolic link"):
        push(hub, api, release)
    path.unlink()
    path.write_bytes((tmp_path / path.name).read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="manifest"):
        push(hub, api, release)
    assert not hub.requests


def test_questions_without_answers_and_csv_files_are_no_release(built, hub, api, tmp_path):
    assert run(["cxr", "export-csv", "--data", str(built.workspace.release), "--out", str(tmp_path / "csv")]) == 0
    for folder in (built.workspace.questions, tmp_path / "csv"):
        with pytest.raises(InputError, match="medvqa-hub cxr release"):
            push(hub, api, folder)
    with pytest.raises(InputError, match="release"):
        push(hub, api, tmp_path)


@pytest.fixture
def reports(tmp_path):
    return shutil.copytree(SAMPLE_DIR, tmp_path / "reports")


def test_drawn_report_data_go_without_their_images(reports, hub, api):
    push(hub, api, reports)
    files = hub.dataset("me/rows").files
    names = {
        "annotations.csv",
        "questions.jsonl",
        "reasoning.jsonl",
        "contexts.csv",
        "manifest.json",
        "README.md",
        "eval.yaml",
        MARK,
    }
    assert set(files) == names
    card = files["README.md"].decode()
    assert (
        yaml.safe_load(card.split("---\n")[1])["license"] == "apache-2.0"
        and 'load_dataset("me/rows", "questions"' in card
    )


def test_what_is_of_rjua_keeps_licence_and_attribution_and_is_never_open(reports, hub, api):
    manifest = json.loads((reports / "manifest.json").read_text())
    del manifest["phantom"]
    edited = {**manifest, "governance": "share-alike", "source": "the authors' release"}
    (reports / "manifest.json").write_text(json.dumps(edited))
    push(hub, api, reports)
    card = hub.dataset("me/rows").files["README.md"].decode()
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "cc-by-nc-sa-4.0"
    assert re.search(r"Derived from RJUA-MedDQA \(Jin et al.*names both and keeps the licence", card)
    asked = len(hub.requests)
    for change in ({"governance": "open"}, {"governance": "credentialed"}, {"governance": "open", "phantom": {}}):
        (reports / "manifest.json").write_text(json.dumps({**edited, **change}))
        with pytest.raises(GovernanceError):
            push(hub, api, reports)
    (reports / "manifest.json").unlink()  # the authors' own release is theirs to publish
    with pytest.raises(InputError):
        push(hub, api, reports)
    assert len(hub.requests) == asked


def test_a_dry_run_of_a_release(built, hub, capsys):
    assert run(["push", "dataset", str(built.workspace.root), "--repo-id", "me/rows", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "nothing is sent to me/rows (dataset)" in printed and "governance class: open" in printed
    assert "qa/train-00000-of-00001.parquet" in printed and not hub.requests
