"""`croissant.json` of a data folder: tables, columns, licence, and files of others."""

import csv
import json
import shutil

import pytest

from medvqa_core.digests import digest_file
from rjua_meddqa import SAMPLE_DIR
from rjua_meddqa.card import write_card
from rjua_meddqa.croissant import write_croissant
from rjua_meddqa.data_folder import open_folder


@pytest.fixture
def folder(tmp_path):
    """A copy of the sample's tables, without images."""
    for path in SAMPLE_DIR.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    return tmp_path


def read(folder) -> dict:
    return json.loads((folder / "croissant.json").read_text(encoding="utf-8"))


def read_columns(path) -> set[str]:
    with open(path, encoding="utf-8", newline="") as file:
        return set(json.loads(file.readline())) if path.suffix == ".jsonl" else set(next(csv.reader(file)))


def test_the_sample_s_describes_every_table_and_columns_that_are_there():
    found = read(SAMPLE_DIR)
    tables = {path.name for path in open_folder(SAMPLE_DIR).files.values()}
    files = {one["@id"]: one for one in found["distribution"] if one["@type"] == "cr:FileObject"}
    assert files.keys() == tables and len(tables) == 4
    assert all(one["sha256"] == digest_file(SAMPLE_DIR / name) for name, one in files.items())
    sets = {one["@id"]: one["includes"] for one in found["distribution"] if one["@type"] == "cr:FileSet"}
    assert set(sets.values()) == tables
    for record in found["recordSet"]:
        path = SAMPLE_DIR / sets[f"{record['@id']}-files"]
        assert {field["source"]["extract"]["column"] for field in record["field"]} <= read_columns(path)
    assert found["version"] == f"1.0.0+{found['url'].rpartition(':')[2]}"
    assert found["license"].endswith("LICENSE-2.0") and "None" in found["rai:personalSensitiveInformation"]


def test_the_authors_files_under_their_own_names_and_licence(folder):
    (folder / "manifest.json").unlink()
    (folder / "questions.jsonl").rename(folder / "sampled_image_content_vqa.json")
    (folder / "reasoning.jsonl").unlink()
    write_croissant(open_folder(folder))
    found = read(folder)
    formats = {one["@id"]: one["encodingFormat"] for one in found["distribution"] if one["@type"] == "cr:FileObject"}
    assert formats["sampled_image_content_vqa.json"] == "application/jsonlines"
    assert found["license"].endswith("by-nc-sa/4.0/") and "None" not in found["rai:personalSensitiveInformation"]
    assert [record["@id"] for record in found["recordSet"]] == ["annotations", "questions", "contexts"]


def test_other_content_is_another_version_and_the_same_has_the_same_bytes(folder):
    before = (folder / "croissant.json").read_bytes()
    write_card(open_folder(folder))
    assert (folder / "croissant.json").read_bytes() == before
    with open(folder / "contexts.csv", "a", encoding="utf-8") as file:
        file.write("99,标题,检查-疾病,描述,\n")
    write_card(open_folder(folder))
    assert read(folder)["version"] != json.loads(before)["version"]


def test_credentialed_data_has_no_licence(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"governance": "credentialed"}))
    write_croissant(open_folder(folder), "https://example.org/x")
    assert (read(folder)["license"], read(folder)["url"]) == ("Not to be passed on", "https://example.org/x")


def test_the_file_of_another_dataset_is_kept(folder):
    (folder / "croissant.json").write_text('{"name": "mine"}')
    write_card(open_folder(folder))
    assert read(folder) == {"name": "mine"}
