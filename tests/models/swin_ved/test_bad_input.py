"""Wrong input to SwinVED: the error names what was passed, what is allowed and what to do."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from swin_ved import SwinVedConfig, SwinVedProcessor, train_tokenizer
from swin_ved_tiny import TEXTS, pad, questions, studies, tiny_model, tiny_processor
from transformers import BertGenerationConfig, DynamicCache, EncoderDecoderCache, SwinConfig, SwinModel

IMAGE = Image.new("L", (70, 70))


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture(scope="module")
def processor():
    return tiny_processor()[0]


def arguments(**changes) -> dict:
    input_ids, mask = pad(questions((3, 4)), left=True)
    given = {"input_ids": input_ids, "attention_mask": mask, "pixel_values": studies(2), **changes}
    return {name: value for name, value in given.items() if value is not None}


MODEL_CASES = {
    "no images": ({"pixel_values": None}, ValueError, "no images: pass pixel_values, or encoder_outputs"),
    "four images": ({"pixel_values": torch.zeros(2, 4, 3, 64, 64)}, ValueError, "4 images per study; allowed are 1"),
    "zero images": ({"pixel_values": torch.zeros(2, 0, 3, 64, 64)}, ValueError, "0 images per study"),
    "pixels of another size": ({"pixel_values": torch.zeros(2, 1, 3, 32, 32)}, ValueError, r"\(studies, images, 3, 64"),
    "flat pixels": ({"pixel_values": torch.zeros(2, 3, 64, 64)}, ValueError, r"shape \(2, 3, 64, 64\)"),
    "mask of another shape": ({"image_mask": torch.ones(2, 2)}, ValueError, r"image_mask has shape \(2, 2\)"),
    "study without image": ({"image_mask": torch.tensor([[1, 0, 0], [0, 0, 0]])}, ValueError, r"studies \[1\] without"),
    "study_index too high": ({"study_index": torch.tensor([0, 2])}, ValueError, r"holds \[2\]; allowed are 0 to 1"),
    "study_index negative": ({"study_index": torch.tensor([-1, 0])}, ValueError, r"holds \[-1\]"),
    "study_index too short": ({"study_index": torch.tensor([0])}, ValueError, r"study_index has shape \(1,\)"),
    "studies and questions": ({"pixel_values": studies(3)}, ValueError, "2 questions and 3 studies: pass study_index"),
    "ids beyond the vocabulary": ({"input_ids": torch.full((2, 6), 50)}, ValueError, "token 50.*0 to 49.*tokenizer"),
    "negative ids": ({"input_ids": torch.full((2, 6), -100)}, ValueError, "token -100"),
    "no tokens": ({"input_ids": torch.zeros(2, 0, dtype=torch.long)}, ValueError, r"input_ids has shape \(2, 0\)"),
    "mask of another length": ({"attention_mask": torch.ones(2, 5)}, ValueError, r"attention_mask has shape \(2, 5\)"),
    "longer labels": ({"labels": torch.zeros(2, 9, dtype=torch.long)}, ValueError, r"labels has shape \(2, 9\)"),
    "four-dimensional labels": (
        {"labels": torch.zeros(2, 1, 1, 1, dtype=torch.long)}, ValueError, r"labels has shape \(2, 1, 1, 1\)",
    ),
    "labels beyond the vocabulary": (
        {"labels": torch.tensor([[50, 7, -100, -1, 7, 7]] * 2)},
        ValueError, r"labels holds \[-1, 50\]; .* 0 to 49, and -100",
    ),
    "ids as floats": ({"input_ids": torch.zeros(2, 6)}, TypeError, "input_ids is a tensor of torch.float32"),
    "study_index as list": ({"study_index": [0, 1]}, TypeError, "study_index is a list; expected a tensor of integers"),
    "study_index as floats": ({"study_index": torch.tensor([0.0, 1.0])}, TypeError, "a tensor of torch.float32"),
    "study_index as mask": ({"study_index": torch.tensor([True, False])}, TypeError, "tensor of torch.bool"),
    "a typo": ({"image_maks": torch.ones(2, 3)}, TypeError, r"unknown arguments \['image_maks'\]"),
    "too many tokens": (
        {"input_ids": torch.full((2, 600), 9), "attention_mask": None}, ValueError, "position 599.*0 to 511",
    ),
    "bare features": (
        {"pixel_values": None, "encoder_outputs": torch.zeros(2, 48, 128)}, TypeError, "is a Tensor.*model.encode",
    ),
    "another cache": (
        {"past_key_values": EncoderDecoderCache(DynamicCache(), DynamicCache())},
        TypeError, "is a EncoderDecoderCache; expected a StudyCache",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "text"), MODEL_CASES.values(), ids=MODEL_CASES)
def test_model_refuses(model, changes, error, text):
    with pytest.raises(error, match=text):
        model(**arguments(**changes))


@pytest.mark.parametrize(
    "name",
    ["no images", "four images", "study without image", "study_index too high", "study_index as list", "bare features"],
)
def test_generate_refuses_the_same(model, name):
    changes, error, text = MODEL_CASES[name]
    with pytest.raises(error, match=text):
        model.generate(**arguments(**changes))


def test_pixels_and_features_together_are_refused(model):
    with pytest.raises(ValueError, match="either pixel_values .* not both"):
        model(**arguments(), encoder_outputs=model.encode(studies(2)))


def test_generate_without_a_prompt_or_with_a_typo_is_refused(model):
    with pytest.raises(ValueError, match=r"needs input_ids.*processor"):
        model.generate(pixel_values=studies(1))
    with pytest.raises(ValueError, match="image_maks"):
        model.generate(**arguments(), image_maks=torch.ones(2, 3))


def test_generate_refuses_a_batch_that_holds_its_answers(model, processor):
    batch = processor(text=["edema", "is there edema"], answers=["no", "yes no"])
    text = "this batch holds answers.*call the processor without answers="
    with pytest.raises(ValueError, match=text):
        model.generate(**batch, pixel_values=studies(2))
    del batch["labels"]
    with pytest.raises(ValueError, match=text):
        model.generate(**batch, pixel_values=studies(2))
    with pytest.raises(ValueError, match=text):
        model.generate(**arguments(), labels=arguments()["input_ids"])


@pytest.mark.parametrize("masked", [True, False])
def test_generate_refuses_prompts_padded_on_the_right(model, masked):
    input_ids, mask = pad(questions((3, 4)), left=False)
    changes = {"input_ids": input_ids, "attention_mask": mask if masked else None}
    with pytest.raises(ValueError, match=r"prompts \[0\] are padded on the right.*pad on the left"):
        model.generate(**arguments(**changes))


def test_padding_that_is_the_end_token_is_no_answer():
    """Some tokenizers pad with their end token."""
    model = tiny_model()
    input_ids, mask = pad(questions((3, 4)), left=True, value=6)
    given = arguments(input_ids=input_ids, attention_mask=mask)
    assert model.generate(**given, max_new_tokens=2).shape == (2, 8)


def test_a_question_longer_than_the_answer_position_is_refused():
    model = tiny_model(answer_position=4)
    fits, long = questions((3,))[0][None], questions((4,))[0][None]
    model(fits, pixel_values=studies(1))
    for call in (model, model.generate):
        with pytest.raises(ValueError, match="question of 5 tokens.*answer_position, 4"):
            call(long, pixel_values=studies(1))
    tokenizer = train_tokenizer(TEXTS)
    config = SwinVedConfig.tiny(vocab_size=len(tokenizer), answer_position=20)
    SwinVedProcessor.from_config(config, tokenizer, max_question_tokens=20)
    with pytest.raises(ValueError, match="max_question_tokens 21, the model's 20"):
        SwinVedProcessor.from_config(config, tokenizer, max_question_tokens=21)


PROCESSOR_CASES = {
    "nothing": ({}, ValueError, "pass images, text"),
    "no study": ({"images": []}, ValueError, "images is empty"),
    "study without image": ({"images": [[IMAGE], []]}, ValueError, "study 1 has no image; every study needs 1 to 3"),
    "four images": ({"images": [[IMAGE] * 4]}, ValueError, "study 0 has 4 images.*truncate_images=True"),
    "a path": ({"images": [["a.jpg"]]}, TypeError, "image 0 of study 0 is a str"),
    "one path": ({"images": "a.jpg"}, TypeError, "images is a str"),
    "mixed": ({"images": [[IMAGE], IMAGE]}, TypeError, "mixes studies"),
    "zero-size array": ({"images": [np.zeros((0, 5), np.uint8)]}, ValueError, r"shape \(0, 5\)"),
    "zero-size image": ({"images": [Image.new("L", (0, 5))]}, ValueError, "0 x 5 pixels"),
    "mode F": ({"images": [IMAGE.convert("F")]}, ValueError, "mode 'F'.*convert it to 8 or 16 bits"),
    "mode I": ({"images": [[IMAGE, IMAGE.convert("I")]]}, ValueError, "image 1 of study 0 has mode 'I'"),
    "float array": ({"images": [np.zeros((5, 5))]}, ValueError, "float64.*uint8"),
    "four channels": ({"images": [np.zeros((5, 5, 4), np.uint8)]}, ValueError, r"shape \(5, 5, 4\)"),
    "empty question": ({"text": ["edema", "  "]}, ValueError, "question 1 is '  ', which has no word"),
    "no question": ({"text": []}, ValueError, "no question"),
    "number as question": ({"text": [7]}, TypeError, "question 0 is a int"),
    "empty answer": ({"text": ["edema"], "answers": [""]}, ValueError, "answer 0 is ''"),
    "answers missing": ({"text": ["edema", "no"], "answers": ["no"]}, ValueError, "2 questions and 1 answers"),
    "answers alone": ({"images": [IMAGE], "answers": ["no"]}, ValueError, "answers were passed without text"),
    "unclear studies": ({"images": [[IMAGE]] * 2, "text": ["no"] * 3}, ValueError, "3 questions about 2 studies"),
    "index too high": (
        {"images": [IMAGE], "text": ["no"], "study_index": [1]},
        ValueError,
        r"\[1\]; allowed are 0 to 0",
    ),
    "index too short": ({"images": [IMAGE], "text": ["no"] * 2, "study_index": [0]}, ValueError, r"shape \(1,\)"),
    "float index": ({"images": [IMAGE], "text": ["no"], "study_index": [0.0]}, TypeError, "torch.float32 numbers"),
    "float index without images": ({"text": ["no"], "study_index": [0.5]}, TypeError, "torch.float32 numbers"),
    "negative index without images": ({"text": ["no"], "study_index": [-1]}, ValueError, r"\[-1\]; allowed are 0 and"),
    "short index without images": ({"text": ["no"] * 2, "study_index": [0]}, ValueError, r"shape \(1,\)"),
    "index without text": ({"images": [IMAGE], "study_index": [0]}, ValueError, "study_index was passed without text"),
    "bfloat16 tensor": (
        {"images": [[IMAGE, torch.zeros(5, 5, dtype=torch.bfloat16)]]},
        ValueError,
        "image 1 .*bfloat16",
    ),
    "unknown argument": ({"text": ["no"], "truncation": True}, TypeError, r"\['truncation'\]"),
    "other padding": ({"text": ["no"], "padding": "max_length"}, ValueError, "padding is 'max_length'"),
    "NumPy output": ({"text": ["no"], "return_tensors": "np"}, ValueError, "'np'"),
}


@pytest.mark.parametrize(("call", "error", "text"), PROCESSOR_CASES.values(), ids=PROCESSOR_CASES)
def test_processor_refuses(processor, call, error, text):
    with pytest.raises(error, match=text):
        processor(**call)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_damaged_file_is_named_by_study_and_image(processor, kind):
    whole = io.BytesIO()
    Image.effect_noise((90, 120), 60).save(whole, kind)
    damaged = Image.open(io.BytesIO(whole.getvalue()[: len(whole.getvalue()) // 2]))
    with pytest.raises(OSError, match="image 1 of study 1 cannot be read"):
        processor(images=[[IMAGE], [IMAGE, damaged]])


SETTINGS = {
    "no image": ({"max_images": 0}, "max_images is 0; it must be at least 1"),
    "no word in questions": ({"max_question_tokens": 1}, "max_question_tokens is 1; it must be at least 2"),
    "no word in answers": ({"max_answer_tokens": 0}, "max_answer_tokens is 0; it must be at least 2"),
    "one mean": ({"image_mean": [0.5]}, r"image_mean is \[0.5\]; expected three"),
    "no spread": ({"image_std": [0.2, 0, 0.2]}, r"image_std is \[0.2, 0, 0.2\].* above 0"),
}


@pytest.mark.parametrize(("settings", "text"), SETTINGS.values(), ids=SETTINGS)
def test_processor_settings_that_cannot_work_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        SwinVedProcessor(train_tokenizer(TEXTS), **settings)


def test_tokenizers_without_the_special_tokens_are_refused():
    tokenizer = train_tokenizer(TEXTS)
    tokenizer.bos_token = tokenizer.cls_token = None
    with pytest.raises(ValueError, match="has no cls_token, bos_token; make it with"):
        SwinVedProcessor(tokenizer)
    with pytest.raises(TypeError, match="texts is one string"):
        train_tokenizer("Is there edema?")


def test_tokenizer_and_model_that_do_not_belong_together_are_refused():
    tokenizer = train_tokenizer(TEXTS)
    with pytest.raises(ValueError, match=rf"vocabulary size {len(tokenizer)}, the model's 999"):
        SwinVedProcessor.from_config(SwinVedConfig.tiny(vocab_size=999), tokenizer)
    config = SwinVedConfig.tiny(vocab_size=len(tokenizer))
    processor = SwinVedProcessor(tokenizer, image_size=32, max_images=5, max_answer_tokens=600)
    with pytest.raises(
        ValueError, match=r"image size 32, the model's 64; max_images 5, .* 665 tokens, the model's 512"
    ):
        processor.check_config(config)
    config.decoder.bos_token_id = 2
    with pytest.raises(ValueError, match=r"\[BOS\] id 5, the model's 2"):
        SwinVedProcessor.from_config(config, tokenizer)


@pytest.mark.parametrize("image_size", [64, 60, 62])  # grids of 16, 15 and, padded, 16 places
@pytest.mark.parametrize(("stages", "side"), [(1, None), (2, 8), (3, 4)])
def test_a_window_larger_than_the_last_stage_is_refused(image_size, stages, side):
    def config(window):
        sizes = {"patch_size": 4, "embed_dim": 8, "depths": (1,) * stages, "num_heads": (1,) * stages}
        encoder = SwinConfig(image_size=image_size, window_size=window, **sizes)
        width = encoder.hidden_size
        decoder = BertGenerationConfig(hidden_size=width, num_attention_heads=1, num_hidden_layers=1, vocab_size=9)
        return SwinVedConfig(encoder=encoder, decoder=decoder)

    side = side or -(-image_size // 4)
    fits = config(side)
    pixels = torch.zeros(1, 3, image_size, image_size)
    assert SwinModel(fits.encoder)(pixels).last_hidden_state.shape[1] == fits.tokens_per_image == side**2
    with pytest.raises(ValueError, match=rf"window_size is {side + 1}, .* {side} x {side} places .* at most {side};"):
        config(side + 1)
    fits.encoder.window_size = side + 1
    with pytest.raises(RuntimeError, match="size of tensor"):  # once transformers takes it, the check can go
        SwinModel(fits.encoder)(pixels)


def test_configurations_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="768 wide and the decoder is 1024 wide"):
        SwinVedConfig(encoder=SwinConfig(), decoder=BertGenerationConfig())
    with pytest.raises(ValueError, match="max_images is 0"):
        SwinVedConfig.tiny(max_images=0)
    with pytest.raises(ValueError, match="answer_position is 512"):
        SwinVedConfig.tiny(answer_position=512)
    with pytest.raises(ValueError, match=r"encoder.image_size is [\[(]64, 64[\])].*one whole number"):
        SwinVedConfig(encoder=SwinConfig(image_size=(64, 64)), decoder=BertGenerationConfig(hidden_size=768))
    with pytest.raises(ValueError, match="num_channels is 1; it must be 3"):
        SwinVedConfig(encoder=SwinConfig(num_channels=1), decoder=BertGenerationConfig(hidden_size=768))
    with pytest.raises(ValueError, match="image_size is 64 and resize_size 60"):
        SwinVedProcessor(train_tokenizer(TEXTS), image_size=64, resize_size=60)
