"""BLEU, ROUGE-L, CIDEr and METEOR: equal to pycocoevalcap on 200 pairs, by hand on small ones, clear on bad input."""

import json
import math
import os
import random
import signal
import subprocess
from pathlib import Path

import paths
import pytest

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics import meteor
from medvqa_core.metrics.bleu import bleu_scores
from medvqa_core.metrics.caption_row import METRICS, score_row
from medvqa_core.metrics.cider import DocumentFrequencies, cider_scores
from medvqa_core.metrics.ptb_tokenizer import tokenize
from medvqa_core.metrics.rouge import longest_common_subsequence, rouge_l, rouge_scores

GOLDEN = json.loads((paths.GOLDEN / "caption_scores.json").read_text(encoding="utf-8"))
PREDICTIONS = [pair["prediction"] for pair in GOLDEN["pairs"]]
REFERENCES = [pair["references"] for pair in GOLDEN["pairs"]]
needs_meteor = pytest.mark.skipif(meteor.missing() is not None, reason=str(meteor.missing()))


def assert_golden(scores, *names):
    for name in names:
        expected = GOLDEN["scores"][name]
        assert scores.corpus[name] == pytest.approx(expected["corpus"], abs=1e-6), name
        assert scores.samples[name] == pytest.approx(expected["samples"], abs=1e-6), name


def test_bleu_rouge_and_cider_equal_the_tools():
    assert_golden(bleu_scores(PREDICTIONS, REFERENCES), "bleu_1", "bleu_2", "bleu_3", "bleu_4")
    assert_golden(rouge_scores(PREDICTIONS, REFERENCES), "rouge_l")
    assert_golden(cider_scores(PREDICTIONS, REFERENCES), "cider")


@pytest.mark.slow
@needs_meteor
def test_the_paper_s_row_equals_the_tools_on_wordpunct_text_in_any_locale(monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    started, start = [], subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **options: started.append(start(*args, **options)) or started[-1]
    )
    row = score_row(PREDICTIONS, REFERENCES, "paper", encoder="none")
    assert list(row.row) == list(METRICS)
    for name in GOLDEN["spaced_scores"]:
        assert row.row[name] == pytest.approx(GOLDEN["spaced_scores"][name]["corpus"], abs=1e-6), name
        assert row.samples[name] == pytest.approx(GOLDEN["spaced_scores"][name]["samples"], abs=1e-6), name
    assert row.row["bertscore"] is None and "BERTScore left out" in row.description["notes"][0]
    assert row.description["libraries"]["METEOR"] == "1.5" and row.description["libraries"]["pycocoevalcap"] == "1.2"
    assert [process.returncode for process in started] == [0] and started[0].stdout.closed
    assert row.description["empty_predictions"] == sum(not tokenize(text) for text in PREDICTIONS) > 0


def test_bleu_of_one_pair_by_hand():
    scores = bleu_scores(["the cat sat"], ["the cat sat down here"], str.split)
    penalty = math.exp(1 - 5 / 3)
    assert scores.corpus["bleu_1"] == pytest.approx(penalty, abs=1e-6)
    assert scores.corpus["bleu_3"] == pytest.approx(penalty, abs=1e-6)
    assert scores.corpus["bleu_4"] < 1e-1 and scores.samples["bleu_4"][0] == scores.corpus["bleu_4"]


def test_bleu_clips_counts_at_the_richest_reference_and_takes_the_closest_length():
    scores = bleu_scores(["the the the the"], [["the cat", "the the dog barks loudly"]], str.split)
    assert scores.corpus["bleu_1"] == pytest.approx(2 / 4 * math.exp(1 - 5 / 4), abs=1e-6)


def test_rouge_by_hand():
    precision, recall, beta = 3 / 4, 3 / 5, 1.2
    expected = (1 + beta**2) * precision * recall / (recall + beta**2 * precision)
    assert rouge_l(list("abcd"), [list("axbcy")]) == pytest.approx(expected)
    assert rouge_l(list("ab"), [list("cd")]) == 0
    assert rouge_scores(["a b"], [["c d", "a b"]], str.split).corpus["rouge_l"] == pytest.approx(1)


def test_longest_common_subsequence_equals_the_plain_table():
    def plain(a, b):
        table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
        return table[-1][-1]

    draw = random.Random(0)
    for _ in range(300):
        first, second = ([draw.choice("abcd") for _ in range(draw.randint(0, 90))] for _ in range(2))
        assert longest_common_subsequence(first, second) == plain(first, second)


