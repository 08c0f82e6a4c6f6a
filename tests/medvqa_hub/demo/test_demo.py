"""The demo as typed: a whole run, and a run that is interrupted again and again."""

import json
import os
from pathlib import Path

import pytest

from medvqa_hub.cli import run
from medvqa_hub.demo import demo
from medvqa_hub.demo import training as demo_training


def test_the_demo_without_training_and_reports(tmp_path, capsys):
    out = tmp_path / "demo"
    command = ["demo", "--out", str(out), "--training-studies", "0", "--no-reports", "--studies"]
    assert run([*command, "12"]) == 0
    printed = capsys.readouterr().out
    assert "Table 1" in printed and "load_dataset" in printed and "--dry-run" in printed
    assert "train swin-ved" not in printed and "meddqa" not in printed
    assert 20 < len(printed.splitlines()) <= 90
    for name in ("contact_sheet.png", "stats/figure1.png", "cxr/release/README.md", "phantom/phantom.json"):
        assert (out / name).exists(), name
    assert run([*command, "13"]) == 1
    assert "12" in capsys.readouterr().err


@pytest.mark.slow
def test_the_demo_reads_report_images(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "PAGES", 2)
    out = tmp_path / "demo"
    command = ["demo", "--out", str(out), "--studies", "4", "--training-studies", "0"]
    assert run(command) == 0
    assert "accuracy of" in capsys.readouterr().out and (out / "meddqa" / "page.png").exists()
    results = json.loads((out / "meddqa" / "scores" / "results.json").read_text())
    assert results["scores"]["all"]["accuracy"] > 0.9 and results["governance"] == "open"
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert run(command) == 0
    assert "[ocr]" in capsys.readouterr().out


def collect(out: Path) -> dict[str, object]:
    """Weights, answers and scores, which are the same for the same demo."""
    found: dict[str, object] = {}
    for stage in (1, 2, 3):
        found[f"weights {stage}"] = (out / f"learning/stage{stage}/best/model.safetensors").read_bytes()
        scores = json.loads((out / f"learning/scores{stage}/results.json").read_text())
        found[f"scores {stage}"] = {name: scores[name] for name in ("table_4", "findings", "counts", "data")}
    for path in sorted((out / "cxr").rglob("*.parquet")):
        found[str(path.relative_to(out))] = path.read_bytes()
    return found


@pytest.mark.slow
def test_an_interrupted_demo_resumes_to_the_same_results(monkeypatch, tmp_path, capsys):
    """Ctrl-C at the replacement of some file, at one place after another, then the same command."""
    for name, value in {"EPOCHS": {"encoder": 1, 1: 4, 2: 1}, "STEPS_OF_STAGE_3": 2}.items():
        monkeypatch.setattr(demo, name, value)
    monkeypatch.setattr(demo, "STUDIES_EVALUATED", 4)
    monkeypatch.setattr(demo, "STUDIES_VALIDATED", 1)
    monkeypatch.setattr(demo_training, "ENCODER_PACKAGE", "no_such_package")  # ROUGE-L as reward
    command = ["demo", "--studies", "4", "--training-studies", "40", "--no-reports", "--out"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    replaced, replace = [], os.replace

    def count(*paths, **options):
        replaced.append(paths)
        return replace(*paths, **options)

    monkeypatch.setattr(os, "replace", count)
    assert run([*command, str(whole)]) == 0
    assert "stage 2, shuffled" in capsys.readouterr().out
    for place in [len(replaced) * share // 5 for share in range(1, 5)]:
        left = iter(range(place))

        def stop(*paths, left=left, **options):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return replace(*paths, **options)

        monkeypatch.setattr(os, "replace", stop)
        assert run([*command, str(stopped)]) in (0, 130)
    monkeypatch.setattr(os, "replace", replace)
    assert run([*command, str(stopped)]) == 0
    assert collect(stopped) == collect(whole)
