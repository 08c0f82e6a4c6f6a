"""`train vlm` on questions about report images: which rows, how images are read, what class, which rewards."""

import json
import shutil

import pytest
from PIL import Image
from vlm_runs import vlm_recipe, write_tiny_vlm

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.folder_class import read_governance
from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from medvqa_hub.publishing.model import ModelPush, push_model
from medvqa_hub.training.rewards import make_reward
from medvqa_hub.training.vlm.report_rows import holds_reports
from medvqa_hub.training.vlm.run import open_rows, train_vlm
from mimic_cxr_vqa.workspace import SAMPLE_DIR as STUDIES
from rjua_meddqa import SAMPLE_DIR
from rjua_meddqa.released import read_questions, read_reasoning

SFT = {"data__train_studies": 2, "training__max_steps": 2}
GRPO = {**SFT, "data__label_values": None, "reward__name": "soft_accuracy", "training__max_steps": 1}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    texts = [text for row in read_questions(SAMPLE_DIR / "questions.jsonl") for text in (row.question, row.answer)]
    return write_tiny_vlm(tmp_path_factory.mktemp("model") / "tiny", texts, Governance.OPEN, width=32, vocabulary=320)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The sample as the authors publish: no manifest, so share-alike."""
    folder = tmp_path_factory.mktemp("released") / "data"
    shutil.copytree(SAMPLE_DIR, folder)
    (folder / "manifest.json").unlink()
    return folder


def train(model, data, out, recipe, **options):
    lines = []
    train_vlm(recipe, str(model), data, out, log=lines.append, **options)
    return lines


def test_a_folder_of_reports_is_told_from_a_release():
    assert holds_reports(SAMPLE_DIR) and not holds_reports(STUDIES) and not holds_reports(SAMPLE_DIR / "none")


def test_the_shipped_recipe_says_what_it_would_do(model, tmp_path, capsys):
    words = ["train", "vlm", "--model", model, "--data", SAMPLE_DIR, "--stage", "sft", "--out", tmp_path, "--dry-run"]
    assert run([str(word) for word in words]) == 0
    said = capsys.readouterr().out
    assert "governance class: open" in said and "report_side: 1536" in said and "validation: " in said
    assert not list(tmp_path.iterdir())


def test_no_image_is_both_learned_and_validated():
    settings = vlm_recipe("tiny-vlm-sft", data__train_studies=None, data__validation_split="validation").data
    rows = open_rows(SAMPLE_DIR, None, settings)
    learned, validated = (set(part.with_format(None)["img_path"]) for part in (rows.train, rows.validation))
    assert learned and validated and not learned & validated
    assert rows.left_out["kept for validation"] == len(rows.validation)
    asked = len(list(read_questions(SAMPLE_DIR / "questions.jsonl")))
    reasoned = len(list(read_reasoning(SAMPLE_DIR / "reasoning.jsonl")))
    assert len(rows.train) + sum(rows.left_out.values()) == asked + reasoned


def test_pages_are_read_in_colour_and_as_large_as_the_recipe_says(tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(SAMPLE_DIR, folder)
    for file in (folder / "images").iterdir():
        Image.linear_gradient("L").resize((900, 600)).convert("RGB").save(file)
        Image.merge("RGB", [Image.new("L", (900, 600), grey) for grey in (250, 10, 10)]).save(file, quality=95)
    for side, size in ((1536, (900, 600)), (300, (300, 200))):
        rows = open_rows(folder, None, vlm_recipe("tiny-vlm-sft", data__report_side=side).data)
        (page,) = rows.train[0]["images"]
        red, green, _ = page.getpixel((5, 5))
        assert page.size == size and page.mode == "RGB" and red > 200 and green < 60


def test_a_supervised_run_carries_the_class_of_its_rows(model, released, tmp_path):
    lines = train(model, released, tmp_path / "run", vlm_recipe("tiny-vlm-sft", **SFT))
    assert "governance class: share-alike" in lines
    best = tmp_path / "run" / "best"
    assert read_governance(best) is Governance.SHARE_ALIKE
    (stage,) = json.loads((best / "training.json").read_text())["stages"]
    assert stage["data"]["dataset"] == "rjua_meddqa" and stage["data"]["governance"] == "share-alike"
    assert stage["data"]["source"] != "the authors' release"  # of MIMIC-CXR-VQA, whose answers are Llama's
    card = (best / "README.md").read_text()
    assert "RJUA-MedDQA" in card and "X-ray" not in card
    with pytest.raises(ConfigError, match="report images"):
        push_model(ModelPush(best, "me/it", base_model="me/base"), dry_run=True)
    again = train(model, released, tmp_path / "run", vlm_recipe("tiny-vlm-sft", **SFT))
    assert "already finished" in again[0]


@pytest.mark.slow
def test_rewards_are_the_benchmark_s_and_what_cannot_be_scored_is_counted(model, tmp_path):
    lines = train(model, SAMPLE_DIR, tmp_path / "run", vlm_recipe("tiny-vlm-grpo", **GRPO))
    done = json.loads((tmp_path / "run" / "finished.json").read_text())
    assert done["answers_scored"] + done["answers_without_a_score"] == 8
    assert any(line.startswith("answers scored: ") for line in lines)


@pytest.mark.parametrize(
    ("said", "answer", "kind", "wanted"),
    [
        ("38岁", "38岁", "single_entity", 1.0),
        ("", "38岁", "single_entity", 0.0),
        ("38岁", "38岁", "poem", None),
        ("38岁", " ", "single_entity", None),
        ("甲", "甲、乙", "multi_entity", 0.0),
        ("甲", "甲;;乙", "multi_entity", 0.5),
    ],
)
def test_what_soft_accuracy_says(said, answer, kind, wanted):
    assert make_reward("soft_accuracy")([said], answer=[answer], answer_type=[kind], task=["t"]) == [wanted]


def test_the_wording_of_chinese_is_compared_by_characters():
    reward = make_reward("character_rouge_l")
    same, part, none = reward(["总胆红素偏高", "总胆红素", "白细胞"], answer=["总胆红素偏高"] * 3)
    assert same == 1.0 and 0.5 < part < 1.0 and none == 0.0


@pytest.mark.parametrize(
    ("name", "changes", "error", "reason"),
    [
        ("tiny-vlm-sft", {"data__turns": "study"}, ConfigError, "data.turns is 'study'"),
        ("tiny-vlm-sft", {"data__categories": ["Edema"]}, ConfigError, "data.categories"),
        ("tiny-vlm-sft", {"data__train_split": "dev"}, ConfigError, "data.train_split is 'dev'"),
        ("tiny-vlm-grpo", {}, ConfigError, "vlm-grpo-reports"),
        (
            "tiny-vlm-grpo",
            {"data__label_values": None},
            InputError,
            "category and label_value",
        ),
    ],
)
def test_what_is_about_studies_is_refused(model, tmp_path, name, changes, error, reason):
    with pytest.raises(error, match=reason):
        train(model, SAMPLE_DIR, tmp_path / "run", vlm_recipe(name, **changes), dry_run=True)
    assert not (tmp_path / "run").exists()


def test_a_reward_of_reports_is_refused_for_studies(model, tmp_path):
    recipe = vlm_recipe("tiny-vlm-grpo", reward__name="soft_accuracy")
    with pytest.raises(InputError, match="answer_type and task"):
        train(model, STUDIES, tmp_path / "run", recipe, image_root=STUDIES, dry_run=True)