def test_cider_by_hand():
    # two documents; every word is in one of them only, so that all weights are log 2 and equal texts score 10
    scores = cider_scores(["a b c d", "p q"], ["a b c d", "p q r s"], str.split)
    assert scores.samples["cider"][0] == pytest.approx(10)
    # unigrams: 2 of 4 shared words, norms sqrt 2 and 2; bigrams: 1 of 3; nothing longer; lengths differ by 2 bigrams
    cosines = (2 / (math.sqrt(2) * 2) + 1 / (1 * math.sqrt(3))) / 4
    assert scores.samples["cider"][1] == pytest.approx(10 * cosines * math.exp(-4 / 72))
    assert scores.corpus["cider"] == pytest.approx(sum(scores.samples["cider"]) / 2)


def test_saved_document_frequencies_score_a_single_answer_as_in_the_whole(tmp_path):
    frequencies = DocumentFrequencies.build(REFERENCES)
    path = tmp_path / "frequencies.json"
    frequencies.save(path, private=True)
    assert path.stat().st_mode & 0o777 == 0o600
    loaded = DocumentFrequencies.load(path)
    assert loaded == frequencies and loaded.documents == 200
    alone = cider_scores(PREDICTIONS[7:8], REFERENCES[7:8], frequencies=loaded)
    assert alone.samples["cider"][0] == pytest.approx(GOLDEN["scores"]["cider"]["samples"][7], abs=1e-6)
    assert cider_scores(PREDICTIONS[7:8], REFERENCES[7:8]).corpus["cider"] == 0


@pytest.mark.parametrize("content", ["", "[]", '{"kind": "other"}', "\x00"])
def test_other_files_are_no_document_frequencies(tmp_path, content):
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(InputError, match=r"file\.json.*DocumentFrequencies\.build"):
        DocumentFrequencies.load(tmp_path / "file.json")
    with pytest.raises(InputError, match="none.json"):
        DocumentFrequencies.load(tmp_path / "none.json")
    with pytest.raises(InputError, match="at least one"):
        DocumentFrequencies.build([])


@pytest.mark.parametrize("function", [bleu_scores, rouge_scores, cider_scores, meteor.meteor_scores, score_row])
@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], [], "no predictions"),
        (["a"], ["a", "b"], "1 predictions but 2 references"),
        (["a"], [[]], "row 0: no reference"),
        ([None], ["a"], "row 0: .*NoneType"),
        (["a"], [float("nan")], "row 0: .*float"),
        (["a"], [None], "row 0: .*NoneType"),
        (["a"], [["b", None]], "row 0: .*NoneType"),
        ("ab", ["a", "b"], "predictions is one string"),
    ],
)
def test_bad_pairs_are_refused(function, predictions, references, message):
    with pytest.raises(InputError, match=message):
        function(predictions, references)


def test_the_default_row_needs_neither_java_nor_an_encoder(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    row = score_row(["no effusion", ""], ["no effusion", "an effusion"])
    assert row.row["meteor"] is None and row.row["bertscore"] is None
    assert {"bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"} <= row.samples.keys()
    assert not {"meteor", "bertscore"} & row.samples.keys()
    assert len(row.description["notes"]) == 2 and row.description["profile"] == "default"


def test_without_java_the_paper_s_row_leaves_meteor_out_and_says_so(monkeypatch):
    monkeypatch.setattr(meteor, "find_jar", lambda: Path("meteor.jar"))
    monkeypatch.setattr("shutil.which", lambda name: None)
    row = score_row(["no effusion"], ["no effusion"], "paper", encoder="none")
    assert row.row["meteor"] is None and "meteor" not in row.samples
    assert any("no `java` was found" in note for note in row.description["notes"])
    with pytest.raises(ConfigError, match="Java"):
        meteor.meteor_scores(["a"], ["a"])
    monkeypatch.setattr(meteor, "find_jar", lambda: None)
    with pytest.raises(ConfigError, match=r"\[meteor\]"):
        meteor.meteor_scores(["a"], ["a"])


def test_unknown_profiles_and_settings_are_refused():
    with pytest.raises(ConfigError, match="'coco'.*paper, default"):
        score_row(["a"], ["a"], "coco")
    with pytest.raises(ConfigError, match="fixes layer 5"):
        score_row(["a"], ["a"], "paper", encoder="x", layer=4)
    with pytest.raises(ConfigError, match="minilm"):
        score_row(["a"], ["a"], "paper", encoder="minilm")


@needs_meteor
def test_a_meteor_that_dies_is_an_error_and_no_zombie():
    with pytest.raises(ConfigError, match="ended with code"), meteor.Meteor() as program:
        os.kill(program._process.pid, signal.SIGKILL)
        program._process.wait()
        program.score(["a"], [["a"]])
    assert program._process.returncode == -signal.SIGKILL
    assert subprocess.run(["ps", "-p", str(program._process.pid)], capture_output=True, check=False).returncode == 1
