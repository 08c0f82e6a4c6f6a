"""BLIP-2-MultiView, the computation: prefix, pooling, missing views, invariances, what is trained, bad input."""

from types import SimpleNamespace

import pytest
import torch
from blip2_multiview import Blip2MultiViewConfig, Blip2MultiViewForConditionalGeneration
from blip2_multiview.modeling_blip2_multiview import Blip2ViewBranches
from blip2_multiview_models import IMAGE_VIEW, NUM_IMAGES, make_inputs, make_lively, make_model
from torch import nn
from transformers import Blip2Config, Blip2ForConditionalGeneration, GenerationConfig, T5Config

IMAGE_STUDY = torch.tensor([0, 0, 0, 1])
IMAGES = ("pixel_values", "num_images", "image_view")


@pytest.fixture(scope="module")
def model():
    """In double precision: the invariances below are exact, and rounding must not decide a test."""
    return make_model().double()


class SumQFormer(nn.Module):
    """Query plus the mean image state: a Q-Former that can be computed by hand."""

    def forward(self, query_embeds, encoder_hidden_states):
        return SimpleNamespace(last_hidden_state=query_embeds + encoder_hidden_states.mean(1, keepdim=True))


def test_pooling_and_missing_views_by_hand():
    config = Blip2MultiViewConfig.tiny(num_query_tokens=2, text_config=T5Config(d_model=2))
    config.qformer_config.hidden_size, config.qformer_config.num_attention_heads = 2, 1
    branches = Blip2ViewBranches(config)
    queries = {"AP": [[10.0, 0.0], [20.0, 0.0]], "PA": [[7.0, 7.0], [8.0, 8.0]], "LAT": [[1.0, 1.0], [2.0, 2.0]]}
    for view, branch in branches.by_view.items():
        branch.qformer = SumQFormer()
        branch.query_tokens.data = torch.tensor([queries[view]])
        branch.projection.weight.data, branch.projection.bias.data = torch.eye(2), torch.tensor([100.0, 200.0])
    # Images [1, 0] and [3, 0] are AP of study 0, [0, 5] is LAT of study 1; one patch each.
    states = torch.tensor([[[1.0, 0.0]], [[0.0, 5.0]], [[3.0, 0.0]]])
    output = branches(states, torch.tensor([0, 1, 0]), torch.tensor([0, 2, 0]), 2)
    nothing = [[0.0, 0.0], [0.0, 0.0]]  # not the projection's bias
    expected = [
        [[[112.0, 200.0], [122.0, 200.0]], nothing, nothing],
        [nothing, nothing, [[101.0, 206.0], [102.0, 207.0]]],
    ]
    torch.testing.assert_close(output.view_features, torch.tensor(expected), rtol=0, atol=0)
    assert output.view_mask.tolist() == [[True, False, False], [False, False, True]]


def test_in_training_a_view_that_nobody_has_still_gets_gradients():
    model = make_model().train()
    inputs = {**make_inputs(), "image_view": torch.tensor([0, 0, 1, 0])}  # no lateral image
    model(**inputs).loss.backward()
    without = [name for name, weight in model.named_parameters() if weight.requires_grad and weight.grad is None]
    assert without == []
    lateral = model.model.branches.by_view["LAT"]
    assert not any(weight.grad.any() for weight in lateral.parameters())
    features = model.encode(*(inputs[name] for name in IMAGES)).view_features
    assert not features[:, 2].any()
    calls = []
    lateral.register_forward_hook(lambda *_: calls.append(1))
    model.eval()(**inputs)
    assert calls == []  # answering does not pay for it


def test_prefix_is_token_block_token_block_token_block_question(model):
    inputs = make_inputs(labels=False)
    embeds, mask = model.prepare_language_inputs(**inputs)
    features = model.encode(*(inputs[name] for name in IMAGES)).view_features
    rows = model.prefix_embeddings.weight
    for view in range(3):
        torch.testing.assert_close(embeds[:, 5 * view], rows[view].expand(2, -1))
        torch.testing.assert_close(embeds[:, 5 * view + 1 : 5 * view + 5], features[:, view])
    torch.testing.assert_close(embeds[:, 15], rows[3].expand(2, -1))
    torch.testing.assert_close(embeds[:, 16:], model.language_model.shared(inputs["input_ids"]))
    assert mask[:, :16].all()  # missing views too, as released
    assert torch.equal(mask[:, 16:], inputs["attention_mask"])


