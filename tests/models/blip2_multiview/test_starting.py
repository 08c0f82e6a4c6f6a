"""BLIP-2-MultiView from other weights: a plain BLIP-2, the released code's checkpoints, an output layer of its own."""

import logging

import pytest
import torch
from blip2_multiview import (
    Blip2MultiViewConfig,
    Blip2MultiViewForConditionalGeneration,
    Blip2MultiViewProcessor,
    convert_blip2_multiview,
)
from blip2_multiview_models import assert_same_logits, make_inputs, make_plain_blip2
from torch import nn
from transformers import BitsAndBytesConfig, Blip2Config, Blip2VisionConfig, OPTConfig, T5Config


@pytest.fixture(scope="module")
def flan(tmp_path_factory):
    """Folder of a plain BLIP-2 with an output layer of its own, as FLAN-T5 has."""
    folder = tmp_path_factory.mktemp("flan")
    plain = make_plain_blip2()
    plain.language_model.lm_head.weight = nn.Parameter(torch.randn(512, 64))
    plain.save_pretrained(folder)
    return str(folder)


def test_from_blip2_copies_its_branch_three_times(tmp_path):
    plain = make_plain_blip2()
    # An output layer of its own, which transformers would tie to the embeddings.
    plain.language_model.lm_head.weight = nn.Parameter(torch.randn(512, 64))
    plain.save_pretrained(tmp_path / "plain")
    model = Blip2MultiViewForConditionalGeneration.from_blip2(str(tmp_path / "plain"))
    expected = plain.state_dict()
    for branch in model.model.branches.by_view.values():
        torch.testing.assert_close(branch.query_tokens, plain.query_tokens)
        torch.testing.assert_close(branch.projection.weight, plain.language_projection.weight)
        for name, weight in branch.qformer.state_dict().items():
            torch.testing.assert_close(weight, expected[f"qformer.{name}"])
    first, second, _ = model.model.branches.by_view.values()
    assert first.query_tokens.data_ptr() != second.query_tokens.data_ptr()
    assert first.projection.weight.data_ptr() != second.projection.weight.data_ptr()
    for name, weight in model.model.vision_model.state_dict().items():
        torch.testing.assert_close(weight, expected[f"vision_model.{name}"])
    for name, weight in model.language_model.state_dict().items():
        torch.testing.assert_close(weight, expected[f"language_model.{name}"])
    rows = model.prefix_embeddings.weight
    assert torch.equal(
        rows, Blip2MultiViewForConditionalGeneration.from_blip2(str(tmp_path / "plain")).prefix_embeddings.weight
    )
    assert rows.unique(dim=0).shape[0] == 4
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert all(name.startswith(("model.branches.", "prefix_embeddings.")) for name in trained)

    model.save_pretrained(tmp_path / "ours")
    loaded = Blip2MultiViewForConditionalGeneration.from_pretrained(tmp_path / "ours")
    assert_same_logits(loaded(**make_inputs()).logits, model(**make_inputs()).logits)
    assert not torch.equal(loaded.language_model.lm_head.weight, loaded.language_model.shared.weight)


def test_processor_from_blip2_takes_its_tokenizer_and_image_size(tmp_path):
    make_plain_blip2().save_pretrained(tmp_path)
    tokenizer = Blip2MultiViewProcessor.tiny().tokenizer
    tokenizer.save_pretrained(tmp_path)
    processor = Blip2MultiViewProcessor.from_blip2(str(tmp_path), unknown_views="error")
    assert (processor.image_size, processor.unknown_views) == (28, "error")
    assert processor.tokenizer.get_vocab() == tokenizer.get_vocab()


