"""The demo's own commands with its training, small: the whole story, and a story that is stopped again and again."""

import json
import os
from pathlib import Path

import pytest

from medvqa_hub.cli import run
from medvqa_hub.demo import learning
from medvqa_hub.demo import training as demo_training

COMMAND = ["demo", "--studies", "4", "--training-studies", "40", "--no-reports", "--out"]


@pytest.fixture
def short(monkeypatch):
    """A few steps a stage, a few studies asked; ROUGE-L in place of BERTScore, whose encoder takes seconds to load."""
    monkeypatch.setattr(learning, "EPOCHS", {"encoder": 1, 1: 4, 2: 1})
    monkeypatch.setattr(learning, "STEPS_OF_STAGE_3", 2)
    monkeypatch.setattr(learning, "STUDIES_EVALUATED", 4)
    monkeypatch.setattr(learning, "FEW", 1)
    monkeypatch.setattr(demo_training, "ENCODER_PACKAGE", "no_such_package")


def made(out: Path) -> dict[str, object]:
    """What a story leaves that is worth the same twice: weights, answers and scores, without seconds and dates."""
    found: dict[str, object] = {}
    for stage in (1, 2, 3):
        found[f"weights {stage}"] = (out / f"learning/stage{stage}/best/model.safetensors").read_bytes()
        scores = json.loads((out / f"learning/scores{stage}/results.json").read_text())
        found[f"scores {stage}"] = {name: scores[name] for name in ("table_4", "findings", "counts", "data")}
    for path in sorted((out / "cxr").rglob("*.parquet")):
        found[str(path.relative_to(out))] = path.read_bytes()
    return found


def test_the_story_with_its_training_as_typed_and_stopped_on_its_way(short, monkeypatch, tmp_path, capsys):
    """Ctrl-C when some file is about to take its place, at one place after another, then the same command."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    replaced, replace = [], os.replace

    def count(*paths, **options):
        replaced.append(paths)
        return replace(*paths, **options)

    monkeypatch.setattr(os, "replace", count)
    assert run([*COMMAND, str(whole)]) == 0
    said = capsys.readouterr().out
    assert "a tiny model learns from 40 small ones" in said and "stage 2, shuffled" in said
    places = [len(replaced) * share // 5 for share in range(1, 5)]
    for place in places:
        left = iter(range(place))

        def stop(*paths, left=left, **options):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return replace(*paths, **options)

        monkeypatch.setattr(os, "replace", stop)
        assert run([*COMMAND, str(stopped)]) in (0, 130)
    monkeypatch.setattr(os, "replace", replace)
    capsys.readouterr()
    assert run([*COMMAND, str(stopped)]) == 0
    assert made(stopped) == made(whole)
