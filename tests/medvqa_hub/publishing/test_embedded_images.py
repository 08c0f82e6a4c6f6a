"""`push dataset --image-root`: the images of a synthetic release go into its rows, and no other image can."""

import io
import json
import shutil

import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import DatasetCardData
from PIL import Image
from pushing import run_stranger

from medvqa_core.errors import GovernanceError, InputError
from medvqa_hub.cli import run
from medvqa_hub.publishing.dataset import push_dataset
from medvqa_hub.publishing.scanning import scan
from medvqa_hub.publishing.sending import Push
from mimic_cxr_vqa.embedded_images import read_parameters, write_shards
from mimic_cxr_vqa.phantom.tree import write_phantom
from mimic_cxr_vqa.release import open_release


def push(built, api, image_root, repo_id="me/films", **options):
    source = Push(built.workspace.release, repo_id)
    return push_dataset(source, hub=api, log=lambda line: None, image_root=image_root, **options)


LOAD = """
import sys
from datasets import load_dataset, get_dataset_config_names
assert "mimic_cxr_vqa" not in sys.modules
print(get_dataset_config_names("me/films"))
studies = load_dataset("me/films")
print({name: len(rows) for name, rows in studies.items()})
for config in ("studies", "chat", "qa"):
    rows = load_dataset("me/films", config, split="train")
    streamed = next(iter(load_dataset("me/films", config, split="train", streaming=True)))
    first = rows[0]
    if config != "qa":
        assert [i.tobytes() for i in first.pop("images")] == [i.tobytes() for i in streamed.pop("images")]
    assert first == streamed
study, chat = studies["train"][0], load_dataset("me/films", "chat", split="train")[0]
assert sum(m["content"].count({"type": "image"}) for m in chat["messages"]) == len(study["images"])
assert len(chat["messages"]) == 2 * len(study["questions"])
print(study["images"][0].size, study["views"])
"""


@pytest.mark.slow
def test_a_stranger_loads_images_without_the_package(built, hub, api, tmp_path):
    push(built, api, built.tree)
    printed = run_stranger(hub, LOAD, tmp_path).splitlines()
    splits = built.manifest["splits"]
    assert printed[-3] == "['studies', 'chat', 'qa']"
    assert yaml.safe_load(printed[-2]) == {
        {"validate": "validation"}.get(name, name): counts["studies"] for name, counts in splits.items()
    }
    assert printed[-1].startswith("(64, 64)")


def test_the_rows_hold_the_bytes_of_the_tree(built, hub, api, tmp_path):
    done = push(built, api, built.tree)
    files = hub.dataset("me/films").files
    rows = pq.read_table(io.BytesIO(files["data/train-00000-of-00001.parquet"])).to_pylist()
    for image in (image for row in rows for image in row["images"]):
        assert image["bytes"] == (built.tree / "files" / image["path"]).read_bytes()
    assert {q["qa_id"] for row in rows for q in row["questions"]} <= {
        row["qa_id"] for batch in open_release(built.workspace.root).iterate_all() for row in batch.to_pylist()
    }
    with Image.open(io.BytesIO(files["examples.png"])) as sheet:
        assert sheet.width > 700
    card = files["README.md"].decode()
    data = DatasetCardData(**yaml.safe_load(card.split("---\n")[1]))
    assert data.size_categories == ["n<1K" if built.manifest["counts"]["rows"] < 1000 else "1K<n<10K"]
    assert [info["config_name"] for info in data.dataset_info] == ["studies", "chat", "qa"]
    assert {"list": "image", "name": "images"} in data.dataset_info[0]["features"]
    assert "![" in card and "@misc" in card
    manifest = json.loads(files["manifest.json"])["files"]
    assert {name for name in files if name.startswith("data/")} <= manifest.keys()
    downloaded = api.snapshot_download("me/films", repo_type="dataset", revision=done.tag, cache_dir=tmp_path / "cache")
    assert open_release(shutil.copytree(downloaded, tmp_path / "again")).kind == "parquet"
    assert push(built, api, built.tree) == done, "the same content is the same version"


def test_a_file_of_the_tree_is_never_sent(built, hub, api, tmp_path):
    """A foreign film under the name of a synthetic one stays on the machine: images are drawn, not read."""
    tree = shutil.copytree(built.tree, tmp_path / "tree")
    secret = io.BytesIO()
    Image.linear_gradient("L").save(secret, "JPEG")
    for path in tree.rglob("*.jpg"):
        path.write_bytes(secret.getvalue())
    push(built, api, tree)
    push(built, api, built.tree, repo_id="me/same")
    sent, expected = hub.dataset("me/films").files, hub.dataset("me/same").files
    assert all(secret.getvalue()[:200] not in content for content in sent.values())
    assert all(sent[name] == expected[name] for name in expected if name.startswith("data/"))


def test_other_trees_are_refused(built, hub, api, tmp_path):
    with pytest.raises(InputError, match="medvqa-hub cxr phantom"):
        push(built, api, tmp_path)
    write_phantom(tmp_path / "other", 24, seed=2, size=64)
    with pytest.raises(GovernanceError, match="study 95000001 .*phantom tree"):
        push(built, api, tmp_path / "other")
    write_phantom(tmp_path / "small", 3, seed=1, size=64)
    with pytest.raises(GovernanceError, match="phantom tree"):
        push(built, api, tmp_path / "small")
    assert not hub.requests


@pytest.mark.parametrize(
    "fields", [{"governance": "credentialed"}, {"source": "openi", "governance": "no-derivatives"}]
)
def test_other_releases_do_not_get_images(built, api, tmp_path, fields):
    folder = shutil.copytree(built.workspace.release, tmp_path / "release")
    manifest = json.loads((folder / "manifest.json").read_text()) | fields
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(GovernanceError, match="not a synthetic release"):
        write_shards(open_release(folder), read_parameters(built.tree), tmp_path)
    with pytest.raises(GovernanceError):
        push_dataset(Push(folder, "me/films"), hub=api, image_root=built.tree)


def test_tables_with_images_need_the_exemption_and_keep_the_other_checks(built, tmp_path):
    (tmp_path / "made").mkdir()
    made = write_shards(open_release(built.workspace.release), read_parameters(built.tree), tmp_path / "made", 100_000)
    rows = sum(pq.read_metadata(path).num_rows for path in made["train"])
    assert len(made["train"]) > 1 and rows == built.manifest["splits"]["train"]["studies"]
    paths = sorted((tmp_path / "made" / "data").glob("*.parquet"))
    names = {f"data/{path.name}" for path in paths}
    scan(tmp_path / "made", image_tables=names)
    with pytest.raises(GovernanceError, match="image"):
        scan(tmp_path / "made", image_tables=names - {f"data/{paths[0].name}"})
    rows = pq.read_table(paths[0])
    for column, text in (("findings", "see p10000032"), ("indication", "data:image/png;base64,AAAA")):
        place = rows.schema.get_field_index(column)
        pq.write_table(rows.set_column(place, column, [[text] * len(rows)]), paths[0])
        with pytest.raises(GovernanceError, match=f"column {column}"):
            scan(tmp_path / "made", image_tables=names)


def test_the_command(built, hub, capsys):
    options = ["--repo-id", "me/films", "--image-root", str(built.tree), "--dry-run", "--workers", "2"]
    assert run(["push", "dataset", str(built.workspace.release), *options]) == 0
    printed = capsys.readouterr().out
    assert "data/train-00000-of-00001.parquet" in printed and "examples.png" in printed
    assert run(["push", "dataset", str(built.workspace.release), *options[:2], "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "--image-root" in printed and "data/" not in printed and not hub.requests
