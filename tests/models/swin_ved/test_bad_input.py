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
    "no images": ({"pixel_values": None}, ValueError, "pixel_values.*encoder_outputs"),
    "four images": ({"pixel_values": torch.zeros(2, 4, 3, 64, 64)}, ValueError, "4 images.*1 to 3"),
    "pixels of another size": ({"pixel_values": torch.zeros(2, 1, 3, 32, 32)}, ValueError, "3, 64, 64"),
    "mask of another shape": ({"image_mask": torch.ones(2, 2)}, ValueError, r"image_mask.*\(2, 2\)"),
    "study without image": ({"image_mask": torch.tensor([[1, 0, 0], [0, 0, 0]])}, ValueError, r"\[1\]"),
    "study_index too high": ({"study_index": torch.tensor([0, 2])}, ValueError, r"\[0, 2\].*0 to 1"),
    "study_index negative": ({"study_index": torch.tensor([-1, 0])}, ValueError, r"\[-1, 0\].*0 to 1"),
    "study_index too short": ({"study_index": torch.tensor([0])}, ValueError, r"\[0\].*2 numbers"),
    "studies and questions": ({"pixel_values": studies(3)}, ValueError, "2 questions and 3 studies.*study_index"),
    "ids beyond the vocabulary": ({"input_ids": torch.full((2, 6), 50)}, ValueError, "50.*0 to 49.*processor"),
    "negative ids": ({"input_ids": torch.full((2, 6), -100)}, ValueError, "-100"),
    "a typo": ({"image_maks": torch.ones(2, 3)}, TypeError, "image_maks"),
    "too many tokens": (
        {"input_ids": torch.full((2, 600), 9), "attention_mask": None}, ValueError, "599.*0 to 511.*max_new_tokens",
    ),
    "another cache": (
        {"past_key_values": EncoderDecoderCache(DynamicCache(), DynamicCache())}, TypeError, "StudyCache",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "text"), MODEL_CASES.values(), ids=MODEL_CASES)
def test_model_refuses(model, changes, error, text):
    with pytest.raises(error, match=text):
        model(**arguments(**changes))


@pytest.mark.parametrize(
    "name",
    ["no images", "four images", "study without image", "study_index too high"],
)
def test_generate_refuses_the_same(model, name):
    changes, error, text = MODEL_CASES[name]
    with pytest.raises(error, match=text):
        model.generate(**arguments(**changes))


def test_pixels_and_features_together_are_refused(model):
    with pytest.raises(ValueError, match="pixel_values .*encoder_outputs"):
        model(**arguments(), encoder_outputs=model.encode(studies(2)))


def test_generate_without_a_prompt_or_with_a_typo_is_refused(model):
    with pytest.raises(ValueError, match=r"needs input_ids.*processor"):
        model.generate(pixel_values=studies(1))
    with pytest.raises(ValueError, match="image_maks"):
        model.generate(**arguments(), image_maks=torch.ones(2, 3))


def test_generate_refuses_a_batch_that_holds_its_answers(model, processor):
    batch = processor(text=["edema", "is there edema"], answers=["no", "yes no"])
    text = "without answers="
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
    with pytest.raises(ValueError, match=r"\[0\].*left"):
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
        with pytest.raises(ValueError, match="5 tokens.*answer_position, 4"):
            call(long, pixel_values=studies(1))
    tokenizer = train_tokenizer(TEXTS)
    config = SwinVedConfig.tiny(vocab_size=len(tokenizer), answer_position=20)
    SwinVedProcessor.from_config(config, tokenizer, max_question_tokens=20)
    with pytest.raises(ValueError, match="max_question_tokens 21.* 20"):
        SwinVedProcessor.from_config(config, tokenizer, max_question_tokens=21)


