"""RadGraph, CheXbert and the challenge's score through RadEval: what is asked of it, what becomes of its answers."""

import math
import sys
import warnings

import pytest
from radeval_fake import F1_KEYS, install

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics import radiology
from medvqa_core.metrics.radiology import RadiologyScorer

PREDICTIONS = ["no edema", " ", "small effusion left", "mild edema"]
REFERENCES = ["no effusion", "no edema", "small effusion left", "  "]


def test_scores_by_hand(monkeypatch):
    seen = install(monkeypatch)
    found = RadiologyScorer().score(PREDICTIONS, REFERENCES, bertscore=[0.5, 0.1, 1.0, None])
    assert found.samples == {
        "radgraph_simple": [0.5, 0.0, 1.0, None],  # one of two words each; an empty answer; equal; no reference
        "radgraph_partial": [0.25, 0.0, 0.5, None],
        "radgraph_complete": [0.0, 0.0, 1.0, None],
        "f1chexbert_sample_acc_5": [0.5, 0.0, 0.5, None],
        "f1chexbert_sample_acc_all": [1.0, 0.0, 1.0, None],
        "challenge_score": [0.375, 0.05, 0.75, None],  # 0.5 x BERTScore + 0.5 x RadGraph partial
    }
    assert found.unscorable == dict.fromkeys(found.samples, 1)
    assert found.corpus["radgraph_simple"] == 0.5 and found.corpus["challenge_score"] == pytest.approx(1.175 / 3)
    assert {name: found.corpus[name] for name in F1_KEYS} == pytest.approx(dict.fromkeys(F1_KEYS, 2 / 3))
    modes = [(metric, mode) for metric, mode, *_ in seen.asked]
    assert modes == [("radgraph", "per_sample"), ("f1chexbert", "per_sample"), ("f1chexbert", "detailed")]
    _, _, references, predictions = seen.asked[0]
    assert (references, predictions) == (["no effusion", "small effusion left"], ["no edema", "small effusion left"])
    assert all(made["per_sample"] and not made["show_progress"] for made in seen.made)


def test_a_scorer_serves_many_sets_and_chunks_change_nothing(monkeypatch):
    seen = install(monkeypatch)
    scorer = RadiologyScorer()
    whole = scorer.score(PREDICTIONS, REFERENCES)
    monkeypatch.setattr(radiology, "CHUNK", 1)
    assert scorer.score(PREDICTIONS, REFERENCES) == whole
    assert len(seen.made) == 2, "one for each metric, loaded once"
    assert [len(refs) for metric, _, refs, _ in seen.asked if metric == "radgraph"] == [2, 1, 1]
    assert "challenge_score" not in whole.corpus and "challenge_score" not in whole.samples


def test_without_chexbert_its_scores_are_absent_and_said_to_be(monkeypatch):
    seen = install(monkeypatch)
    scorer = RadiologyScorer(chexbert=False)
    assert sorted(scorer.score(["a"], ["a"]).samples) == ["radgraph_complete", "radgraph_partial", "radgraph_simple"]
    assert [made["metrics"] for made in seen.made] == [["radgraph"]]
    assert scorer.description["metrics"] == ["radgraph"] and "CheXbert left out" in scorer.description["notes"][0]


def test_nothing_that_can_be_scored(monkeypatch):
    install(monkeypatch)
    found = RadiologyScorer().score(["no", "edema"], ["", " "], [None, None])
    assert set(found.corpus.values()) == {None} and set(found.corpus) == {*found.samples, *F1_KEYS}
    assert RadiologyScorer().score([""], ["edema"]).corpus["radgraph_partial"] == 0


def test_the_library_and_its_version_are_named(monkeypatch):
    install(monkeypatch)
    monkeypatch.setattr(radiology, "version", lambda name: {"RadEval": "2.2.1"}[name])
    described = RadiologyScorer().description
    assert described["libraries"] == {"RadEval": "2.2.1"} and described["metrics"] == ["radgraph", "f1chexbert"]
    assert described["challenge_score"] == "0.5 x BERTScore F1 + 0.5 x radgraph_partial"


def test_radeval_finds_itself_under_the_name_that_its_own_files_use(monkeypatch):
    install(monkeypatch)
    assert "RadEval" not in sys.modules
    RadiologyScorer()
    assert sys.modules["RadEval"] is sys.modules["radeval"]


def test_radeval_s_words_stay_off_standard_output_and_warnings_stay_on(monkeypatch, capsys):
    install(monkeypatch)
    before = list(warnings.filters)
    RadiologyScorer().score(["a"], ["a"])
    assert warnings.filters == before
    out, err = capsys.readouterr()
    assert out == "" and "Using device" in err


def test_the_extra_is_named_where_it_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "radeval", None)
    with pytest.raises(ConfigError, match=r"pip install.*\[radiology\]"):
        RadiologyScorer()


def test_a_half_installed_radeval_is_named_with_what_it_lacks(monkeypatch, tmp_path):
    (tmp_path / "radeval.py").write_text("import a_library_that_is_not_there\n")
    monkeypatch.delitem(sys.modules, "radeval", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="'a_library_that_is_not_there'"):
        RadiologyScorer()


@pytest.mark.parametrize(
    ("metric", "error"),
    [("radgraph", Exception("Cannot download the file\nno network")), ("f1chexbert", OSError("could not connect"))],
)
def test_weights_that_cannot_be_fetched_are_named(monkeypatch, metric, error):
    install(monkeypatch, load={metric: error})
    with pytest.raises(ConfigError, match=f"{metric} .*HF_HUB_OFFLINE") as found:
        RadiologyScorer()
    assert "\n" not in str(found.value) and str(error).split()[-1] in str(found.value)


def test_a_failure_never_becomes_a_score_and_tells_no_text(monkeypatch):
    install(monkeypatch, answer=KeyError("a patient's text"))
    with pytest.raises(ConfigError, match=r"failed on 1 pairs \(KeyError\)") as found:
        RadiologyScorer().score(["a"], ["a"])
    assert "patient" not in str(found.value)


def test_what_chexbert_fails_with_is_named(monkeypatch):
    def like_scikit_learn(scores):
        if "f1chexbert_sample_acc_5" in scores:
            raise AttributeError("'matrix' object has no attribute 'format'")
        return scores

    install(monkeypatch, answer=like_scikit_learn)
    with pytest.raises(ConfigError, match="AttributeError.*pip install 'scikit-learn<1.9'"):
        RadiologyScorer().score(["a"], ["a"])


@pytest.mark.parametrize(
    "change",
    [
        lambda scores: {name: [math.nan] for name in scores},
        lambda scores: {name: [] for name in scores},
        lambda scores: {},
        lambda scores: dict.fromkeys(scores),
    ],
    ids=["nan", "too few", "other names", "none"],
)
def test_scores_of_another_shape_are_refused(monkeypatch, change):
    install(monkeypatch, answer=change)
    with pytest.raises(ConfigError, match="radgraph_simple"):
        RadiologyScorer().score(["a"], ["a"])


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], [], "no predictions"),
        (["a"], ["a", "b"], "1 predictions but 2"),
        (["a"], [["a", "b"]], "row 0: 2 references"),
    ],
)
def test_pairs_that_are_none(monkeypatch, predictions, references, message):
    install(monkeypatch)
    with pytest.raises(InputError, match=message):
        RadiologyScorer().score(predictions, references)
