"""SwinVED's sizes, loss and features: against hand-made numbers; unchanged by padding, grouping and absent images."""

import math

import pytest
import torch
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration, SwinVedModel
from swin_ved_tiny import exact_model, pad, questions, studies
from transformers import BertGenerationDecoder

CLOSE = {"atol": 1e-10, "rtol": 1e-10}  # the models are in float64
# Swin's eager attention takes its softmax in float32: 2 ** -24 of each weight, which these weights make 80 times larger
# on the way to the logits (4.6e-6 measured; a mask left out moves them by tenths).
CLOSE_TO_EAGER = {"atol": 1e-4, "rtol": 0}


@pytest.fixture(scope="module")
def model() -> SwinVedForConditionalGeneration:
    return exact_model()


def sequences(answers=((9, 10), (11,), (12, 13, 14), (15, 16))) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Whole sequences and their labels, unpadded."""
    rows, labels = [], []
    for prompt, answer in zip(questions(), answers, strict=True):
        target = torch.tensor([*answer, 6])
        rows.append(torch.cat([prompt, target]))
        labels.append(torch.cat([torch.full_like(prompt, -100), target]))
    return rows, labels


def test_base_has_the_paper_s_size():
    config = SwinVedConfig.base()
    with torch.device("meta"):
        model = SwinVedForConditionalGeneration(config)
        features = model.encode(torch.empty(2, 3, 3, 384, 384)).last_hidden_state
    assert sum(parameter.numel() for parameter in model.parameters()) == 150_617_686
    assert config.tokens_per_image == 144
    assert features.shape == (2, 3 * 144, 1024)
    decoder = config.decoder
    assert (decoder.num_hidden_layers, decoder.num_attention_heads, decoder.intermediate_size) == (3, 16, 4096)
    assert (decoder.vocab_size, decoder.layer_norm_eps) == (12_510, 1e-5)
    assert (decoder.pad_token_id, decoder.bos_token_id, decoder.eos_token_id) == (1, 5, 6)


def test_a_configuration_without_sizes_is_base():
    config = SwinVedConfig()
    assert config.to_dict() == SwinVedConfig.base().to_dict()
    assert "SwinVedConfig" in repr(config)


@pytest.mark.parametrize("side", [64, 100, 72, 60])
def test_tokens_per_image_counts_what_the_encoder_makes(side):
    """The encoder pads what patches and mergings of 2 x 2 do not divide."""
    config = SwinVedConfig.tiny()
    encoder = {**config.encoder.to_dict(), "image_size": side}
    config = SwinVedConfig(encoder=encoder, decoder=config.decoder)
    with torch.device("meta"):
        features = SwinVedModel(config)(torch.empty(1, 1, 3, side, side)).last_hidden_state
    assert config.tokens_per_image == features.shape[1]


def test_loss_is_the_mean_negative_log_likelihood_of_answer_and_eos(model):
    rows, labels = sequences()
    input_ids, mask = pad(rows, left=False)
    pixels = studies(4)
    outputs = model(input_ids, mask, pixel_values=pixels, labels=pad(labels, left=False, value=-100)[0])
    terms = []
    for number, row in enumerate(rows):
        start = row.tolist().index(5) + 1
        for place in range(start, len(row)):
            scores = outputs.logits[number, place - 1].detach().double()
            terms.append(math.log(scores.exp().sum()) - scores[row[place]].item())
    assert len(terms) == 2 + 1 + 3 + 2 + 4  # the answers' words and four [EOS]
    assert outputs.loss.item() == pytest.approx(sum(terms) / len(terms), rel=1e-5)


@pytest.mark.parametrize("left", [True, False])
def test_padding_and_company_change_neither_logits_nor_loss(model, left):
    rows, labels = sequences()
    input_ids, mask = pad(rows, left)
    pixels = studies(4)
    outputs = model(input_ids, mask, pixel_values=pixels, labels=pad(labels, left, value=-100)[0])
    losses, counts = [], []
    for number, (row, label) in enumerate(zip(rows, labels, strict=True)):
        alone = model(row[None], pixel_values=pixels[number : number + 1], labels=label[None])
        torch.testing.assert_close(outputs.logits[number][mask[number].bool()], alone.logits[0], **CLOSE)
        losses.append(alone.loss.item())
        counts.append(int((label >= 0).sum()))
    weighted = sum(loss * count for loss, count in zip(losses, counts, strict=True)) / sum(counts)
    assert outputs.loss.item() == pytest.approx(weighted, rel=1e-5)


@pytest.mark.parametrize("study_index", [[0, 0, 0, 0], [1, 0, 1, 1], [0, 1, 2, 1], [2, 2, 0, 0]])
def test_grouping_by_study_equals_images_repeated_per_question(model, study_index):
    """Unequal groups, unsorted ones, and studies that nobody asks about."""
    input_ids, mask = pad(questions(), left=True)
    index, pixels = torch.tensor(study_index), studies(3)
    image_mask = torch.tensor([[1, 1, 1], [1, 0, 0], [0, 1, 1]])
    grouped = model(input_ids, mask, pixel_values=pixels, image_mask=image_mask, study_index=index).logits
    repeated = model(input_ids, mask, pixel_values=pixels[index], image_mask=image_mask[index]).logits
    torch.testing.assert_close(grouped, repeated, **CLOSE)


def test_absent_images_count_for_nothing_and_are_not_encoded(model):
    input_ids, _ = pad(questions((4, 4)), left=True)
    pixels = studies(2)
    image_mask = torch.tensor([[True, True, True], [True, False, False]])
    encoded = []
    hook = model.model.encoder.register_forward_pre_hook(lambda module, args: encoded.append(len(args[0])))
    spoilt = pixels.clone()
    spoilt[~image_mask] = math.nan
    logits = model(input_ids, pixel_values=spoilt, image_mask=image_mask).logits
    hook.remove()
    assert encoded == [4]
    alone = model(input_ids[1:], pixel_values=pixels[1:, :1]).logits
    torch.testing.assert_close(logits[1:], alone, **CLOSE)
    all_present = model(input_ids[1:], pixel_values=pixels[1:]).logits
    assert (logits[1:] - all_present).abs().max() > 0.1


def test_encoded_studies_take_the_place_of_pixels(model):
    input_ids, mask = pad(questions((4, 3)), left=True)
    image_mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    encoded = model.encode(studies(2), image_mask)
    assert encoded.last_hidden_state.shape == (2, 3 * model.config.tokens_per_image, 128)
    assert encoded.feature_mask.shape == (2, 3 * 16)
    assert encoded.feature_mask[0].tolist() == [True] * 32 + [False] * 16
    assert not encoded.last_hidden_state[0, 32:].any()
    direct = model(input_ids, mask, pixel_values=studies(2), image_mask=image_mask).logits
    assert torch.equal(model(input_ids, mask, encoder_outputs=encoded).logits, direct)
    base = SwinVedModel(model.config).double().eval()
    base.load_state_dict(model.model.state_dict())
    assert torch.equal(base(studies(2), image_mask).last_hidden_state, encoded.last_hidden_state)


def test_eager_attention_gives_the_same_and_its_weights_per_question(model):
    eager = exact_model()
    eager.set_attn_implementation("eager")
    input_ids, mask = pad(questions(), left=True)
    index = torch.tensor([1, 0, 1, 1])
    inputs = {"pixel_values": studies(2), "image_mask": torch.tensor([[1, 0, 0], [1, 1, 1]])}
    outputs = eager(input_ids, mask, study_index=index, output_attentions=True, **inputs)
    words = mask.bool()
    logits = model(input_ids, mask, study_index=index, **inputs).logits
    torch.testing.assert_close(outputs.logits[words], logits[words], **CLOSE_TO_EAGER)
    repeated = {name: value[index] for name, value in inputs.items()}
    expected = eager(input_ids, mask, output_attentions=True, **repeated).cross_attentions
    assert len(outputs.cross_attentions) == 2
    for ours, theirs in zip(outputs.cross_attentions, expected, strict=True):
        assert ours.shape == (4, 4, 7, 48)  # questions, heads, tokens, image features
        torch.testing.assert_close(ours.transpose(1, 2)[words], theirs.transpose(1, 2)[words], **CLOSE_TO_EAGER)
    assert not outputs.cross_attentions[0][1, :, :, 16:].any()  # question 1 is about study 0, which has one image


def test_answer_position_is_the_release_s_numbering():
    """The release pads the question to 64 places, numbers all of them, and finds absent images by their zeros."""
    model = exact_model(answer_position=64)
    reference = BertGenerationDecoder(model.config.decoder).double().eval()
    reference.load_state_dict(model.decoder.state_dict())
    rows, labels = sequences()
    pixels, image_mask = studies(4), torch.tensor([[1, 0, 0], [1, 1, 1], [1, 1, 0], [1, 1, 1]])
    features = model.model.encoder(pixels.flatten(0, 1).double()).last_hidden_state.view(4, 3, 16, 128)
    features = (features * image_mask[:, :, None, None]).flatten(1, 2)
    padded = []
    for row in rows:
        bos = row.tolist().index(5)
        padded.append(torch.cat([row[:bos], torch.ones(64 - bos, dtype=torch.long), row[bos:]]))
    padded, _ = pad(padded, left=False)
    expected = reference(
        padded, padded.ne(1).long(), encoder_hidden_states=features, encoder_attention_mask=features.abs().sum(-1) != 0
    ).logits
    for left in (True, False):
        input_ids, mask = pad(rows, left)
        logits = model(input_ids, mask, pixel_values=pixels, image_mask=image_mask).logits
        for number in range(4):
            real = padded[number] != 1
            torch.testing.assert_close(logits[number][mask[number].bool()], expected[number][real], **CLOSE)
    contiguous = exact_model()
    assert (contiguous(rows[0][None], pixel_values=pixels[:1]).logits[0, -1] - logits[0, -1]).abs().max() > 0.1
