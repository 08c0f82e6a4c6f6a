"""BLIP-2-MultiView, the processor: views, image modes, text limits, bad input."""

import logging

import numpy as np
import pytest
import torch
from blip2_multiview import Blip2MultiViewProcessor
from blip2_multiview.image_processing_blip2_multiview import EIGHT_BIT, SIXTEEN_BIT, to_rgb
from blip2_multiview.processing_blip2_multiview import clean_view
from blip2_multiview_models import make_image, make_model
from PIL import Image
from transformers.utils.logging import warning_once


@pytest.fixture(scope="module")
def processor():
    return Blip2MultiViewProcessor.tiny()


def test_images_of_a_batch_become_one_flat_tensor_with_indices(processor):
    images = [[make_image(0), make_image(1)], [make_image(2), make_image(3), make_image(4)]]
    batch = processor(images=images, views=[["AP", "LL"], ["lateral", "pa", "L"]])
    assert batch["pixel_values"].shape == (5, 3, 28, 28)
    assert batch["pixel_values"].dtype == torch.float32
    assert batch["num_images"].tolist() == [2, 3]
    assert batch["image_view"].tolist() == [0, 2, 2, 1, 2]


@pytest.mark.parametrize(
    ("name", "number"), [("AP", 0), ("PA", 1), ("LAT", 2), ("LATERAL", 2), ("LL", 2), ("L", 2), (" ap ", 0)]
)
def test_view_aliases(processor, name, number):
    assert processor.view_number(name) == number


def test_pixels_are_resized_scaled_and_normalised(processor):
    image = make_image(0)
    found = processor(images=[image], views=["AP"])["pixel_values"][0].numpy()
    pixels = np.asarray(image.convert("RGB").resize((28, 28), Image.Resampling.BICUBIC), dtype=np.float64) / 255
    mean, std = np.array([0.48145466, 0.4578275, 0.40821073]), np.array([0.26862954, 0.26130258, 0.27577711])
    np.testing.assert_allclose(found, ((pixels - mean) / std).transpose(2, 0, 1), atol=1e-5)


@pytest.mark.parametrize("mode", [*EIGHT_BIT, *SIXTEEN_BIT])
def test_image_modes_become_rgb(processor, mode):
    image = Image.new(mode, (50, 40))
    assert processor(images=[image], views=["AP"])["pixel_values"].shape == (1, 3, 28, 28)


def test_grey_modes_give_the_same_pixels():
    grey = make_image(0)
    for mode in ("LA", "RGB", "RGBA"):
        assert np.array_equal(np.asarray(to_rgb(grey.convert(mode))), np.asarray(to_rgb(grey)))


@pytest.mark.parametrize("kind", ["image", "array"])
def test_sixteen_bits_are_scaled_not_clipped(kind):
    values = np.array([[0, 255, 256], [4095, 32768, 65535]], dtype=np.uint16)
    image = Image.fromarray(values)
    assert image.mode == "I;16"
    rgb = np.asarray(to_rgb(image if kind == "image" else values))
    assert rgb[..., 0].tolist() == [[0, 1, 1], [16, 128, 255]]  # the whole range becomes the whole range


def test_arrays_are_images_too(processor):
    array = np.asarray(make_image(0))
    expected = processor(images=[make_image(0)], views=["AP"])["pixel_values"]
    for same in (array, array[..., None], array[None], np.stack([array] * 3), np.stack([array] * 3, axis=-1)):
        assert torch.equal(processor(images=[same], views=["AP"])["pixel_values"], expected)


@pytest.mark.parametrize("view", ["PA", ["PA"]])
def test_one_study_may_be_one_image(processor, view):
    expected = processor(images=[[make_image(0)]], views=[["PA"]], text=["is there edema?"])
    for image in (make_image(0), np.asarray(make_image(0))):
        found = processor(images=image, views=view, text="is there edema?")
        assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("nested", [False, True])
def test_empty_cells_of_a_table_are_views_without_a_name(nested):
    processor = Blip2MultiViewProcessor.tiny()
    images, views = [make_image(0), make_image(1), make_image(2)], [float("nan"), "AP", None]
    batch = processor(images=[images] if nested else images, views=[views] if nested else views)
    assert batch["image_view"].tolist() == [0]
    assert processor.skipped_views == {"": 2}
    assert Blip2MultiViewProcessor.tiny(unknown_views={"": "PA"}).view_number(float("nan")) == 1


