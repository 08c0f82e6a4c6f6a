"""What a release says of itself: its card's tables, and its judges' results."""

import json
import re

import pyarrow.parquet as pq
import pytest
from builds import build_release

from mimic_cxr_vqa.card import SOURCE_TITLES, find_configs, write_card
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS
from mimic_cxr_vqa.statistics import summarise


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("built"), studies=16).workspace.release


def numbers(card: str, row: str) -> list[int]:
    """The cells of a card's table row."""
    line = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", card, re.MULTILINE)[1]
    return [int(cell.strip().replace(",", "")) for cell in line.split("|")]


def test_tables_of_the_card_are_counted_from_the_rows(release):
    card = (release / "README.md").read_text()
    rows = [row for path in sorted(release.glob("qa/*")) for row in pq.read_table(path).to_pylist()]
    of = {split: [row for row in rows if row["split"] == split] for split in ("train", "validate", "test")}
    columns = [*of.values(), rows]
    assert numbers(card, "question-answer pairs") == [len(part) for part in columns]
    assert numbers(card, "images") == [len({image for row in part for image in row["images"]}) for part in columns]
    assert numbers(card, "patients") == [len({row["subject_id"] for row in part}) for part in columns]
    edema = [row["label_value"] for row in rows if row["category"] == "Edema"]
    assert numbers(card, "Edema") == [edema.count(v) for v in ("positive", "negative", "uncertain", "not_mentioned")]
    assert numbers(card, "positive")[1] == sum(row["label_value"] == "positive" for row in rows)
    assert "not the older template-based dataset" in card and "not been rated" in card


def validated(people: bool, judge: bool) -> dict:
    """Table 3 as `table3.measure_table3` returns it, as far as a card reads it."""
    dimensions = {}
    for number, (name, dimension) in enumerate(DIMENSIONS.items()):
        corrected = {"rate": 0.2, "low": 0.1, "high": 0.3} if people and number == 0 else None
        row = {"count": 1, "share": 0.25, "low": 0.125, "high": 0.5, "corrected": corrected}
        dimensions[name] = {
            "large_scale": dict.fromkeys(dimension.categories, row) if judge else None,
            "people": {who: dict.fromkeys(dimension.categories, 0.75) for who in ("a", "b")} if people else None,
        }
    return {
        "people": {"raters": 2, "items": 40} if people else None,
        "sample": {"pairs": 4000} if judge else None,
        "judge": {"name": "local"} if judge else None,
        "dimensions": dimensions,
    }


@pytest.mark.parametrize(("people", "judge"), [(True, True), (True, False), (False, True)])
def test_judges_and_people_stand_in_the_card_with_their_intervals(release, tmp_path, people, judge):
    manifest = json.loads((release / "manifest.json").read_text()) | {"validation": validated(people, judge)}
    tables = (pq.read_table(path) for path in release.glob("qa/*"))
    write_card(tmp_path, manifest, "0" * 16, summarise(tables).to_json(), find_configs(release))
    card = (tmp_path / "README.md").read_text()
    assert ("2 people rated 40 answers." in card) is people
    assert ("The judge `local` rated 4,000 answers." in card) is judge
    for number, (name, dimension) in enumerate(DIMENSIONS.items()):
        by_judge = "25.0% | 12.5-50.0" if judge else "- | -"
        corrected = "20.0% | 10.0-30.0" if people and judge and number == 0 else "- | -"
        by_people = " 75.0% | 75.0% |" if people else ""
        for category in dimension.categories:
            assert f"\n| {name} | {category} | {by_judge} | {corrected} |{by_people}\n" in card
    table = card[card.index("| dimension |") :].split("\n\n")[0].splitlines()
    assert len(table) == 2 + sum(len(dimension.categories) for dimension in DIMENSIONS.values())
    assert len({line.count("|") for line in table}) == 1 and "Not yet" not in card


@pytest.mark.parametrize("title", [None, "PadChest"])
@pytest.mark.parametrize("governance", ["open", "share-alike", "no-derivatives", "credentialed"])
def test_a_source_of_ones_own_does_not_get_the_licence_of_another(release, tmp_path, monkeypatch, governance, title):
    if title:
        monkeypatch.setitem(SOURCE_TITLES, "padchest", title)
    manifest = json.loads((release / "manifest.json").read_text()) | {"source": "padchest", "governance": governance}
    tables = (pq.read_table(path) for path in release.glob("qa/*"))
    write_card(tmp_path, manifest, "0" * 16, summarise(tables).to_json(), find_configs(release))
    card = (tmp_path / "README.md").read_text()
    head, text = card.split("\n---\n", 1)
    assert "license: other" in head and "physionet" not in head
    assert "`padchest`" in text and (title is None or f"built from {title}\n" in text)
    assert "licence of that source applies" in text and not re.search("Synthetic radiographs|PhysioNet|Open-i", text)


@pytest.mark.parametrize(
    ("source", "governance", "licence"),
    [
        ("phantom", "open", "apache-2.0"),
        ("openi", "no-derivatives", "cc-by-nc-nd-4.0"),
        ("physionet", "credentialed", "other"),
        ("phantom", "credentialed", "other"),
    ],
)
def test_only_the_source_in_its_own_class_has_its_licence(release, tmp_path, source, governance, licence):
    manifest = json.loads((release / "manifest.json").read_text()) | {"source": source, "governance": governance}
    tables = (pq.read_table(path) for path in release.glob("qa/*"))
    write_card(tmp_path, manifest, "0" * 16, summarise(tables).to_json(), find_configs(release))
    card = (tmp_path / "README.md").read_text()
    assert f"license: {licence}\n" in card
    assert ("PhysioNet" in card) is (source == "physionet")
