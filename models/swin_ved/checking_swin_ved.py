"""Checks of the arguments that callers pass to SwinVED.

Checks of values read numbers back from the device. They are skipped while torch.compile traces the model, and `forward`
makes them for the first tokens only, not for every decoding step.
"""

from typing import Any

import torch
from transformers.utils import TransformersKwargs

from .configuration_swin_ved import SwinVedConfig


def check_names(arguments: dict[str, Any]) -> None:
    """Raise TypeError for an argument that transformers does not know, such as a misspelt mask."""
    known = {*TransformersKwargs.__optional_keys__, "return_dict"}
    unknown = sorted(name for name, value in arguments.items() if value is not None and name not in known)
    if unknown:
        raise TypeError(f"SwinVedForConditionalGeneration.forward does not take {unknown}. See its docstring.")


def check_pixels(config: SwinVedConfig, pixel_values: torch.Tensor, image_mask: torch.Tensor | None) -> None:
    """Raise ValueError for pixels of another shape than (studies, images, 3, H, W), or a study without an image."""
    side, shape = config.encoder.image_size, tuple(pixel_values.shape)
    if len(shape) != 5 or shape[2:] != (3, side, side):
        raise ValueError(
            f"pixel_values has shape {shape}. Expected (studies, images, 3, {side}, {side}), as the processor returns."
        )
    if not 1 <= shape[1] <= config.max_images:
        raise ValueError(
            f"pixel_values has {shape[1]} images per study. Expected 1 to {config.max_images} (config.max_images)."
        )
    if image_mask is None:
        return
    if tuple(image_mask.shape) != shape[:2]:
        raise ValueError(f"image_mask has shape {tuple(image_mask.shape)}. Expected (studies, images) = {shape[:2]}.")
    if not torch.compiler.is_compiling() and not image_mask.bool().any(1).all():
        empty = (~image_mask.bool().any(1)).nonzero().flatten().tolist()
        raise ValueError(f"image_mask leaves studies {empty} without an image. Every study needs at least one.")


def check_questions(
    config: SwinVedConfig, studies: int, input_ids: torch.Tensor, study_index: torch.Tensor | None
) -> None:
    """Raise ValueError if token ids (questions, tokens) or the study of a question are out of range."""
    if study_index is None and len(input_ids) != studies:
        raise ValueError(
            f"There are {len(input_ids)} questions and {studies} studies. Pass study_index, the study of each question."
        )
    if torch.compiler.is_compiling():
        return
    if study_index is not None:
        wrong = study_index[(study_index < 0) | (study_index >= studies)].tolist()
        if wrong or len(study_index) != len(input_ids):
            raise ValueError(
                f"study_index is {study_index.tolist()}. Expected {len(input_ids)} numbers from 0 to {studies - 1}."
            )
    wrong = input_ids[(input_ids < 0) | (input_ids >= config.decoder.vocab_size)].tolist()
    if wrong:
        raise ValueError(
            f"input_ids has token {wrong[0]}, but the model's vocabulary has ids 0 to {config.decoder.vocab_size - 1}. "
            "Load the processor from the model's folder."
        )


def check_prompts(config: SwinVedConfig, prompts: torch.Tensor, attention_mask: Any, labels: Any) -> None:
    """Raise ValueError if (questions, tokens) prompts contain answers or are padded on the right."""
    padding = prompts == config.decoder.pad_token_id if attention_mask is None else ~attention_mask.bool()
    if labels is not None or ((prompts == config.decoder.eos_token_id) & ~padding[:, -prompts.shape[1] :]).any():
        raise ValueError(
            "generate got labels or a prompt with an [EOS], so this batch contains the answers. Call the processor "
            "without answers=."
        )
    if padding[:, -1].any():
        rows = padding[:, -1].nonzero().flatten().tolist()
        raise ValueError(f"Prompts {rows[:5]} are padded on the right. Pad on the left, as the processor does.")


def check_shift(config: SwinVedConfig, shift: torch.Tensor) -> None:
    """Raise ValueError if a question reaches `answer_position`. `shift` (questions, 1) must not be negative."""
    if not torch.compiler.is_compiling() and (shift < 0).any():
        position = config.answer_position or 0
        raise ValueError(
            f"A question has {position - int(shift.min())} tokens with [CLS], but its answer begins at "
            f"config.answer_position, {position}. Use max_question_tokens={position} or less."
        )


def check_positions(config: SwinVedConfig, position_ids: torch.Tensor, past_length: int) -> None:
    """Raise ValueError if a sequence is longer than the decoder's position embeddings."""
    limit = config.decoder.max_position_embeddings
    # Positions are read back only if the length with padding may exceed the limit.
    if past_length + position_ids.shape[1] + (config.answer_position or 0) <= limit or torch.compiler.is_compiling():
        return
    last = int(position_ids.max())
    if last >= limit:
        raise ValueError(
            f"A sequence reaches position {last}, but the model has positions 0 to {limit - 1} "
            "(decoder.max_position_embeddings). Shorten the text or lower max_new_tokens."
        )