def test_a_number_is_no_view(processor):
    with pytest.raises(TypeError, match="1, a int"):
        processor(images=[[make_image()]], views=[[1]])
    with pytest.raises(TypeError, match="2.5, a float"):
        clean_view(2.5)


def test_unknown_views_are_skipped_and_counted():
    processor = Blip2MultiViewProcessor.tiny()
    batch = processor(images=[[make_image(i) for i in range(4)]], views=[["SWIMMERS", "AP", None, "SWIMMERS"]])
    assert batch["image_view"].tolist() == [0]
    assert torch.equal(batch["pixel_values"], processor(images=[make_image(1)], views=["AP"])["pixel_values"])
    assert processor.skipped_views == {"SWIMMERS": 2, "": 1}


def test_unknown_views_are_mapped_or_refused():
    mapping = Blip2MultiViewProcessor.tiny(unknown_views={"SWIMMERS": "LL", "": "AP"})
    assert [mapping.view_number(view) for view in ("SWIMMERS", None, "PA")] == [2, 0, 1]
    with pytest.raises(ValueError, match="XTABLE.*AP, PA, LAT"):
        mapping.view_number("XTABLE")
    with pytest.raises(ValueError, match="XTABLE"):
        Blip2MultiViewProcessor.tiny(unknown_views="error").view_number("XTABLE")
    with pytest.raises(ValueError, match="ignore"):
        Blip2MultiViewProcessor.tiny(unknown_views="ignore")
    capitals = Blip2MultiViewProcessor.tiny(unknown_views={"Swimmers": "LL", None: "PA"})
    assert [capitals.view_number(view) for view in ("SWIMMERS", " swimmers", "")] == [2, 2, 1]
    with pytest.raises(ValueError, match="FRONT"):
        Blip2MultiViewProcessor.tiny(unknown_views={"": "FRONT"})


def test_prompt_and_labels(processor):
    batch = processor(
        text=["is the heart enlarged?", "is there edema in the left lung?"], answers=["yes", "no edema is seen"]
    )
    texts = processor.batch_decode(batch["input_ids"], skip_special_tokens=True)
    assert texts[0] == "Question: is the heart enlarged? Answer:"
    assert (batch["attention_mask"] == (batch["input_ids"] != 0)).all()
    assert batch["attention_mask"][0, 0] == 1  # padded on the right
    labels = batch["labels"]
    kept = labels[0][labels[0] != -100]
    assert processor.decode(kept, skip_special_tokens=True) == "yes"
    assert kept[-1] == processor.tokenizer.eos_token_id
    assert (labels[0] == -100).any()


def test_same_texts_give_the_same_tokenizer_with_words_and_characters():
    first, second = (Blip2MultiViewProcessor.tiny().tokenizer for _ in range(2))
    assert first.get_vocab() == second.get_vocab()
    assert first.convert_ids_to_tokens(first("is there Xray?")["input_ids"]) == [
        *("\u2581is", "\u2581there", "\u2581", "X", "r", "a", "y", "?", "</s>")
    ]
    texts = ["b b b a", "cc cc dd"]
    small = Blip2MultiViewProcessor.tiny(texts, vocab_size=4 + 94 + 1).tokenizer
    assert len(small) == 99
    assert "\u2581cc" in small.get_vocab()
    assert "\u2581dd" not in small.get_vocab()
    with pytest.raises(ValueError, match="50.*98"):
        Blip2MultiViewProcessor.tiny(texts, vocab_size=50)


def test_long_text_is_cut_with_one_warning(caplog):
    processor = Blip2MultiViewProcessor.tiny(max_question_tokens=10, max_answer_tokens=7)
    warning_once.cache_clear()
    long_question = "is there edema in the left lung or the right lung or the heart?"
    with caplog.at_level(logging.WARNING):
        batch = processor(text=[long_question, "edema?"], answers=["there is no edema in the left lung at all", "no"])
        processor(text=[long_question], answers=["there is no edema in the left lung at all"])
    assert [record.message for record in caplog.records] == [
        "Questions are truncated to 10 tokens (max_question_tokens).",
        "Answers are truncated to 7 tokens (max_answer_tokens).",
    ]
    prompt = processor.decode(batch["input_ids"][0], skip_special_tokens=True)
    assert prompt.startswith("Question: is there")
    assert prompt.endswith(" Answer:")
    cut = prompt.removeprefix("Question: ").removesuffix(" Answer:")
    assert long_question.startswith(cut)
    assert len(processor.tokenizer(cut, add_special_tokens=False)["input_ids"]) == 10
    assert batch["labels"].shape == (2, 7)
    assert batch["labels"][0, -1] == processor.tokenizer.eos_token_id