def test_missing_views_are_masked_when_asked():
    model = make_model(mask_missing_views=True)
    mask = model.prepare_language_inputs(**make_inputs(labels=False))[1]
    assert mask[0, :16].tolist() == [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]  # study 0 has no PA
    assert mask[1, :16].tolist() == [1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1]  # study 1 has only PA


@pytest.mark.parametrize("view", [0, 1, 2])
def test_one_view_equals_plain_blip2_with_its_block_in_that_slot(tmp_path, view):
    image, token, nothing = 500, (501, 502, 503, 504), 505
    tiny = Blip2MultiViewConfig.tiny()
    config = Blip2Config(
        vision_config=tiny.vision_config,
        qformer_config=tiny.qformer_config,
        text_config=tiny.text_config,
        num_query_tokens=4,
        image_token_index=image,
    )
    torch.manual_seed(view)
    plain = make_lively(Blip2ForConditionalGeneration(config))
    plain.query_tokens.data.normal_()
    plain.language_model.shared.weight.data[nothing] = 0
    plain.save_pretrained(tmp_path)
    ours = Blip2MultiViewForConditionalGeneration.from_blip2(str(tmp_path))
    ours.prefix_embeddings.weight.data = plain.language_model.shared.weight.data[list(token)].clone()

    question, pixels = torch.tensor([17, 30, 99, 1]), torch.randn(1, 3, 28, 28)
    blocks = [[token[slot], *[image if slot == view else nothing] * 4] for slot in range(3)]
    ids = torch.cat([torch.tensor(sum(blocks, [])), torch.tensor(token[3:]), question])[None]
    labels = torch.tensor([[40, 50, 1]])
    with torch.no_grad():
        expected = plain.double()(pixel_values=pixels, input_ids=ids, labels=labels)
        found = ours.double()(
            pixel_values=pixels,
            num_images=torch.tensor([1]),
            image_view=torch.tensor([view]),
            input_ids=question[None],
            labels=labels,
        )
    torch.testing.assert_close(found.logits, expected.logits)
    torch.testing.assert_close(found.loss, expected.loss)


def test_images_and_views_change_the_answer(model):
    inputs = make_inputs(labels=False)
    answer = model.generate(**inputs, max_new_tokens=8)
    brighter = model.generate(**{**inputs, "pixel_values": inputs["pixel_values"] * 2 + 1}, max_new_tokens=8)
    swapped = model.generate(**{**inputs, "image_view": 2 - IMAGE_VIEW}, max_new_tokens=8)
    assert not torch.equal(answer, brighter)
    assert not torch.equal(answer, swapped)


def alone(inputs: dict[str, torch.Tensor], row: int) -> dict[str, torch.Tensor]:
    """The inputs of one question, without the others and without padding."""
    chosen = row == IMAGE_STUDY
    length = int(inputs["attention_mask"][row].sum())
    labels = inputs["labels"][row]
    return {
        "pixel_values": inputs["pixel_values"][chosen],
        "num_images": NUM_IMAGES[row : row + 1],
        "image_view": inputs["image_view"][chosen],
        "input_ids": inputs["input_ids"][row : row + 1, :length],
        "labels": labels[labels != -100][None],
    }


def test_batch_and_padding_change_neither_loss_nor_answer(model):
    inputs = make_inputs()
    together = model(**inputs)
    singles = [model(**alone(inputs, row)) for row in (0, 1)]
    tokens = [6, 4]
    expected = sum(single.loss * count for single, count in zip(singles, tokens, strict=True)) / sum(tokens)
    torch.testing.assert_close(together.loss, expected)
    for row, single in enumerate(singles):
        torch.testing.assert_close(together.logits[row, : tokens[row]], single.logits[0])
    answers = model.generate(**{k: v for k, v in inputs.items() if k != "labels"}, max_new_tokens=8)
    for row in (0, 1):
        single = {k: v for k, v in alone(inputs, row).items() if k != "labels"}
        assert torch.equal(model.generate(**single, max_new_tokens=8)[0], answers[row])


def test_images_in_any_order_give_the_same_features(model):
    inputs = make_inputs()
    order = torch.tensor([2, 0, 1, 3])  # within the first study
    shuffled = model.encode(inputs["pixel_values"][order], NUM_IMAGES, IMAGE_VIEW[order])
    torch.testing.assert_close(shuffled.view_features, model.encode(*(inputs[name] for name in IMAGES)).view_features)


