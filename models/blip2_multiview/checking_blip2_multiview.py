"""Checks of what a caller passes to BLIP-2-MultiView: each names the argument, its value and what is allowed.

Those of values read a few numbers back from the device, so they are skipped while `torch.compile` traces the model.
"""

from typing import Any

import torch
from transformers.utils import TransformersKwargs

from .configuration_blip2_multiview import VIEWS

PASSED_ON = {*TransformersKwargs.__optional_keys__, "return_dict", "past_key_values", "use_cache"}


def check_names(arguments: dict[str, Any]) -> None:
    """Check that further arguments are ones that transformers knows: a misspelt `study_index` must not go by unseen.

    Raises:
        TypeError: An unknown argument.
    """
    unknown = sorted(name for name, value in arguments.items() if value is not None and name not in PASSED_ON)
    if unknown:
        raise TypeError(
            f"unknown arguments {unknown} of Blip2MultiViewForConditionalGeneration.forward; it takes input_ids, and "
            "pixel_values or encoder_outputs, and what else its docstring names"
        )


def check_encoder_outputs(encoder_outputs: Any) -> None:
    """Raise a TypeError if `encoder_outputs` is not what `encode` returns."""
    if not hasattr(encoder_outputs, "view_features") or not hasattr(encoder_outputs, "view_mask"):
        raise TypeError(
            f"encoder_outputs is a {type(encoder_outputs).__name__}; expected the Blip2MultiViewOutput that "
            "model.encode(...) returns"
        )


def check_index(name: str, index: Any) -> None:
    """Raise a TypeError if `index` is no tensor of whole numbers; True and False would choose rows, not number them."""
    if not isinstance(index, torch.Tensor) or index.dtype not in (torch.int64, torch.int32):
        kind = f"tensor of {index.dtype}" if isinstance(index, torch.Tensor) else type(index).__name__
        raise TypeError(f"{name} is a {kind}; expected a tensor of int64, such as torch.tensor([0, 1])")


def check_images(
    pixel_values: torch.Tensor, image_study: torch.Tensor, image_view: torch.Tensor, studies: int, image_size: int
) -> None:
    """Check the images of a batch.

    Args:
        pixel_values: (images, 3, H, W).
        image_study: (images,) number of each image's study.
        image_view: (images,) number of each image's view.
        studies: How many studies the batch has.
        image_size: Height and width that the vision tower takes.

    Raises:
        ValueError: A shape is wrong, there is no image, an index is out of range, or a study has no image.
    """
    if pixel_values.dim() != 4 or tuple(pixel_values.shape[1:]) != (3, image_size, image_size):
        raise ValueError(
            f"pixel_values has shape {tuple(pixel_values.shape)}, expected (images, 3, {image_size}, {image_size}): "
            "one flat tensor of all studies' images; Blip2MultiViewProcessor makes it"
        )
    for name, index in (("image_study", image_study), ("image_view", image_view)):
        if index.shape != pixel_values.shape[:1]:
            raise ValueError(
                f"{name} has shape {tuple(index.shape)}, expected ({pixel_values.shape[0]},): one number per image of "
                "pixel_values"
            )
    if pixel_values.shape[0] == 0:
        raise ValueError("pixel_values holds no image; every study needs at least one image of a known view")
    check_range("image_view", image_view, len(VIEWS), f"one of {len(VIEWS)} views {VIEWS}")
    check_range("image_study", image_study, studies, f"one of {studies} studies")
    without = (torch.bincount(image_study, minlength=studies) == 0).nonzero().flatten().tolist()
    if without:
        raise ValueError(
            f"no image belongs to study {without[0]} ({len(without)} of {studies} studies have none); image_study must "
            "name every study at least once, and without study_index there are as many studies as questions"
        )


def check_range(name: str, index: torch.Tensor, size: int, what: str) -> None:
    """Raise a ValueError if `index` holds a number that is not in 0 .. size - 1."""
    if index.numel() and not 0 <= index.min() <= index.max() < size:
        wrong = index[(index < 0) | (index >= size)][0].item()
        raise ValueError(f"{name} holds {wrong}, allowed are 0 to {size - 1} ({what})")


def check_text(input_ids: torch.Tensor, labels: torch.Tensor | None, vocabulary: int, max_labels: int) -> None:
    """Check token ids (questions, tokens) and labels (questions, tokens) against the language model.

    Raises:
        ValueError: A shape is wrong, an id is outside the vocabulary, or the labels are empty, too long or of another
            number of questions.
    """
    check_index("input_ids", input_ids)
    if input_ids.dim() != 2 or input_ids.shape[0] == 0:
        raise ValueError(f"input_ids has shape {tuple(input_ids.shape)}, expected (questions, tokens)")
    advice = "tokenizer and model do not belong together; use the processor that was saved with this model"
    check_range("input_ids", input_ids, vocabulary, advice)
    if labels is None:
        return
    check_index("labels", labels)
    if labels.dim() != 2 or labels.shape[0] != input_ids.shape[0] or labels.shape[1] == 0:
        raise ValueError(f"labels has shape {tuple(labels.shape)}, expected ({input_ids.shape[0]}, 1 or more tokens)")
    if labels.shape[1] > max_labels:
        raise ValueError(
            f"labels are {labels.shape[1]} tokens long, config.max_answer_tokens allows {max_labels}; shorten the "
            "answers (Blip2MultiViewProcessor does) or raise config.max_answer_tokens"
        )
    check_range("labels", labels[labels != -100], vocabulary, advice)


def check_questions(
    input_ids: torch.Tensor, attention_mask: torch.Tensor | None, study_index: torch.Tensor | None, studies: int
) -> None:
    """Check that every question (questions, tokens) has its mask and its study.

    Raises:
        ValueError: `attention_mask` has another shape or padding on the left, `study_index` another length or a number
            out of range, or there is no `study_index` and questions and studies differ in number.
    """
    questions = input_ids.shape[0]
    if attention_mask is not None and attention_mask.shape != input_ids.shape:
        raise ValueError(f"attention_mask has shape {tuple(attention_mask.shape)}, input_ids {tuple(input_ids.shape)}")
    if attention_mask is not None and not attention_mask[:, :1].all():
        raise ValueError(
            "attention_mask starts with 0: the text is padded on the left, or empty; pad it on the right "
            "(padding_side='right', as Blip2MultiViewProcessor does), because it follows the images' block, and the "
            "language model counts positions from there"
        )
    if study_index is None:
        if questions != studies:
            raise ValueError(
                f"{questions} questions but the encoded images of {studies} studies; pass study_index (questions,) to "
                "say which study each question belongs to"
            )
        return
    check_index("study_index", study_index)
    if study_index.shape != (questions,):
        raise ValueError(f"study_index has shape {tuple(study_index.shape)}, expected ({questions},)")
    check_range("study_index", study_index, studies, f"one of {studies} studies")
