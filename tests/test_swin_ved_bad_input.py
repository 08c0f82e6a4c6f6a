"""Wrong input to SwinVED: the error names what was passed, what is allowed and what to do."""

import numpy as np
import pytest
import torch
from PIL import Image
from swin_ved import SwinVedConfig, SwinVedProcessor, train_tokenizer
from swin_ved_tiny import TEXTS, pad, questions, studies, tiny_model, tiny_processor
from transformers import BertGenerationConfig, DynamicCache, EncoderDecoderCache, SwinConfig

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
    "name", ["no images", "four images", "study without image", "study_index too high", "bare features"]
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
    "unknown argument": ({"text": ["no"], "padding": True}, TypeError, r"\['padding'\]"),
    "NumPy output": ({"text": ["no"], "return_tensors": "np"}, ValueError, "'np'"),
}


@pytest.mark.parametrize(("call", "error", "text"), PROCESSOR_CASES.values(), ids=PROCESSOR_CASES)
def test_processor_refuses(processor, call, error, text):
    with pytest.raises(error, match=text):
        processor(**call)


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


def test_configurations_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="768 wide and the decoder is 1024 wide"):
        SwinVedConfig(encoder=SwinConfig(), decoder=BertGenerationConfig())
    with pytest.raises(ValueError, match="max_images is 0"):
        SwinVedConfig.tiny(max_images=0)
    with pytest.raises(ValueError, match="answer_position is 512"):
        SwinVedConfig.tiny(answer_position=512)
    with pytest.raises(ValueError, match="image_size is 64 and resize_size 60"):
        SwinVedProcessor(train_tokenizer(TEXTS), image_size=64, resize_size=60)
