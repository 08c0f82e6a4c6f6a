"""SwinVED's answers: the same with and without the cache, alone and in company, grouped by study or not."""

import pytest
import torch
from swin_ved.attention_swin_ved import StudyCache
from swin_ved_tiny import exact_model, pad, questions, studies, tiny_model
from transformers import GenerationConfig

WAYS = {
    "greedy": {},
    "beam": {"num_beams": 3},
    "several beams": {"num_beams": 4, "num_return_sequences": 2},
    "length penalty": {"num_beams": 2, "length_penalty": 2.0},
}
INDEX = torch.tensor([1, 0, 1, 1])
IMAGE_MASK = torch.tensor([[1, 0, 0], [1, 1, 1]])


@pytest.fixture(scope="module", params=[None, 64], ids=["contiguous", "released positions"])
def model(request):
    return tiny_model(answer_position=request.param)


def answers(model, **arguments) -> list[list[int]]:
    """New tokens up to [EOS] of every row."""
    prompt = arguments["input_ids"].shape[1]
    rows = model.generate(max_new_tokens=12, **arguments)[:, prompt:].tolist()
    return [row[: row.index(6)] if 6 in row else row for row in rows]


def grouped() -> dict:
    input_ids, mask = pad(questions(), left=True)
    return {
        "input_ids": input_ids, "attention_mask": mask, "study_index": INDEX,
        "pixel_values": studies(2), "image_mask": IMAGE_MASK,
    }  # fmt: skip


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_tokens_do_not_depend_on_cache_company_padding_or_grouping(model, way):
    together = answers(model, **grouped(), **way)
    assert len({tuple(row) for row in together}) >= 4  # the four questions are answered differently
    assert answers(model, **grouped(), **way, use_cache=False) == together
    alone = []
    for prompt, study in zip(questions(), INDEX.tolist(), strict=True):
        images = {"pixel_values": studies(2)[[study]], "image_mask": IMAGE_MASK[[study]]}
        alone += answers(model, input_ids=prompt[None], **images, **way)
    assert alone == together


def test_images_are_encoded_once_whatever_the_beams_and_questions(model):
    encoded = []
    hook = model.model.encoder.register_forward_pre_hook(lambda module, args: encoded.append(len(args[0])))
    answers(model, **grouped(), num_beams=3)
    hook.remove()
    assert encoded == [4]  # one call: one image of study 0 and three of study 1
    arguments = grouped()
    pixels, mask = arguments.pop("pixel_values"), arguments.pop("image_mask")
    encoder_outputs = model.encode(pixels, mask)
    again = answers(model, encoder_outputs=encoder_outputs, **arguments, num_beams=3)
    assert again == answers(model, **grouped(), num_beams=3)


def test_cache_keeps_images_per_study_and_words_per_question(model):
    input_ids, mask = pad(questions(), left=True)
    outputs = model(input_ids, mask, pixel_values=studies(2), study_index=INDEX, use_cache=True)
    cache = outputs.past_key_values
    assert cache.cross_attention_cache.layers[0].keys.shape[:3] == (2, 4, 48)
    assert cache.self_attention_cache.layers[0].keys.shape[:3] == (4, 4, 7)
    before = cache.self_attention_cache.layers[1].values.clone()
    images = cache.cross_attention_cache.layers[1].values.clone()
    order = torch.tensor([0, 0, 3, 2])
    cache.reorder_cache(order)
    assert torch.equal(cache.self_attention_cache.layers[1].values, before[order])
    assert torch.equal(cache.cross_attention_cache.layers[1].values, images)


def test_cached_steps_score_as_one_pass_does():
    model = exact_model()
    prompts, mask = pad(questions(), left=True)
    answer = torch.randint(7, 50, (4, 3), generator=torch.Generator().manual_seed(5))
    whole_ids, whole_mask = torch.cat([prompts, answer], 1), torch.cat([mask, torch.ones_like(answer)], 1)
    encoded = model.encode(studies(2))
    whole = model(whole_ids, whole_mask, encoder_outputs=encoded, study_index=INDEX).logits[:, -3:]
    cache, positions = StudyCache(), model._positions(whole_ids, whole_mask, 0)
    model(prompts, mask, encoder_outputs=encoded, study_index=INDEX, past_key_values=cache)
    for step in range(3):
        end = prompts.shape[1] + step + 1
        outputs = model(
            answer[:, step : step + 1], whole_mask[:, :end], encoder_outputs=encoded, study_index=INDEX,
            past_key_values=cache, position_ids=positions[:, end - 1 : end],
        )  # fmt: skip
        torch.testing.assert_close(outputs.logits[:, 0], whole[:, step], atol=1e-10, rtol=1e-10)