def test_from_blip2_refuses_decoder_only_and_other_models(tmp_path):
    opt = OPTConfig(vocab_size=60, hidden_size=16, ffn_dim=16, num_hidden_layers=1, num_attention_heads=2)
    make_config = Blip2Config(vision_config=Blip2VisionConfig(), text_config=opt)
    make_config.save_pretrained(tmp_path / "opt")
    with pytest.raises(ValueError, match="'opt'"):
        Blip2MultiViewForConditionalGeneration.from_blip2(str(tmp_path / "opt"))
    T5Config().save_pretrained(tmp_path / "t5")
    with pytest.raises(ValueError, match="'t5'.*'blip-2'"):
        Blip2MultiViewForConditionalGeneration.from_blip2(str(tmp_path / "t5"))


def make_released(vocabulary: int = 104) -> tuple[dict[str, torch.Tensor], Blip2MultiViewConfig]:
    """A state dict with the released code's keys, and a configuration of its sizes."""
    tiny = Blip2MultiViewConfig.tiny()
    tiny.text_config.vocab_size = vocabulary
    plain = make_plain_blip2(text_config=tiny.text_config)
    state = {name: weight.clone() for name, weight in plain.state_dict().items()}
    for number, view in enumerate(("AP", "PA", "LAT"), start=1):
        for name in plain.qformer.state_dict():
            state[f"qformer_by_view.{view}.{name}"] = state[f"qformer.{name}"] * number
        for name in ("weight", "bias"):
            state[f"language_projection_by_view.{view}.{name}"] = state[f"language_projection.{name}"] + number
        state[f"query_tokens_by_view.{view}"] = state["query_tokens"] - number
    return state, Blip2MultiViewConfig.tiny()


@pytest.mark.parametrize("from_file", [False, True])
def test_released_state_dict_becomes_a_model(tmp_path, from_file):
    state, config = make_released()
    state["language_model.lm_head.weight"] = torch.randn(104, 64)
    source = state
    if from_file:
        source = tmp_path / "best.pt"
        torch.save(state, source)
    model, unused = convert_blip2_multiview(source, config)
    assert {name.split(".")[0] for name in unused} == {"qformer", "query_tokens", "language_projection"}
    place = "model.branches.by_view.LAT"
    weights = model.state_dict()
    assert torch.equal(weights[f"{place}.query_tokens"], state["query_tokens_by_view.LAT"])
    assert torch.equal(weights[f"{place}.projection.bias"], state["language_projection_by_view.LAT.bias"])
    assert torch.equal(weights[f"{place}.qformer.layernorm.weight"], state["qformer_by_view.LAT.layernorm.weight"])
    assert torch.equal(weights["prefix_embeddings.weight"], state["language_model.shared.weight"][100:])
    used = len(state) - len(unused)
    assert len(weights) == used + 1

    model.save_pretrained(tmp_path / "ours")
    loaded = Blip2MultiViewForConditionalGeneration.from_pretrained(tmp_path / "ours")
    inputs = make_inputs(labels=False) | {"decoder_input_ids": torch.tensor([[0, 5], [0, 7]])}
    inputs["input_ids"] = inputs["input_ids"] % 100
    assert_same_logits(loaded(**inputs).logits, model(**inputs).logits)
    assert loaded.config.text_config.vocab_size == 104


def test_prefix_rows_may_lie_elsewhere():
    state, config = make_released()
    model = convert_blip2_multiview(state, config, prefix_token_ids=[7, 9, 8, 3]).model
    assert torch.equal(model.prefix_embeddings.weight, state["language_model.shared.weight"][[7, 9, 8, 3]])
    for wrong in ([7, 9, 8, 104], [7, 9, 8, 8], [7, 9, 8], [7, 9, 8, 3.0], [True, 9, 8, 3]):
        with pytest.raises(ValueError, match="4 different ids below 104"):
            convert_blip2_multiview(state, config, prefix_token_ids=wrong)