def test_generation_config_is_completed_by_the_model_s_own():
    model, inputs = make_model(), make_inputs(labels=False)
    model.generation_config.eos_token_id = None  # so that only the limit ends an answer
    model.language_model.generation_config.eos_token_id = None
    model.generation_config.max_new_tokens = 25  # transformers' own limit is 20
    beams = model.generate(**inputs, num_beams=2)
    assert beams.shape[1] == 26
    assert torch.equal(model.generate(**inputs, generation_config=GenerationConfig(num_beams=2)), beams)
    first = beams[0, 1].item()
    model.generation_config.update(suppress_tokens=[first])
    given = GenerationConfig(max_new_tokens=5)
    found = model.generate(**inputs, generation_config=given, num_beams=2)
    assert found.shape[1] == 6
    assert first not in found
    assert given.suppress_tokens is None  # what the caller holds stays as it is


@pytest.mark.parametrize("form", ["setting", "configuration"])
def test_length_that_is_asked_for_is_not_overruled(form):
    model, inputs = make_model(), make_inputs(labels=False)
    model.generation_config.eos_token_id = model.language_model.generation_config.eos_token_id = None
    settings = {"max_length": 7} if form == "setting" else {"generation_config": GenerationConfig(max_length=7)}
    assert model.generate(**inputs, **settings).shape[1] == 7


def test_questions_grouped_by_study_equal_questions_one_by_one(model):
    inputs = make_inputs()
    study_index = torch.tensor([1, 0, 1, 0])
    ids = torch.randint(3, 500, (4, 7), generator=torch.Generator().manual_seed(5))
    labels = torch.randint(3, 500, (4, 5), generator=torch.Generator().manual_seed(6))
    images = {name: inputs[name] for name in IMAGES}
    encoded = model.encode(**images)
    for source in (images, {"encoder_outputs": encoded}):
        grouped = model(**source, input_ids=ids, labels=labels, study_index=study_index)
        answers = model.generate(**source, input_ids=ids, study_index=study_index, max_new_tokens=8)
        for row, study in enumerate(study_index):
            chosen = study == IMAGE_STUDY
            own = {name: inputs[name][chosen] for name in ("pixel_values", "image_view")}
            own["num_images"] = NUM_IMAGES[study : study + 1]
            single = model(**own, input_ids=ids[row : row + 1], labels=labels[row : row + 1])
            torch.testing.assert_close(grouped.logits[row], single.logits[0])
            answer = model.generate(**own, input_ids=ids[row : row + 1], max_new_tokens=8)
            assert torch.equal(answer[0], answers[row])


def test_one_vision_call_and_one_qformer_call_per_view(model):
    calls = []
    parts = {"vision": model.model.vision_model}
    parts |= {view: branch.qformer for view, branch in model.model.branches.by_view.items()}
    hooks = [
        part.register_forward_hook(lambda *_, name=name: calls.append(name), with_kwargs=True)
        for name, part in parts.items()
    ]
    model(**make_inputs())
    for hook in hooks:
        hook.remove()
    assert sorted(calls) == ["AP", "LAT", "PA", "vision"]


def test_summed_loss_is_divided_by_the_tokens_of_the_whole_step(model):
    inputs = make_inputs()
    mean = model(**inputs).loss
    torch.testing.assert_close(model(**inputs, num_items_in_batch=40).loss, mean * 10 / 40)


def test_exactly_the_branches_and_the_four_rows_are_trained():
    model = make_model()
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    branch = model.model.branches.by_view["AP"]
    expected = {"prefix_embeddings.weight"}
    for view in ("AP", "PA", "LAT"):
        place = f"model.branches.by_view.{view}"
        expected |= {f"{place}.query_tokens", f"{place}.projection.weight", f"{place}.projection.bias"}
        expected |= {f"{place}.qformer.{name}" for name, _ in branch.qformer.named_parameters()}
    assert trained == expected
    assert model.prefix_embeddings.weight.shape[0] == 4

    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(**make_inputs()).loss.backward()
    optimizer.step()
    moved = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert moved <= expected
    for view in ("AP", "PA", "LAT"):
        for part in ("qformer", "query_tokens", "projection"):
            assert any(f"{view}.{part}" in name for name in moved), (view, part)
    changed = (model.prefix_embeddings.weight != before["prefix_embeddings.weight"]).any(dim=1)
    assert changed.tolist() == [True] * 4