def test_what_the_processor_makes_the_model_takes(processor):
    batch = processor(
        images=[[make_image(0), make_image(1)], [make_image(2)]],
        views=[["AP", "LATERAL"], ["PA"]],
        text=["is there edema?", "is the heart normal?", "is there a pneumothorax?"],
        answers=["yes", "no", "no"],
        study_index=[1, 0, 1],
    )
    output = make_model()(**batch)
    assert output.logits.shape == (3, batch["labels"].shape[1], 512)
    assert torch.isfinite(output.loss)


ONE = {"images": [make_image()], "views": ["AP"]}
BAD = {
    "fewer views than images": ({"images": [[make_image(), make_image()]], "views": [["AP"]]}, r"\[2\].*\[1\]"),
    "fewer studies": ({"images": [[make_image()]], "views": [["AP"], ["PA"]]}, r"\[1\].*\[1, 1\]"),
    "study without image": ({"images": [[make_image()], []], "views": [["AP"], []]}, "Study 1"),
    "only unknown views": ({"images": [make_image()], "views": ["XTABLE"]}, "XTABLE.*unknown_views"),
    "nothing": ({}, "images with views"),
    "empty image": ({"images": [Image.new("L", (0, 5))], "views": ["AP"]}, "0 x 5"),
    "empty array": ({"images": [np.zeros((0, 5), np.uint8)], "views": ["AP"]}, r"\(0, 5\)"),
    "float image": ({"images": [Image.new("F", (5, 5))], "views": ["AP"]}, "study 0 has mode 'F'.*8 or 16 bits"),
    "line": ({"images": [np.zeros(5, np.uint8)], "views": ["AP"]}, r"\(5,\)"),
    "five channels": ({"images": [np.zeros((9, 9, 5), np.uint8)], "views": ["AP"]}, r"\(9, 9, 5\)"),
    "one name for a list": ({"images": [make_image()], "views": "AP"}, "views is 'AP'"),
    "mixed nesting": ({"images": [make_image()], "views": [["AP"]]}, "lists of studies"),
    "views alone": ({"text": "a?", "views": ["AP"]}, "views .*without images"),
    "answers alone": ({**ONE, "answers": ["no"]}, "answers .*without text"),
    "no question": ({"text": []}, "text is empty"),
    "fractional study_index": ({"text": ["a?"], "study_index": [0.9]}, "torch.float32"),
    "negative study_index": ({"text": ["a?"], "study_index": [-1]}, r"\[-1\].*0 and above"),
    "questions without study_index": ({**ONE, "text": ["a?", "b?"]}, "2 questions about 1 studies.*study_index"),
    "study_index out of range": ({**ONE, "text": ["a?", "b?"], "study_index": [0, 1]}, "0 to 0"),
    "study_index too long": ({**ONE, "text": ["a?"], "study_index": [0, 0]}, r"\(1,\)"),
    "answers missing": ({"text": ["a?", "b?"], "answers": ["yes"]}, "2 questions and 1 answers"),
    "other tensors": ({"text": ["a?"], "return_tensors": "np"}, "'np'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_was_passed_and_what_is_allowed(processor, case):
    arguments, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        processor(**arguments)


def test_a_question_is_a_string_and_limits_are_positive(processor):
    with pytest.raises(TypeError, match=r"text\[1\] is None, a NoneType"):
        processor(text=["a?", None])
    for name in ("max_question_tokens", "max_answer_tokens"):
        with pytest.raises(ValueError, match=f"{name} is 0"):
            Blip2MultiViewProcessor.tiny(**{name: 0})


@pytest.mark.parametrize("image", ["radiograph.jpg", np.zeros((5, 5)), None])
def test_what_is_no_image_is_a_type_error(processor, image):
    with pytest.raises(TypeError, match="Expected"):
        processor(images=[image], views=["AP"])