def test_missing_unknown_and_misshapen_keys_are_all_named(tmp_path):
    state, config = make_released()
    del state["query_tokens_by_view.PA"]
    state["vision_model.extra"] = torch.zeros(1)
    state["language_projection_by_view.AP.bias"] = torch.zeros(3)
    with pytest.raises(ValueError) as caught:
        convert_blip2_multiview(state, config)
    text = str(caught.value)
    assert "missing: model.branches.by_view.PA.query_tokens" in text
    assert "unknown: model.vision_model.extra" in text
    assert "AP.projection.bias has shape (3,), expected (64,)" in text
    with pytest.raises(ValueError, match=r"language_model\.shared\.weight"):
        convert_blip2_multiview({"weight": torch.zeros(1)})
    with pytest.raises(OSError, match=r"none\.pt"):
        convert_blip2_multiview(tmp_path / "none.pt")


def assert_own_output_layer(model, expected: torch.Tensor) -> None:
    """The output layer and nothing else is untied, and stays so whatever transformers does to the embeddings."""
    language_model = model.language_model
    logits = model(**make_inputs()).logits
    model.tie_weights()
    assert torch.equal(language_model.lm_head.weight, expected)
    model.resize_token_embeddings(520)
    assert language_model.lm_head.weight.shape[0] == 520
    assert torch.equal(language_model.lm_head.weight[:512], expected)
    assert_same_logits(model(**make_inputs()).logits[..., :512], logits)
    table = language_model.shared.weight
    assert table.shape[0] == 520
    assert language_model.encoder.embed_tokens.weight is table
    assert language_model.decoder.embed_tokens.weight is table


@pytest.mark.parametrize("scaled", [False, True])
def test_output_layer_of_its_own_survives_saving_tying_and_resizing(flan, tmp_path, caplog, scaled):
    kind = Blip2MultiViewForConditionalGeneration
    model = kind.from_blip2(flan)
    model.language_model.config.scale_decoder_outputs = scaled  # stays as it is: it is no matter of the ties
    head = model.language_model.lm_head.weight.detach().clone()
    model.save_pretrained(tmp_path / "once")
    caplog.clear()  # a plain BLIP-2's loading does warn
    with caplog.at_level(logging.WARNING):
        loaded = kind.from_pretrained(tmp_path / "once")
    assert not [record for record in caplog.records if "tie" in record.message]
    assert loaded.language_model.config.scale_decoder_outputs == scaled
    assert_same_logits(loaded(**make_inputs()).logits, model(**make_inputs()).logits)
    assert_own_output_layer(model, head)
    assert_own_output_layer(loaded, head)
    loaded.save_pretrained(tmp_path / "twice")
    again = kind.from_pretrained(tmp_path / "twice")
    assert_same_logits(again(**make_inputs()).logits, loaded(**make_inputs()).logits)


def test_output_layer_of_its_own_is_found_in_the_weights(flan, tmp_path):
    """A checkpoint whose configuration does not say so."""
    model = Blip2MultiViewForConditionalGeneration.from_blip2(flan)
    model.config.tie_output_layer = True
    model.save_pretrained(tmp_path)
    loaded = Blip2MultiViewForConditionalGeneration.from_pretrained(tmp_path)
    assert loaded.config.tie_output_layer is False
    assert_own_output_layer(loaded, model.language_model.lm_head.weight)


def test_new_model_may_have_an_output_layer_of_its_own(tmp_path):
    model = Blip2MultiViewForConditionalGeneration(Blip2MultiViewConfig.tiny(tie_output_layer=False)).eval()
    with torch.no_grad():
        model.language_model.lm_head.weight += 1
    head = model.language_model.lm_head.weight.detach().clone()
    assert not torch.equal(model.language_model.shared.weight, head)
    model.save_pretrained(tmp_path)
    loaded, report = Blip2MultiViewForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    assert_own_output_layer(loaded, head)


def test_shared_output_layer_stays_shared(tmp_path):
    make_plain_blip2().save_pretrained(tmp_path)
    model = Blip2MultiViewForConditionalGeneration.from_blip2(str(tmp_path))
    assert model.config.tie_output_layer is True
    model.resize_token_embeddings(520)
    assert model.language_model.lm_head.weight is model.language_model.shared.weight


