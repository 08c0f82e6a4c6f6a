"""Checks of the arguments that callers pass to BLIP-2-MultiView. They are skipped while torch.compile traces it."""

from typing import Any

import torch
from transformers.utils import TransformersKwargs

from .configuration_blip2_multiview import VIEWS

KNOWN = {*TransformersKwargs.__optional_keys__, "return_dict", "past_key_values", "use_cache"}


def check_names(arguments: dict[str, Any]) -> None:
    """Raise TypeError for an argument that transformers does not know, such as a misspelt `study_index`."""
    unknown = sorted(name for name, value in arguments.items() if value is not None and name not in KNOWN)
    if unknown:
        raise TypeError(f"Blip2MultiViewForConditionalGeneration.forward does not take {unknown}. See its docstring.")


def check_range(name: str, index: torch.Tensor, size: int, remedy: str) -> None:
    """Raise ValueError if `index` has a number outside 0 .. size - 1."""
    wrong = index[(index < 0) | (index >= size)].flatten().tolist()
    if wrong:
        raise ValueError(f"{name} has {wrong[0]}. Expected 0 to {size - 1}. {remedy}")


def check_images(
    pixel_values: torch.Tensor, num_images: torch.Tensor, image_view: torch.Tensor, image_size: int
) -> None:
    """Raise ValueError if images, their studies and their views do not fit together.

    Args:
        pixel_values: (images, 3, H, W).
        num_images: (studies,) number of images of each study.
        image_view: (images,) number of each image's view.
        image_size: height and width that the vision tower takes.
    """
    if pixel_values.dim() != 4 or tuple(pixel_values.shape[1:]) != (3, image_size, image_size):
        raise ValueError(
            f"pixel_values has shape {tuple(pixel_values.shape)}. Expected (images, 3, {image_size}, {image_size}), "
            "the images of all studies in one tensor, as Blip2MultiViewProcessor returns."
        )
    images = len(pixel_values)
    if image_view.shape != (images,):
        raise ValueError(f"image_view has shape {tuple(image_view.shape)}. Expected ({images},), one number per image.")
    check_range("image_view", image_view, len(VIEWS), f"The views are {', '.join(VIEWS)}.")
    without = (num_images < 1).nonzero().flatten().tolist()
    if without:
        raise ValueError(f"Studies {without[:5]} have no image. Every study needs an image of a known view.")
    if num_images.dim() != 1 or not images or int(num_images.sum()) != images:
        raise ValueError(f"num_images is {num_images.tolist()} for {images} images. Expected one count per study.")


def check_text(input_ids: torch.Tensor, labels: torch.Tensor | None, vocabulary: int, max_labels: int) -> None:
    """Raise ValueError if token ids are outside the vocabulary, or labels do not fit the questions."""
    remedy = "Use the processor that was saved with this model."
    check_range("input_ids", input_ids, vocabulary, remedy)
    if labels is None:
        return
    if labels.dim() != 2 or len(labels) != len(input_ids):
        raise ValueError(f"labels has shape {tuple(labels.shape)}. Expected ({len(input_ids)}, tokens).")
    if labels.shape[1] > max_labels:
        raise ValueError(
            f"labels has {labels.shape[1]} tokens, but config.max_answer_tokens is {max_labels}. Shorten the answers, "
            "as Blip2MultiViewProcessor does, or raise config.max_answer_tokens."
        )
    check_range("labels", labels[labels != -100], vocabulary, remedy)


def check_questions(
    input_ids: torch.Tensor, attention_mask: torch.Tensor | None, study_index: torch.Tensor | None, studies: int
) -> None:
    """Raise ValueError if questions (questions, tokens) are padded on the left or their studies are out of range."""
    questions = len(input_ids)
    if attention_mask is not None and not attention_mask[:, :1].all():
        raise ValueError(
            "attention_mask starts with 0, so the text is padded on the left or empty. Pad on the right, as "
            "Blip2MultiViewProcessor does: the text follows the images' block."
        )
    if study_index is None and questions != studies:
        raise ValueError(
            f"There are {questions} questions and {studies} studies. Pass study_index, the study of each question."
        )
    if study_index is not None:
        if study_index.shape != (questions,) or study_index.dtype == torch.bool:
            raise ValueError(
                f"study_index is {study_index.dtype} of shape {tuple(study_index.shape)}. Expected ({questions},) "
                "whole numbers."
            )
        check_range("study_index", study_index, studies, "It numbers the encoded studies.")