def test_gradient_checkpointing_gives_the_same_loss():
    config = Blip2MultiViewConfig.tiny()
    config.text_config.dropout_rate = 0.0
    config.qformer_config.hidden_dropout_prob = config.qformer_config.attention_probs_dropout_prob = 0.0
    model = make_model(text_config=config.text_config, qformer_config=config.qformer_config).train()
    inputs = make_inputs()
    expected = model(**inputs).loss
    expected.backward()
    gradient = model.model.branches.by_view["LAT"].query_tokens.grad.clone()
    model.zero_grad()
    model.activation_checkpointing_enable()
    assert model.is_activation_checkpointing
    loss = model(**inputs).loss
    loss.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(model.model.branches.by_view["LAT"].query_tokens.grad, gradient, rtol=1e-4, atol=1e-4)


def test_base_has_the_paper_s_sizes_without_memory():
    config = Blip2MultiViewConfig.base()
    with torch.device("meta"):
        model = Blip2MultiViewForConditionalGeneration(config)
    assert model.model.vision_model.config.num_hidden_layers == 39
    branch = model.model.branches.by_view["PA"]
    assert tuple(branch.query_tokens.shape) == (1, 32, 768)
    assert tuple(branch.projection.weight.shape) == (2048, 768)
    parts = {"vision_config": config.vision_config, "qformer_config": config.qformer_config}
    with torch.device("meta"):
        plain = Blip2ForConditionalGeneration(Blip2Config(**parts, text_config=config.text_config))
    one = sum(weight.numel() for weight in branch.parameters())
    assert model.num_parameters() == plain.num_parameters() + 2 * one + 4 * 2048
    assert 4.0e9 < model.num_parameters() < 4.2e9
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert trained == 3 * one + 4 * 2048


def change(**changes):
    return lambda inputs: {**inputs, **{k: v(inputs) if callable(v) else v for k, v in changes.items()}}


BAD = {
    "no image": (change(**{name: (lambda inputs, name=name: inputs[name][:0]) for name in IMAGES}), "num_images .*0"),
    "wrong image size": (change(pixel_values=torch.zeros(4, 3, 30, 30)), "3, 28, 28"),
    "wrong number of images": (change(image_view=torch.tensor([0, 1])), r"image_view .*\(4,\)"),
    "unknown view": (change(image_view=torch.tensor([0, 3, 2, 1])), "image_view has 3.*0 to 2"),
    "too few images": (change(num_images=torch.tensor([1, 1])), r"num_images is \[1, 1\] for 4 images"),
    "study without image": (change(num_images=torch.tensor([4, 0])), r"Studies \[1\]"),
    "images of one study for two questions": (change(num_images=torch.tensor([4])), "study_index"),
    "study_index out of range": (change(study_index=torch.tensor([0, 2])), "study_index has 2.*0 to 1"),
    "study_index too short": (change(study_index=torch.tensor([0])), r"study_index .*\(2,\)"),
    "study_index as flags": (change(study_index=torch.tensor([True, False])), "torch.bool"),
    "token out of vocabulary": (change(input_ids=torch.full((2, 9), 512)), "input_ids has 512.*0 to 511.*processor"),
    "label out of vocabulary": (change(labels=torch.full((2, 3), 600)), "labels has 600"),
    "labels too long": (change(labels=torch.ones(2, 257, dtype=torch.long)), "257 tokens.*256"),
    "labels of another batch": (change(labels=torch.ones(3, 4, dtype=torch.long)), r"\(2, tokens\)"),
    "neither labels nor decoder ids": (change(labels=None), "labels .*decoder_input_ids"),
    "padding on the left": (change(attention_mask=torch.tensor([[1] * 9, [0] + [1] * 8])), "right"),
    "images without views": (change(image_view=None), "num_images.*image_view"),
    "neither images nor features": (change(pixel_values=None), "either pixel_values"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_was_passed_and_what_is_allowed(model, case):
    edit, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        model(**edit(make_inputs()))


def test_misspelt_arguments_are_type_errors(model):
    with pytest.raises(TypeError, match="study_idx"):
        model(**make_inputs(), study_idx=torch.tensor([1, 0]))


def test_left_padding_is_refused_by_generate_too(model):
    inputs = make_inputs(labels=False)
    with pytest.raises(ValueError, match="right"):
        model.generate(**{name: inputs[name].flip(1) if "mask" in name else inputs[name] for name in inputs})


def test_features_of_other_studies_are_refused(model):
    inputs = make_inputs()
    encoded = model.encode(*(inputs[name] for name in IMAGES))
    with pytest.raises(ValueError, match="3 questions and 2 studies.*study_index"):
        model(input_ids=torch.full((3, 4), 9), encoder_outputs=encoded)


def test_decoder_only_language_model_is_refused():
    with pytest.raises(ValueError, match="'opt'"):
        Blip2MultiViewConfig(text_config={"model_type": "opt"})
