"""load_dataset("rjua_meddqa", …): configs, images and their policies, both folder layouts, the card."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import PIL.Image
import pytest
from datasets import load_dataset
from meddqa_data import ANNOTATIONS, BLOOD, CONTEXT_ROWS, write_folder

import rjua_meddqa
from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.governance import Governance
from medvqa_core.loading_error import LoadingError
from medvqa_hub.cli import run
from rjua_meddqa.card import write_card
from rjua_meddqa.data_folder import SAMPLE_DIR, open_folder
from rjua_meddqa.released import read_questions, write_annotations, write_questions

NAME = "rjua_meddqa"
CONFIGS = ("entity", "table", "table_nr", "questions", "reasoning_mc", "reasoning_sa", "annotations", "contexts")


def build(root):
    """A folder with every kind of file, made by the commands."""
    write_folder(root)
    findings = root / "findings.csv"
    findings.write_text("img_path,task,title\nblood.png,disease_qa,低钾血症\n", encoding="utf-8")
    assert run(f"meddqa generate --data {root} --out {root} --unanswerable 2".split()) == 0
    assert run(f"meddqa reasoning --data {root} --findings {findings} --out {root}".split()) == 0
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build(tmp_path_factory.mktemp("meddqa") / "data")


@pytest.fixture
def own_copy(folder, tmp_path):
    """A folder that a test may change."""
    return shutil.copytree(folder, tmp_path / "data")


def load(config, folder, **options):
    return load_dataset(NAME, config, data_dir=str(folder), split="test", **options)


@pytest.mark.parametrize(
    ("config", "task"), [("entity", "entity_qa"), ("table", "table_qa"), ("table_nr", "table_nr_qa")]
)
def test_content_configurations_hold_the_questions_of_their_task(folder, config, task):
    rows = load(config, folder)
    expected = [q for q in read_questions(folder / "questions.jsonl") if q.task == task]
    for column in ("img_path", "question", "answer", "answer_type", "answer_length", "image_type", "image_quality"):
        assert rows[column] == [getattr(question, column) for question in expected]
    assert rows["unanswerable"] == [question.extra["unanswerable"] for question in expected]
    assert expected and set(rows["task"]) == {task}


def test_reasoning_configurations(folder):
    (choice,), (short,) = load("reasoning_mc", folder), load("reasoning_sa", folder)
    assert choice["answer"].endswith(".低钾血症") and choice["context_id"] == "1;2;3;4;5"
    assert short["answer"] == "低钾血症" and short["context"] == choice["context"] and "钾低于3.5\n" in short["context"]


def test_annotations_are_a_row_per_image(folder):
    rows = load("annotations", folder)
    assert rows["img_path"] == [annotation.img_path for annotation in ANNOTATIONS]
    assert rows[0]["key_values"][2] == {"key": "年龄", "value": "41岁"}
    assert rows[0]["table"][0] == {"item": "钾(K)", "result": "3.1", "range": "3.5-5.3mmol/L", "is_normal": "否(偏低)"}
    assert rows[2]["table"] == [] and rows[0]["image"].size == (30, 20)


def test_contexts_have_no_images(folder):
    rows = load("contexts", folder)
    assert [(r["idx"], r["title"], r["context_type"], r["description"]) for r in rows] == list(CONTEXT_ROWS)


@pytest.mark.parametrize("config", CONFIGS)
def test_streaming_gives_the_same_rows(folder, config):
    stream = load(config, folder, streaming=True)
    assert list(stream) == list(stream) == list(load(config, folder))


def test_images_are_files_that_rows_refer_to(folder):
    rows = load("entity", folder)
    stored = rows.with_format("arrow")[:]["image"].to_pylist()
    assert all(image["bytes"] is None for image in stored)
    assert {image["path"] for image in stored} == {str(folder / "images" / a.img_path) for a in ANNOTATIONS}
    assert isinstance(rows[0]["image"], PIL.Image.Image)


def test_the_sample_holds_all_questions_of_the_bundled_folder(folder, monkeypatch):
    monkeypatch.setattr("rjua_meddqa.builder.SAMPLE_DIR", folder)
    rows = load_dataset(NAME, "sample", split="test")
    assert len(rows) == sum(len(load(config, folder)) for config in ("questions", "reasoning_mc", "reasoning_sa"))
    assert {row["context"] is None for row in rows if row["task"] == "entity_qa"} == {True}
    assert {row["answer_length"] is None for row in rows if row["task"] == "disease_qa"} == {True}


def test_the_bundled_sample_loads():
    rows = load_dataset(NAME, "sample", split="test")
    assert len(rows) > 100 and get_dataset_governance(rows) is Governance.OPEN
    assert {"entity_qa", "table_qa", "table_nr_qa", "disease_qa"} <= set(rows["task"])
    assert min(rows[0]["image"].size) > 300


def test_the_released_layout_is_read_as_it_is(folder, tmp_path):
    names = {
        "annotations.csv": "sampled_image_content_kv_table_annotation.csv",
        "questions.jsonl": "image_content_vqa.json",
        "reasoning.jsonl": "sampled_clinical_reasoning_vqa.json",
        "contexts.csv": "context_base.csv",
    }
    (tmp_path / "release").mkdir()
    for ours, theirs in names.items():
        shutil.copy(folder / ours, tmp_path / "release" / theirs)
    shutil.copytree(folder / "images", tmp_path / "release" / "images")
    for config in CONFIGS:
        here, there = load(config, folder), load(config, tmp_path / "release")
        hide = ["image"] if "image" in here.column_names else []
        assert here.remove_columns(hide).to_list() == there.remove_columns(hide).to_list()
        assert get_dataset_governance(there) is Governance.SHARE_ALIKE
        assert get_dataset_governance(here) is Governance.OPEN


def test_images_may_lie_elsewhere(own_copy, tmp_path):
    shutil.move(own_copy / "images", tmp_path / "photos")
    assert load("entity", own_copy, image_root=str(tmp_path / "photos"))[0]["image"].size == (30, 20)
    with pytest.raises(InputError, match="no such folder"):
        load("entity", own_copy, image_root=str(tmp_path / "none"))


def damage(folder, how: str) -> None:
    path = folder / "images" / "blood.png"
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"" if how == "empty" else b"no picture")


@pytest.mark.parametrize("how", ["gone", "empty", "text"])
def test_a_missing_image_is_an_error_a_skip_or_none(own_copy, how, caplog, monkeypatch):
    damage(own_copy, how)
    with pytest.raises(LoadingError, match=r"blood\.png.*image_root"):
        load("annotations", own_copy)
    kept = load("annotations", own_copy, missing_images="none")
    assert [row["image"] is None for row in kept] == [True, False, False]
    warnings = []
    monkeypatch.setattr("rjua_meddqa.builder.logger.warning", warnings.append)
    assert load("annotations", own_copy, missing_images="skip")["img_path"] == ["normal.png", "scan.png"]
    assert warnings == ["annotations: 1 of 3 images missing or broken, 1 rows skipped"]


@pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", "images/../../secret.png", "link.png"])
@pytest.mark.parametrize("policy", ["error", "skip", "none"])
def test_an_image_outside_the_folder_is_an_error_under_every_policy(own_copy, path, policy):
    PIL.Image.new("RGB", (2, 2)).save(own_copy.parent / "secret.png")
    (own_copy / "images" / "link.png").symlink_to(own_copy.parent / "secret.png")
    write_annotations([replace(BLOOD, img_path=path)], own_copy / "annotations.csv")
    with pytest.raises(LoadingError, match="leaves its root|leads out of"):
        load("annotations", own_copy, missing_images=policy)


def test_changed_files_are_not_served_from_the_cache(own_copy):
    assert len(load("contexts", own_copy)) == len(CONTEXT_ROWS)
    with (own_copy / "contexts.csv").open("a", encoding="utf-8") as file:
        file.write("8,高血压,检查-疾病,高\n")
    assert len(load("contexts", own_copy)) == len(CONTEXT_ROWS) + 1


def test_options_that_do_not_fit(folder, tmp_path):
    with pytest.raises(ConfigError, match="data_dir.*'sample'"):
        load_dataset(NAME, "entity")
    with pytest.raises(ConfigError, match="entity, table, table_nr, questions"):
        load_dataset(NAME, data_dir=str(folder))
    with pytest.raises(ConfigError, match="data_dir"):
        load_dataset(NAME, "entity", data_dir=str(folder), data_files="a.csv")
    with pytest.raises(ConfigError, match="error, skip, none"):
        load("entity", folder, missing_images="ignore")
    with pytest.raises(InputError, match="no such folder"):
        load("entity", tmp_path / "none")
    with pytest.raises(ValueError, match="entity"):
        load("entities", folder)


def test_missing_and_repeated_parts_are_named(own_copy):
    (own_copy / "questions.jsonl").unlink()
    with pytest.raises(LoadingError, match=r"questions\.jsonl, sampled_image_content_vqa"):
        load("entity", own_copy)
    shutil.copy(own_copy / "contexts.csv", own_copy / "sampled_context_base.csv")
    with pytest.raises(InputError, match=r"contexts\.csv and sampled_context_base\.csv"):
        load("contexts", own_copy)


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"kind": "meddqa"}', '{"governance": "free"}'])
def test_a_broken_manifest_is_never_taken_for_an_open_one(own_copy, manifest):
    (own_copy / "manifest.json").write_text(manifest)
    with pytest.raises((InputError, GovernanceError), match=r"manifest\.json"):
        load("contexts", own_copy)


def test_broken_lines_and_cells_are_named(own_copy):
    with (own_copy / "questions.jsonl").open("a") as file:
        file.write("{'img_path': 1}\n")
    lines = len((own_copy / "questions.jsonl").read_text().splitlines())
    with pytest.raises(LoadingError, match=rf"questions\.jsonl, line {lines}"):
        load("entity", own_copy)
    text = (own_copy / "annotations.csv").read_text(encoding="utf-8")
    (own_copy / "annotations.csv").write_text(text.replace("{'检查部位'", "print('检查部位'"), encoding="utf-8")
    with pytest.raises(LoadingError, match=r"annotations\.csv, row 3: kv"):
        load("annotations", own_copy)


def test_it_works_from_any_folder_and_importing_stays_light(folder, tmp_path):
    code = (
        "import sys, rjua_meddqa\n"
        "assert not {'datasets', 'numpy', 'torch', 'PIL'} & set(sys.modules)\n"
        "from datasets import load_dataset\n"
        f"rows = load_dataset('rjua_meddqa', 'contexts', data_dir={str(folder)!r}, split='test')\n"
        "print('rows', len(rows), 'torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [rjua_meddqa.SAMPLE_DIR.parents[1]]))}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert f"rows {len(CONTEXT_ROWS)}" in done.stdout, done.stderr


def test_plain_load_dataset_reads_the_questions_by_the_card(own_copy, tmp_path):
    card = write_card(open_folder(own_copy)).read_text(encoding="utf-8")
    assert "license: apache-2.0" in card and "Governance class: open" in card and "3 images" in card
    questions = read_questions(own_copy / "questions.jsonl")
    counted = sum(q.answer_type == "single_entity" for q in questions)
    assert f"| entity_qa | single_entity | {counted} |" in card and "seed 0" in card and "10.1145/3637528" in card
    rows = load_dataset(str(own_copy), "questions", split="test", cache_dir=str(tmp_path / "cache"))
    assert rows["question"] == [question.question for question in questions]
    rows = load_dataset(str(own_copy), "reasoning", split="test", cache_dir=str(tmp_path / "cache"))
    assert len(rows) == 2


def test_plain_load_dataset_serves_every_folder_its_own_rows(tmp_path):
    """Two folders of the same name share a cache, and one of them is written again."""
    options = {"name": "questions", "split": "test", "cache_dir": str(tmp_path / "cache")}
    shutil.copytree(SAMPLE_DIR, tmp_path / "a" / "data")
    shutil.copytree(SAMPLE_DIR, tmp_path / "b" / "data")
    every = load_dataset(str(tmp_path / "a" / "data"), **options)
    for kept in (7, 5):
        folder = tmp_path / "b" / "data"
        write_questions(read_questions(SAMPLE_DIR / "questions.jsonl")[:kept], folder / "questions.jsonl")
        write_card(open_folder(folder))
        assert len(load_dataset(str(folder), **options)) == kept < len(every)


@pytest.mark.parametrize(
    ("governance", "licence"), [("share-alike", "cc-by-nc-sa-4.0"), ("credentialed", "license: other")]
)
def test_the_card_names_the_licence_of_the_class(tmp_path, governance, licence):
    root = write_folder(tmp_path / "data", governance)
    card = write_card(open_folder(root)).read_text(encoding="utf-8")
    assert licence in card and f"governance-{governance}" in card and "{" not in card.split("```")[0]


def test_the_released_samples_load(real_data):
    folder = real_data / "rjua_samples"
    counts = {config: len(load(config, folder)) for config in CONFIGS}
    assert counts == {
        "entity": 71,
        "table": 45,
        "table_nr": 17,
        "questions": 133,
        "reasoning_mc": 8,
        "reasoning_sa": 8,
        "annotations": 5,
        "contexts": 37,
    }
    rows = load("annotations", folder)
    assert all(min(image.size) > 300 for image in rows["image"])
    assert json.dumps(rows.info.description).count("share-alike") == 1


def test_more_rows_than_a_table_holds(own_copy):
    questions = [q for q in read_questions(own_copy / "questions.jsonl") if q.task == "entity_qa"]
    many = [replace(questions[0], answer=str(number)) for number in range(2000)]
    write_questions(many, own_copy / "questions.jsonl")
    assert load("entity", own_copy)["answer"] == [str(number) for number in range(2000)]


def test_type_and_quality_are_written_the_same_in_every_configuration(own_copy):
    questions = read_questions(own_copy / "questions.jsonl")
    odd = [replace(q, image_type=q.image_type.upper(), image_quality=f" {q.image_quality.title()}") for q in questions]
    write_questions(odd, own_copy / "questions.jsonl")
    rows = load("questions", own_copy)
    assert rows["image_type"] == [q.image_type for q in questions] and set(rows["image_quality"]) == {"high", "low"}


@pytest.mark.parametrize(("policy", "before"), [("skip", 2), ("none", 3)])
def test_an_image_that_came_back_is_not_missing_in_cached_rows(own_copy, policy, before):
    path = own_copy / "images" / "blood.png"
    content = path.read_bytes()
    path.unlink()
    assert len(load("annotations", own_copy, missing_images=policy)) == before
    path.write_bytes(content)
    rows = load("annotations", own_copy, missing_images=policy)
    assert len(rows) == 3 and all(rows["image"])


def test_commands_write_the_card(folder, tmp_path):
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "config_name: questions" in card and "config_name: reasoning" in card and "from a test" in card
    assert run(f"meddqa generate --data {folder} --out {tmp_path / 'out'}".split()) == 0
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "3 images" in card and "from a test" in card and 'image_root="<folder of the images>"' in card
    assert "`table_nr`, `questions`;" in card and "reasoning_mc" not in card


def test_another_readme_is_kept(own_copy, capsys):
    (own_copy / "README.md").write_text("mine")
    assert run(f"meddqa generate --data {own_copy} --out {own_copy} --seed 1".split()) == 0
    assert (own_copy / "README.md").read_text() == "mine"
    assert "README.md" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["contexts.csv", "annotations.csv", "images"])
def test_open_questions_do_not_open_a_release_without_a_manifest(folder, tmp_path, part, capsys):
    """Released files are share-alike without a manifest, and open questions must not lower that class."""
    release = tmp_path / "release"
    release.mkdir()
    if part == "images":
        shutil.copytree(folder / part, release / part)
    else:
        shutil.copy(folder / part, release)
    assert run(f"meddqa generate --data {folder} --out {release}".split()) == 1
    assert "share-alike" in capsys.readouterr().err
    assert sorted(path.name for path in release.iterdir()) == [part]
