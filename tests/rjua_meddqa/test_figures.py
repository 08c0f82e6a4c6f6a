"""Figures 5, 6 and 7: their counts, and the command that draws them."""

import json
from collections import Counter

import pytest
from meddqa_boxes import box
from PIL import Image

from medvqa_core.errors import InputError
from medvqa_core.metrics.meddqa_scores import score_meddqa
from medvqa_hub.cli import run
from rjua_meddqa import SAMPLE_DIR
from rjua_meddqa.figures import count_diseases, plot_discounts, plot_diseases, plot_models, read_results
from rjua_meddqa.fonts import find_font
from rjua_meddqa.schema import Annotation, ReasoningQuestion


@pytest.fixture
def font():
    return find_font()


def result_file(path, name="esra-rules"):
    scores = score_meddqa(["a", "b"], ["a", "a"], ["entity_qa", "table_qa"], ["single_entity", "single_span"]).record
    path.write_text(json.dumps({"model": {"name": name}, "scores": scores}), encoding="utf-8")
    return path


def question(image, answer, task="disease_qa", answer_type="SA"):
    return ReasoningQuestion(image, "?", answer, task, answer_type, "", "pdf", "high", "")


def test_figure_5_from_result_files(tmp_path):
    name, row = read_results(result_file(tmp_path / "results.json"))
    assert name == "esra-rules (ours)"
    assert row == {"Entity": 1.0, "Table": 0.0, "TableNR": None, "MC": None, "SA": None}
    plot_models({name: row, "all": dict.fromkeys(row, 0.5)}, tmp_path / "5.png")
    with Image.open(tmp_path / "5.png") as image:
        assert image.width > 500
    with pytest.raises(InputError, match="results.json"):
        plot_models({"nothing": dict.fromkeys(row)}, tmp_path / "6.png")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match=r"other\.json"):
        read_results(tmp_path / "other.json")


def test_figure_6_counts_reports_by_disease(tmp_path):
    annotations = [Annotation(p, p, (), (), kind, "pdf", "high") for p, kind in (("a", "Laboratory"), ("b", "CT"))]
    asked = [
        question("a", "贫血;高钾血症"),
        question("a", "贫血"),  # the same report: counted once
        question("b", "膀胱肿瘤"),
        question("b", "膀胱肿瘤", answer_type="MC"),
        question("b", "穿刺", task="advice_qa"),
        question("c", "贫血"),
    ]
    laboratory, clinical = count_diseases(asked, annotations)
    assert laboratory == Counter({"贫血": 1, "高钾血症": 1}) and clinical == Counter({"膀胱肿瘤": 1})
    plot_diseases(laboratory, Counter(), tmp_path / "6.png")
    with Image.open(tmp_path / "6.png") as image:
        assert image.width > image.height


def test_figure_7_shows_what_the_discount_does(tmp_path, font):
    boxes = [box("白细胞", 0, 0), box("5.6", 200, 6), box("红细胞", 0, 30)]
    plot_discounts(boxes, tmp_path / "7.png")
    with Image.open(tmp_path / "7.png") as image:
        assert image.width > image.height
    with pytest.raises(InputError, match="meddqa ocr"):
        plot_discounts([], tmp_path / "8.png")


def test_the_command_draws_what_it_is_given(tmp_path, capsys, font):
    results, out = result_file(tmp_path / "results.json"), tmp_path / "out"
    boxes = next((SAMPLE_DIR / "boxes").iterdir())
    command = f"meddqa figures --results {results} --data {SAMPLE_DIR} --boxes {boxes} --out {out}"
    assert run(command.split()) == 0
    assert {path.name for path in out.iterdir()} == {"figure5.png", "figure6.png", "figure7.png"}
    assert run(f"meddqa figures --out {out}".split()) == 1
    assert "--results, --data or --boxes" in capsys.readouterr().err


def test_the_command_that_measures_leave_one_out(tmp_path, capsys):
    from meddqa_data import write_folder

    data = write_folder(tmp_path / "data")
    assert run(f"meddqa leave-one-out --data {data} --pages {tmp_path / 'nowhere'}".split()) == 1
    assert "nowhere" in capsys.readouterr().err
