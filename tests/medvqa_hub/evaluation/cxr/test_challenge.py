"""CXR-ORACLE: its score by hand, and a round trip of masked questions through the container's entry point."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builds import build_release
from challenge_files import write_challenge
from evaluation_models import save_swin_ved, texts_of
from radeval_stand_in import write_stand_in

from medvqa_core.errors import ConfigError
from medvqa_core.metrics.bert_score import PAPER_BASELINE, PAPER_ENCODER, PAPER_LAYER
from medvqa_hub.cli import run
from medvqa_hub.evaluation.cxr import text_scores
from medvqa_hub.evaluation.cxr.challenge import add_challenge
from medvqa_hub.evaluation.cxr.options import ScoreOptions
from medvqa_hub.evaluation.cxr.text_scores import TextScorer
from mimic_cxr_vqa.release import open_release

EXAMPLE = Path(__file__).parents[4] / "examples" / "cxr_oracle"
ENCODER = ["--encoder", "minilm", "--layer", "6"]


def result_of(rows: list[dict]) -> dict:
    settings = {"encoder": "e", "layer": 5, "baseline": None, "text": "PTB"}
    return {
        "scored_with": {"bertscore_settings": settings, "baseline_source": None},
        "table_4": {"bleu_1": 0.5},
        "clinical": {"scored_with": {"RadEval": "2.2.1"}},
    }


def test_the_score_by_hand():
    cells = [
        ("yes", "r", 0.8, 0.4, 0.6),
        ("no", "r", -0.2, 0.0, -0.1),  # rescaled BERTScore may be negative
        (None, "r", None, None, 0.0),  # failed
        (" ", "r", -1.0, 0.0, 0.0),  # empty: BERTScore rescales to below zero, the challenge gives zero
        ("x", "r", None, 0.5, 0.0),  # unscorable
        ("x", " ", 0.9, 0.9, None),  # without a reference it is not a pair
        ("x", None, 0.9, 0.9, None),
    ]
    rows = [dict(zip(("answer", "reference", "bertscore", "radgraph_simple"), row, strict=False)) for row in cells]
    result = result_of(rows)
    add_challenge(result, rows, "simple")
    assert [row["challenge_score"] for row in rows] == pytest.approx([expected for *_, expected in cells])
    found = result["challenge"]
    assert found["score"] == pytest.approx((0.6 - 0.1) / 5) and found["pairs"] == 5
    assert found["bertscore_f1"] == pytest.approx(0.6 / 5) and found["radgraph_f1"] == pytest.approx(0.4 / 5)
    assert found["zero"] == {"failed": 1, "empty": 1, "unscorable": 1}
    assert [row["bertscore"] for row in rows][3:5] == [-1.0, None], "raw values are kept"
    assert found["chosen_here"] == {
        "BERTScore encoder": "e, layer 5",
        "BERTScore text": "PTB",
        "BERTScore rescaling": "not rescaled",
        "RadGraph level": "simple",
        "RadGraph version": "RadEval 2.2.1",
    }
    with pytest.raises(ConfigError, match="radgraph_partial"):
        add_challenge(result, rows, "partial")


def test_without_an_encoder_the_score_has_the_papers(monkeypatch):
    asked = []

    def load(profile, encoder, layer, baseline, device):
        asked.append((profile, encoder, layer, baseline))

    monkeypatch.setattr(text_scores, "load_scorer", load)
    here = {"profile": "cxr-oracle", "clinical_python": Path(sys.executable)}
    for more in ({}, {"encoder": "other"}, {"baseline": "none"}):
        with pytest.raises(ConfigError, match="needs BERTScore"):
            TextScorer.from_options(ScoreOptions(**here, **more), ["a"], None)
    assert (
        asked
        == [
            ("paper", PAPER_ENCODER, PAPER_LAYER, None),  # this profile rescales with PAPER_BASELINE
            ("default", "other", PAPER_LAYER, None),
            ("default", PAPER_ENCODER, PAPER_LAYER, None),
        ]
        and len(PAPER_BASELINE) == 3
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--clinical-python"),
        ({"clinical_python": Path("p"), "clinical_metrics": ("bleu",)}, "radgraph"),
        ({"clinical_python": Path("p"), "clinical_scores": Path("s")}, "cannot be combined"),
        ({"clinical_python": Path("p"), "radgraph_level": "full"}, "radgraph-level"),
    ],
)
def test_options_that_cannot_give_the_score_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        ScoreOptions(profile="cxr-oracle", **options)


@pytest.mark.slow
def test_a_masked_round_trip_scores_as_evaluate_does(tmp_path, monkeypatch, capsys):
    build = build_release(tmp_path / "build", studies=12, seed=2)
    release = open_release(build.workspace.release)
    masked = ("answer", "question_label", "question_value", "index")
    write_challenge(release, tmp_path / "questions", "train", "test", without=masked)
    write_challenge(release, tmp_path / "truth", "train", "test")
    model = save_swin_ved(tmp_path / "model", texts_of(release))
    command = tmp_path / "medvqa-hub"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m medvqa_hub.cli "$@"\n')
    command.chmod(0o755)
    folders = [model, tmp_path / "questions", build.tree, tmp_path / "answers"]
    few = ["--beams", "1", "--max-new-tokens", "8"]
    subprocess.run(
        [EXAMPLE / "try_without_docker.sh", *folders, *few],
        check=True,
        env={**os.environ, "MEDVQA_HUB": str(command)},
        capture_output=True,
    )
    with (tmp_path / "answers" / "answers.csv").open(encoding="utf-8", newline="") as file:
        answers = list(csv.DictReader(file))
    assert len(answers) == sum(len(batch) for batch in release.iterate_split("train", {}))

    write_stand_in(tmp_path / "radeval", monkeypatch)
    profile = ["--profile", "cxr-oracle", *ENCODER, "--clinical-python", sys.executable, "--scored", "--examples", "0"]
    given = ["evaluate", "cxr", "--data", str(tmp_path / "truth"), *profile]
    predictions = ["--predictions", str(tmp_path / "answers" / "answers.csv"), "--out", str(tmp_path / "one")]
    assert run([*given, *predictions]) == 0
    printed = capsys.readouterr().out
    assert "The challenge's page does not define these" in printed and "RadGraph level: partial" in printed
    own = ["--model", str(model), "--image-root", str(build.tree), *few, "--out", str(tmp_path / "two")]
    assert run([*given, *own]) == 0
    one, two = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("one", "two"))
    assert one["challenge"] == two["challenge"] and one["hashes"] == two["hashes"]
    assert one["table_4"] == two["table_4"] and one["clinical"]["scores"] == two["clinical"]["scores"]
    assert one["governance"] == "credentialed", "the challenge's files are MIMIC's"

    rows = [json.loads(line) for line in (tmp_path / "one" / "scored.jsonl").open()]
    by_hand = [0.5 * row["bertscore"] + 0.5 * row["radgraph_partial"] if row["answer"].strip() else 0 for row in rows]
    assert one["challenge"]["score"] == pytest.approx(sum(by_hand) / len(rows))
    assert run(["compare", str(tmp_path / "one"), str(tmp_path / "two"), "--resamples", "2"]) == 0
    assert "challenge_score" in (printed := capsys.readouterr().out) and "radgraph_partial" in printed


def test_the_image_has_every_file_that_the_entry_point_needs():
    """What the Dockerfile copies is in the repository, and so are the packages that an installation finds."""
    root, text = EXAMPLE.parents[1], (EXAMPLE / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert copied and all((root / name).exists() for name in copied)
    assert {"medvqa_core", "medvqa_hub", "mimic_cxr_vqa", "rjua_meddqa", "hub_cards", "models"} <= set(copied)
    assert 'ENTRYPOINT ["/entrypoint.sh"]' in text and os.access(EXAMPLE / "entrypoint.sh", os.X_OK)
