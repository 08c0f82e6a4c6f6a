"""What a release says of itself: its card's tables, its judges' results, and croissant.json for catalogues."""

import json
import re

import pyarrow.parquet as pq
import pytest
from builds import build_release

from medvqa_core.digests import digest_file
from mimic_cxr_vqa.card import find_configs, write_card
from mimic_cxr_vqa.croissant import write_croissant
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS
from mimic_cxr_vqa.schema import QA_SCHEMA
from mimic_cxr_vqa.statistics import summarise
from mimic_cxr_vqa.workspace import SAMPLE_DIR

# Croissant 1.0, "Dataset" (required), and RAI 1.0: the fields of its use cases for safety and for participation.
REQUIRED = {"@context", "@type", "conformsTo", "name", "description", "license", "url", "distribution", "recordSet"}
RAI = {
    "dataCollection", "dataCollectionType", "dataPreprocessingProtocol", "dataAnnotationProtocol",
    "machineAnnotationTools", "dataAnnotationAnalysis", "dataBiases", "dataLimitations", "dataUseCases",
    "dataSocialImpact", "personalSensitiveInformation", "dataReleaseMaintenancePlan",
}  # fmt: skip


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


@pytest.mark.parametrize("folder", ["release", "sample"])
def test_croissant_describes_every_shard_and_column(release, folder):
    place = release if folder == "release" else SAMPLE_DIR
    found = json.loads((place / "croissant.json").read_text())
    assert found.keys() >= REQUIRED and found["@type"] == "sc:Dataset"
    assert found["conformsTo"] == ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"]
    assert {name.removeprefix("rai:") for name in found if name.startswith("rai:")} == RAI
    assert all(found[f"rai:{name}"].strip() for name in RAI)
    objects = {one["@id"]: one for one in found["distribution"] if one["@type"] == "cr:FileObject"}
    shards = {str(path.relative_to(place)) for path in place.rglob("*.parquet")}
    assert objects.keys() == shards
    assert re.fullmatch(r"1\.0\.0\+[0-9a-f]{16}", found["version"])
    assert found["version"].partition("+")[2] in (place / "README.md").read_text()  # the content that the card names
    for name, one in objects.items():
        assert one["sha256"] == digest_file(place / name)
        assert one["contentSize"] == f"{(place / name).stat().st_size} B"
    sets = {one["@id"]: one for one in found["distribution"] if one["@type"] == "cr:FileSet"}
    assert {str(path.relative_to(place)) for one in sets.values() for path in place.glob(one["includes"])} == shards
    for record in found["recordSet"]:
        for field in record["field"]:
            assert field["source"]["fileSet"]["@id"] in sets
            assert field["@id"] == f"{record['@id']}/{field['source']['extract']['column']}"
    qa = {field["name"]: field for field in found["recordSet"][0]["field"]}
    assert qa.keys() == set(QA_SCHEMA.names) - {"provenance"}
    assert qa["study_id"]["dataType"] == "sc:Integer" and qa["images"]["repeated"] and "repeated" not in qa["answer"]


@pytest.mark.parametrize(
    ("governance", "license_end", "said"),
    [
        ("credentialed", "mimic-cxr/view-license/2.1.0/", "data use agreement"),
        ("no-derivatives", "by-nc-nd/4.0/", "not shared"),
        ("open", "LICENSE-2.0", "do not describe a patient"),
    ],
)
def test_croissant_s_licence_and_people_follow_the_class(release, tmp_path, governance, license_end, said):
    manifest = json.loads((release / "manifest.json").read_text()) | {"governance": governance}
    write_croissant(tmp_path, manifest, {}, "urn:x")
    found = json.loads((tmp_path / "croissant.json").read_text())
    assert found["license"].endswith(license_end) and said in found["rai:personalSensitiveInformation"]