def test_a_cache_changes_no_positions(model):
    """An empty one, and one with all but the last token, as a conversation that goes on has it."""
    arguments = {**grouped(), "min_new_tokens": 10, "max_new_tokens": 10}
    whole = model.generate(**arguments)
    assert torch.equal(model.generate(**arguments, past_key_values=StudyCache()), whole)
    begun = model.generate(**{**arguments, "min_new_tokens": 4, "max_new_tokens": 4}, return_dict_in_generate=True)
    arguments["input_ids"] = begun.sequences
    arguments["attention_mask"] = torch.cat([arguments["attention_mask"], torch.ones(4, 4, dtype=torch.long)], 1)
    rest = {"min_new_tokens": 6, "max_new_tokens": 6, "past_key_values": begun.past_key_values}
    assert torch.equal(model.generate(**{**arguments, **rest}), whole)


def test_new_tokens_alone_do_not_tell_where_the_answer_began():
    model = tiny_model(answer_position=64)
    begun = model.generate(**grouped(), min_new_tokens=4, max_new_tokens=4, return_dict_in_generate=True)
    arguments = {**grouped(), "input_ids": begun.sequences[:, -1:], "attention_mask": torch.ones(4, 1)}
    with pytest.raises(ValueError, match="pass position_ids"):
        model.generate(**arguments, past_key_values=begun.past_key_values, max_new_tokens=2)


def test_a_cache_that_is_reset_takes_other_studies():
    model = exact_model()
    input_ids, mask = pad(questions(), left=True)
    cache = model(input_ids, mask, pixel_values=studies(2), study_index=INDEX, use_cache=True).past_key_values
    cache.reset()
    assert cache.study_fold is None
    other = {"pixel_values": studies(2, seed=8), "study_index": 1 - INDEX}
    logits = model(input_ids, mask, past_key_values=cache, **other).logits
    torch.testing.assert_close(logits, model(input_ids, mask, **other).logits)


def test_a_cache_follows_another_study_index(model):
    """The next token of each question, asked about the other study."""
    input_ids, mask = pad(questions((3, 3)), left=True)
    encoded, index, token = model.encode(studies(2)), torch.tensor([0, 1]), torch.tensor([[9], [10]])
    more = {"attention_mask": torch.ones(2, 6, dtype=torch.long), "position_ids": torch.full((2, 1), 9)}
    logits = []
    for following in (index, index.flip(0)):
        cache = model(input_ids, mask, encoder_outputs=encoded, study_index=index, use_cache=True).past_key_values
        arguments = {"encoder_outputs": encoded, "study_index": following, "past_key_values": cache}
        logits.append(model(token, **more, **arguments).logits)
    assert (logits[0] - logits[1]).abs().max() > 0.01


@pytest.mark.parametrize("answer_position", [None, 64])
def test_sampled_tokens_come_from_the_distribution_that_forward_gives(answer_position):
    """What self-critical training needs: raw scores while sampling equal those of one pass over the sample."""
    model = exact_model(answer_position=answer_position)
    torch.manual_seed(3)
    arguments = grouped()
    outputs = model.generate(
        **arguments, do_sample=True, top_k=0, num_return_sequences=2, min_new_tokens=6, max_new_tokens=6,
        output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    assert outputs.sequences.shape == (8, 7 + 6)
    sampled = outputs.sequences[:, 7:]
    assert not torch.equal(sampled[0::2], sampled[1::2])
    mask = torch.cat([arguments["attention_mask"].repeat_interleave(2, 0), torch.ones_like(sampled)], 1)
    forward = model(
        outputs.sequences, mask, pixel_values=arguments["pixel_values"], image_mask=IMAGE_MASK,
        study_index=INDEX.repeat_interleave(2),
    ).logits[:, 6:-1]  # fmt: skip
    raw = torch.stack(outputs.logits, 1)
    # `generate` keeps its scores in float32.
    torch.testing.assert_close(raw.double(), forward, atol=1e-10, rtol=2**-23)


@pytest.mark.parametrize("by_config", [True, False])
def test_max_length_takes_the_place_of_the_default_length(model, by_config):
    arguments = grouped()
    length = {"generation_config": GenerationConfig(max_length=12)} if by_config else {"max_length": 12}
    assert model.generate(**arguments, **length, min_new_tokens=5).shape == (4, 12)
    both = model.generate(**arguments, max_length=12, max_new_tokens=3, min_new_tokens=3)
    assert both.shape == (4, 7 + 3)
    assert model.generation_config.max_new_tokens == 128


def test_running_out_of_positions_is_an_error(model):
    with pytest.raises(ValueError, match=r"positions 0 to 511.*max_new_tokens"):
        model.generate(questions((3,))[0][None], pixel_values=studies(1), max_new_tokens=600, min_new_tokens=600)