PROCESSOR_CASES = {
    "nothing": ({}, ValueError, "images, text"),
    "no study": ({"images": []}, ValueError, "images is empty"),
    "study without image": ({"images": [[IMAGE], []]}, ValueError, "Study 1"),
    "four images": ({"images": [[IMAGE] * 4]}, ValueError, "Study 0 .*truncate_images=True"),
    "a path": ({"images": [["a.jpg"]]}, TypeError, "image 0 of study 0 is the path 'a.jpg'.*image_root"),
    "mixed": ({"images": [[IMAGE], IMAGE]}, TypeError, "list of lists"),
    "zero-size array": ({"images": [np.zeros((0, 5), np.uint8)]}, ValueError, r"\(0, 5\)"),
    "zero-size image": ({"images": [Image.new("L", (0, 5))]}, ValueError, "0 x 5 pixels"),
    "mode I": ({"images": [[IMAGE, IMAGE.convert("I")]]}, ValueError, "image 1 of study 0 .*'I'.*8 or 16 bits"),
    "float array": ({"images": [np.zeros((5, 5))]}, ValueError, "float64.*uint8"),
    "four channels": ({"images": [np.zeros((5, 5, 4), np.uint8)]}, ValueError, r"\(5, 5, 4\)"),
    "empty question": ({"text": ["edema", "  "]}, ValueError, "question 1 is '  '"),
    "no question": ({"text": []}, ValueError, "questions is empty"),
    "number as question": ({"text": [7]}, TypeError, "question 0 is a int"),
    "answers missing": ({"text": ["edema", "no"], "answers": ["no"]}, ValueError, "2 questions and 1 answers"),
    "answers alone": ({"images": [IMAGE], "answers": ["no"]}, ValueError, "answers .*without text"),
    "unclear studies": ({"images": [[IMAGE]] * 2, "text": ["no"] * 3}, ValueError, "3 questions .*study_index"),
    "index too high": ({"images": [IMAGE], "text": ["no"], "study_index": [1]}, ValueError, r"\[1\].*0 to 0"),
    "index too short": ({"images": [IMAGE], "text": ["no"] * 2, "study_index": [0]}, ValueError, r"\(1,\)"),
    "float index": ({"text": ["no"], "study_index": [0.5]}, ValueError, "torch.float32"),
    "negative index": ({"text": ["no"], "study_index": [-1]}, ValueError, r"\[-1\].*0 and above"),
    "index without text": ({"images": [IMAGE], "study_index": [0]}, ValueError, "study_index .*without text"),
    "bfloat16 tensor": ({"images": [torch.zeros(5, 5, dtype=torch.bfloat16)]}, ValueError, "bfloat16"),
    "unknown argument": ({"text": ["no"], "truncation": True}, TypeError, "truncation"),
    "other padding": ({"text": ["no"], "padding": "max_length"}, ValueError, "'max_length'"),
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
    with pytest.raises(OSError, match="image 1 of study 1"):
        processor(images=[[IMAGE], [IMAGE, damaged]])


@pytest.mark.parametrize(("name", "value"), [("max_images", 0), ("max_question_tokens", 1), ("max_answer_tokens", 0)])
def test_processor_settings_that_cannot_work_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        SwinVedProcessor(train_tokenizer(TEXTS), **{name: value})


def test_tokenizers_without_the_special_tokens_are_refused():
    tokenizer = train_tokenizer(TEXTS)
    tokenizer.bos_token = tokenizer.cls_token = None
    with pytest.raises(ValueError, match="cls_token, bos_token.*train_tokenizer"):
        SwinVedProcessor(tokenizer)
    with pytest.raises(TypeError, match="string"):
        train_tokenizer("Is there edema?")


def test_tokenizer_and_model_that_do_not_belong_together_are_refused():
    tokenizer = train_tokenizer(TEXTS)
    with pytest.raises(ValueError, match=rf"vocabulary size {len(tokenizer)}, the model's 999"):
        SwinVedProcessor.from_config(SwinVedConfig.tiny(vocab_size=999), tokenizer)
    config = SwinVedConfig.tiny(vocab_size=len(tokenizer))
    processor = SwinVedProcessor(tokenizer, image_size=32, max_images=5, max_answer_tokens=600)
    with pytest.raises(ValueError, match="image size 32.* 64; max_images 5, .*665.* 512"):
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
    with pytest.raises(ValueError, match=rf"window_size is {side + 1}.*at most {side}\."):
        config(side + 1)
    fits.encoder.window_size = side + 1
    with pytest.raises(RuntimeError, match="size of tensor"):  # once transformers takes it, the check can go
        SwinModel(fits.encoder)(pixels)


def test_configurations_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="768 .*1024 "):
        SwinVedConfig(encoder=SwinConfig(), decoder=BertGenerationConfig())
    with pytest.raises(ValueError, match="max_images is 0"):
        SwinVedConfig.tiny(max_images=0)
    with pytest.raises(ValueError, match="answer_position is 512"):
        SwinVedConfig.tiny(answer_position=512)
    with pytest.raises(ValueError, match="encoder.image_size"):
        SwinVedConfig(encoder=SwinConfig(image_size=(64, 64)), decoder=BertGenerationConfig(hidden_size=768))
    with pytest.raises(ValueError, match="num_channels is 1"):
        SwinVedConfig(encoder=SwinConfig(num_channels=1), decoder=BertGenerationConfig(hidden_size=768))
    with pytest.raises(ValueError, match="64 and resize_size 60"):
        SwinVedProcessor(train_tokenizer(TEXTS), image_size=64, resize_size=60)
