"""The exchange with RadEval in another environment: the script is run in a process, with a stand-in for RadEval."""

import json
import sys
from pathlib import Path

import pytest
from radeval_stand_in import F1_KEYS, asked, write_stand_in

from medvqa_core.clinical.clinical_scores import (
    SCRIPT,
    check_clinical_python,
    digest_pair,
    read_clinical_scores,
    run_clinical_python,
    write_pairs,
)
from medvqa_core.errors import ConfigError, InputError

PYTHON = Path(sys.executable)
PAIRS = [("no edema", "no effusion"), ("", "no edema"), ("small effusion left", "small effusion left")]
METRICS = ("radgraph", "f1chexbert")


def run(folder: Path, pairs=PAIRS, metrics=METRICS):
    write_pairs(folder / "pairs.jsonl", pairs)
    return run_clinical_python(PYTHON, folder / "pairs.jsonl", folder / "scores.jsonl", metrics)


def test_scores_by_hand(tmp_path, monkeypatch, capfd):
    folder = write_stand_in(tmp_path / "radeval", monkeypatch)
    found = run(tmp_path).score(PAIRS)
    assert found.samples == {
        "radgraph_simple": [0.5, 0.0, 1.0],  # one of two words each; an empty answer; equal
        "radgraph_partial": [0.25, 0.0, 0.5],
        "radgraph_complete": [0.0, 0.0, 1.0],
        "f1chexbert_sample_acc_5": [0.5, 0.0, 0.5],
        "f1chexbert_sample_acc_all": [1.0, 0.0, 1.0],
    }
    assert found.corpus["radgraph_simple"] == 0.5 and found.corpus["f1chexbert_sample_acc_all"] == pytest.approx(2 / 3)
    assert {name: found.corpus[name] for name in F1_KEYS} == pytest.approx(dict.fromkeys(F1_KEYS, 2 / 3))
    assert asked(folder) == [["radgraph", True, 2], ["f1chexbert", True, 3], ["f1chexbert", False, 3]]
    assert capfd.readouterr().out == "", "RadEval's own messages stay off standard output"
    file = tmp_path / "scores.jsonl"
    assert file.stat().st_mode & 0o077 == 0 and "edema" not in file.read_text()
    assert read_clinical_scores(file).described == {"metrics": list(METRICS), "RadEval": "2.2.1"}


def test_pairs_are_scored_once(tmp_path, monkeypatch):
    folder = write_stand_in(tmp_path / "radeval", monkeypatch)
    first = run(tmp_path, PAIRS * 2).score(PAIRS * 2)
    assert asked(folder)[0] == ["radgraph", True, 2], "equal pairs are scored once"
    count = len(asked(folder))
    assert run(tmp_path, PAIRS * 2).score(PAIRS * 2) == first and len(asked(folder)) == count
    more = [*PAIRS, ("normal", "normal heart")]
    assert run(tmp_path, more).score(more).samples["radgraph_complete"] == [0.0, 0.0, 1.0, 0.0]
    assert asked(folder)[count:] == [["radgraph", True, 1], ["f1chexbert", True, 1], ["f1chexbert", False, 4]]


def test_a_line_that_was_cut_off_is_scored_again(tmp_path, monkeypatch):
    write_stand_in(tmp_path / "radeval", monkeypatch)
    whole = run(tmp_path).score(PAIRS)
    file = tmp_path / "scores.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for cut in range(1, len(lines)):
        file.write_bytes(b"".join(lines[:cut]) + lines[cut][:-9])
        assert run(tmp_path).score(PAIRS) == whole
        assert len(file.read_text().splitlines()) == len(lines)


def test_scored_rows_of_an_evaluation_are_pairs(tmp_path, monkeypatch):
    write_stand_in(tmp_path / "radeval", monkeypatch)
    rows = [{"answer": "no edema", "reference": "no effusion", "bleu_1": 0.5}, {"answer": None, "reference": "x"}]
    text = "\n".join(json.dumps(row) for row in [*rows, {"answer": "x", "reference": " "}])
    (tmp_path / "scored.jsonl").write_text(text + "\n")
    found = run_clinical_python(PYTHON, tmp_path / "scored.jsonl", tmp_path / "scores.jsonl", METRICS)
    assert list(found.pairs) == [digest_pair("no edema", "no effusion")]


def test_scores_of_other_answers_are_refused(tmp_path, monkeypatch):
    write_stand_in(tmp_path / "radeval", monkeypatch)
    scores = run(tmp_path)
    for other in (("no  edema", "no effusion"), ("no edema", "no effusion."), ("no effusion", "no edema")):
        with pytest.raises(InputError, match="does not have 1 of the 2 pairs"):
            scores.score([PAIRS[0], other])
    assert scores.score([PAIRS[0]]).corpus["radgraph_simple"] == 0.5
    assert F1_KEYS[0] not in scores.score([PAIRS[0]]).corpus, "a score of another set is not used"


def test_other_metrics_need_another_file(tmp_path, monkeypatch):
    write_stand_in(tmp_path / "radeval", monkeypatch)
    run(tmp_path)
    with pytest.raises(ConfigError, match="Choose another file"):
        run(tmp_path, metrics=("radgraph",))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"load": "radgraph"}, "cannot load radgraph: OSError: could not connect to the Hub"),
        ({"score": "f1chexbert"}, r"failed on 3 pairs: f1chexbert, KeyError .*scikit-learn<1.9"),
        ({"spoil": "nan"}, "did not return 2 finite values"),
        ({"spoil": "short"}, "did not return 2 finite values"),
    ],
)
def test_a_failure_of_radeval_is_no_score_and_shows_no_text(tmp_path, monkeypatch, broken, message):
    write_stand_in(tmp_path / "radeval", monkeypatch, **broken)
    with pytest.raises(ConfigError, match=message) as error:
        run(tmp_path)
    assert "patient" not in str(error.value)
    assert not read_clinical_scores(tmp_path / "scores.jsonl").pairs if (tmp_path / "scores.jsonl").exists() else True


def test_environments_without_radeval_are_named(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"cannot be imported .*pip install RadEval"):
        check_clinical_python(PYTHON, METRICS)
    with pytest.raises(ConfigError, match="cannot be started .*RadEval"):
        check_clinical_python(tmp_path / "python", METRICS)
    write_stand_in(tmp_path / "radeval", monkeypatch)
    check_clinical_python(PYTHON, METRICS)
    with pytest.raises(ConfigError, match="unknown metrics: crimson"):  # sends texts to another company
        check_clinical_python(PYTHON, ("radgraph", "crimson"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]\n",
        '{"pair": "a", "scores": {}}\n',
        '{"kind": "clinical-scores", "metrics": []}\n{"pair": 1, "scores": {}}\n',
        '{"kind": "clinical-scores", "metrics": []}\n{"pair": "a", "scores": {"x": "1"}}\n',
        '{"kind": "clinical-scores", "metrics": ["a"]}\n{"kind": "clinical-scores", "metrics": ["b"]}\n',
    ],
)
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "scores.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"scores\.jsonl"):
        read_clinical_scores(tmp_path / "scores.jsonl")


def test_the_script_is_alone_in_its_folder_and_imports_only_radeval():
    """The folder of a script is first on its path, where a module could hide one of RadEval's."""
    names = {path.stem for path in SCRIPT.parent.glob("*.py")}
    assert names == {"__init__", "clinical_scores", "radeval_script"}
    assert "medvqa" not in SCRIPT.read_text()