def test_from_blip2_refuses_what_it_cannot_pass_on(flan):
    with pytest.raises(ValueError, match="quantization_config.*from_pretrained"):
        Blip2MultiViewForConditionalGeneration.from_blip2(
            flan, quantization_config=BitsAndBytesConfig(load_in_8bit=True)
        )


def test_from_blip2_keeps_the_attention_that_was_asked_for(flan):
    model = Blip2MultiViewForConditionalGeneration.from_blip2(flan, attn_implementation="eager")
    branch = model.model.branches.by_view["LAT"]
    for part in (model, model.model, model.model.vision_model, model.language_model, branch.qformer):
        assert part.config._attn_implementation == "eager"
    assert model(**make_inputs(), output_attentions=True).encoder_attentions[0] is not None


def test_from_blip2_in_half_precision_trains_in_float32(flan, tmp_path):
    model = Blip2MultiViewForConditionalGeneration.from_blip2(flan, dtype=torch.float16)
    assert {weight.dtype for weight in model.parameters() if weight.requires_grad} == {torch.float32}
    assert {weight.dtype for weight in model.model.vision_model.parameters()} == {torch.float16}
    model.save_pretrained(tmp_path)
    loaded = Blip2MultiViewForConditionalGeneration.from_pretrained(tmp_path)
    assert {name: weight.dtype for name, weight in loaded.named_parameters()} == {
        name: weight.dtype for name, weight in model.named_parameters()
    }


@pytest.mark.parametrize("wrapping", ["state_dict", "model_state_dict"])
def test_wrapped_state_dicts_are_unwrapped(wrapping):
    state, config = make_released()
    wrapped = {wrapping: {f"module.{name}": weight for name, weight in state.items()}, "epoch": 3}
    expected, found = (convert_blip2_multiview(source, config).model.state_dict() for source in (state, wrapped))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())


def test_converted_model_shares_its_table_but_nothing_with_the_state_dict():
    state, config = make_released()
    model = convert_blip2_multiview(state, config).model
    language_model = model.language_model
    parts = (language_model.encoder.embed_tokens, language_model.decoder.embed_tokens, language_model.lm_head)
    assert all(part.weight is language_model.shared.weight for part in parts)
    before = {name: weight.clone() for name, weight in state.items()}
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1
    assert all(torch.equal(state[name], weight) for name, weight in before.items())

    state["language_model.encoder.embed_tokens.weight"] = torch.zeros(104, 64)
    with pytest.raises(ValueError, match="encoder.embed_tokens.weight .*language_model.shared.weight"):
        convert_blip2_multiview(state, config)


def test_converted_model_keeps_an_output_layer_of_its_own():
    state, config = make_released()
    head = state["language_model.lm_head.weight"] = torch.randn(104, 64)
    model = convert_blip2_multiview(state, config).model
    assert model.config.tie_output_layer is False
    model.tie_weights()
    assert torch.equal(model.language_model.lm_head.weight, head)


def test_older_files_are_read_and_other_files_are_named(tmp_path):
    state, config = make_released()
    torch.save(state, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    model = convert_blip2_multiview(tmp_path / "old.pt", config).model
    assert torch.equal(model.language_model.shared.weight, state["language_model.shared.weight"])
    (tmp_path / "junk.pt").write_bytes(b"no checkpoint")
    (tmp_path / "empty.pt").write_bytes(b"")
    torch.save(torch.nn.Linear(1, 1), tmp_path / "module.pt")
    for name in ("junk.pt", "empty.pt", "module.pt"):
        with pytest.raises(ValueError, match=name):
            convert_blip2_multiview(tmp_path / name, config)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match=r"list\.pt .*state dict"):
        convert_blip2_multiview(tmp_path / "list.pt", config)
    with pytest.raises(ValueError, match="epoch"):
        convert_blip2_multiview({**state, "epoch": 3}, config)
