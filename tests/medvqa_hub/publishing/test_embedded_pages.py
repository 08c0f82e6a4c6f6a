"""`push dataset --image-root` of synthetic reports: their pages go into the rows, and no other image can."""

import io
import json
import shutil

import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import DatasetCardData
from PIL import Image
from pushing import run_stranger

from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_hub.publishing.dataset import push_dataset
from medvqa_hub.publishing.sending import Push
from rjua_meddqa.phantom.folder import write_phantom

REPORTS = 3


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    write_phantom(folder, REPORTS, seed=4)
    return folder


def push(api, folder, image_root, repo_id="me/pages"):
    return push_dataset(Push(folder, repo_id), hub=api, log=lambda line: None, image_root=image_root)


LOAD = """
import sys
from datasets import load_dataset, get_dataset_config_names
assert "rjua_meddqa" not in sys.modules
print(get_dataset_config_names("me/pages"))
for config in ("pages", "chat", "qa"):
    rows = load_dataset("me/pages", config, split="test")
    for row, streamed in zip(rows, load_dataset("me/pages", config, split="test", streaming=True), strict=True):
        if config != "qa":
            assert [i.tobytes() for i in row.pop("images")] == [i.tobytes() for i in streamed.pop("images")]
        assert row == streamed
    print(len(rows))
pages, chat = (load_dataset("me/pages", config, split="test") for config in ("pages", "chat"))
for page, talk in zip(pages, chat, strict=True):
    assert len(talk["messages"]) == 2 * len(page["questions"])
    assert [message["content"].count({"type": "image"}) for message in talk["messages"]][:2] == [1, 0]
"""


@pytest.mark.slow
def test_a_stranger_loads_pages_without_the_package(reports, hub, api, tmp_path):
    push(api, reports, reports)
    configs, pages, chats, questions = run_stranger(hub, LOAD, tmp_path).splitlines()
    counts = json.loads((reports / "manifest.json").read_text())["counts"]
    assert configs == "['pages', 'chat', 'qa']" and int(pages) == int(chats) == REPORTS
    assert int(questions) == counts["questions"] + counts["reasoning"]


def test_the_rows_hold_the_drawn_pages_and_no_file_of_the_folder(reports, hub, api, tmp_path):
    foreign = shutil.copytree(reports, tmp_path / "foreign")
    secret = io.BytesIO()
    Image.linear_gradient("L").save(secret, "PNG")
    for path in (foreign / "images").iterdir():
        path.write_bytes(secret.getvalue())
    push(api, foreign, foreign)
    files = hub.dataset("me/pages").files
    assert all(secret.getvalue()[:200] not in content for content in files.values())
    rows = pq.read_table(io.BytesIO(files["data/test-00000-of-00001.parquet"])).to_pylist()
    for row in rows:
        assert row["images"][0]["bytes"] == (reports / "images" / row["img_path"]).read_bytes()
    asked = [json.loads(line)["question"] for line in (reports / "questions.jsonl").read_text().splitlines()]
    found = [question["question"] for row in rows for question in row["questions"] if question["context"] is None]
    assert sorted(found) == sorted(asked)
    card = files["README.md"].decode()
    data = DatasetCardData(**yaml.safe_load(card.split("---\n")[1]))
    assert [info["config_name"] for info in data.dataset_info] == ["pages", "chat", "qa"]
    assert {"list": "image", "name": "images"} in data.dataset_info[0]["features"]
    assert "](examples.png)" in card and "arxiv.org/abs/2402.14840" in card and "croissant.json" not in files
    with Image.open(io.BytesIO(files["examples.png"])) as sheet:
        assert sheet.height == 640


def test_texts_that_are_not_those_of_the_drawn_pages_are_refused(reports, hub, api, tmp_path):
    copy = shutil.copytree(reports, tmp_path / "copy")
    manifest = json.loads((copy / "manifest.json").read_text())

    def with_parameters(**changed):
        phantom = {**manifest["phantom"], **changed}
        (copy / "manifest.json").write_text(json.dumps({**manifest, "phantom": phantom}))

    for changed, error, text in (
        ({"seed": 5}, GovernanceError, "annotation of report0001"),
        ({"reports": 2}, GovernanceError, "3 annotated pages, but 2"),
        ({"font": "Other"}, ConfigError, "Other"),
    ):
        with_parameters(**changed)
        with pytest.raises(error, match=text):
            push(api, copy, copy)
    with_parameters()
    path = copy / "annotations.csv"
    path.write_text(path.read_text().replace("姓名", "名字", 1))
    with pytest.raises(GovernanceError, match="is not that of the synthetic report"):
        push(api, copy, copy)
    assert not hub.requests


def test_only_synthetic_reports_are_embedded(reports, hub, api, tmp_path):
    copy = shutil.copytree(reports, tmp_path / "copy")
    manifest = json.loads((copy / "manifest.json").read_text())
    del manifest["phantom"]
    (copy / "manifest.json").write_text(json.dumps({**manifest, "governance": "share-alike"}))
    with pytest.raises(GovernanceError, match="must not be embedded"):
        push(api, copy, reports)
    with pytest.raises(InputError, match="medvqa-hub meddqa phantom"):
        push(api, reports, tmp_path)
    assert not hub.requests
