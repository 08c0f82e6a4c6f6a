"""What a caller may hand to the model, checked before anything is computed.

Checks of shapes are free. Checks of values (ids, indices, masks) read numbers back from the device, so they are left
out while torch.compile traces, and `forward` makes them for the first tokens only, not for every decoding step.
"""

from typing import Any

import torch
from transformers.utils import TransformersKwargs

from .configuration_swin_ved import SwinVedConfig

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_names(arguments: dict[str, Any]) -> None:
    """Check that further arguments are ones that transformers knows: a misspelt mask must not go by unseen.

    Raises:
        TypeError: an unknown argument.
    """
    known = {*TransformersKwargs.__optional_keys__, "return_dict"}
    unknown = sorted(name for name, value in arguments.items() if value is not None and name not in known)
    if unknown:
        raise TypeError(f"unknown arguments {unknown} of SwinVedForConditionalGeneration.forward; see its docstring")


def check_pixels(config: SwinVedConfig, pixel_values: torch.Tensor, image_mask: torch.Tensor | None) -> None:
    """Check (studies, images, 3, H, W) pixels and their (studies, images) mask.

    Raises:
        ValueError: see `SwinVedModel.forward`.
    """
    side = config.encoder.image_size
    shape = tuple(pixel_values.shape)
    if len(shape) != 5 or shape[2:] != (config.encoder.num_channels, side, side):
        raise ValueError(
            f"pixel_values has shape {shape}, not (studies, images, {config.encoder.num_channels}, {side}, {side}) "
            "as the processor makes it"
        )
    if not 1 <= shape[1] <= config.max_images:
        raise ValueError(
            f"pixel_values has {shape[1]} images per study; allowed are 1 to {config.max_images} (config.max_images)"
        )
    if image_mask is None:
        return
    if tuple(image_mask.shape) != shape[:2]:
        raise ValueError(f"image_mask has shape {tuple(image_mask.shape)}; expected (studies, images) = {shape[:2]}")
    if torch.compiler.is_compiling():
        return
    empty = (~image_mask.bool().any(1)).nonzero().flatten().tolist()
    if empty:
        raise ValueError(f"image_mask leaves studies {empty} without any image; every study needs at least one")


def check_encoder_outputs(pixel_values: Any, image_mask: Any, encoder_outputs: Any) -> None:
    """Check that exactly one source of image features was given, and of the right kind.

    Raises:
        ValueError: both sources, or none.
        TypeError: not what `encode` returns.
    """
    if encoder_outputs is None:
        raise ValueError("no images: pass pixel_values, or encoder_outputs from model.encode(...)")
    if pixel_values is not None or image_mask is not None:
        raise ValueError("pass either pixel_values (with image_mask) or encoder_outputs, not both")
    if not hasattr(encoder_outputs, "feature_mask") or not hasattr(encoder_outputs, "last_hidden_state"):
        raise TypeError(
            f"encoder_outputs is a {type(encoder_outputs).__name__}; expected the SwinVedEncoderOutput that "
            "model.encode(...) returns"
        )


def check_questions(
    config: SwinVedConfig,
    studies: int,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor | None,
    study_index: torch.Tensor | None,
    labels: torch.Tensor | None,
) -> None:
    """Check token ids (questions, tokens), what is aligned with them, and which study each question is about.

    Raises:
        TypeError: numbers of another kind.
        ValueError: a shape, an id, a label or an index that does not fit.
    """
    if input_ids.ndim != 2 or 0 in input_ids.shape:
        raise ValueError(f"input_ids has shape {tuple(input_ids.shape)}; expected (questions, tokens), none of them 0")
    shape = tuple(input_ids.shape)
    for name, values in {"input_ids": input_ids, "labels": labels, "study_index": study_index}.items():
        _check_integers(name, values)
    for name, values in {"attention_mask": attention_mask, "labels": labels}.items():
        four = name == "attention_mask" and values is not None and values.ndim == 4  # transformers' (queries, keys)
        if values is not None and not four and tuple(values.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(values.shape)}; expected the shape of input_ids, {shape}")
    if study_index is None and shape[0] != studies:
        raise ValueError(
            f"{shape[0]} questions and {studies} studies: pass study_index, the study (0 to {studies - 1}) of each one"
        )
    if study_index is not None and tuple(study_index.shape) != shape[:1]:
        raise ValueError(f"study_index has shape {tuple(study_index.shape)}; expected (questions,) = {shape[:1]}")
    if not torch.compiler.is_compiling():
        _check_values(config, studies, input_ids, study_index, labels)


def _check_integers(name: str, values: Any) -> None:
    if values is None:
        return
    if not isinstance(values, torch.Tensor) or values.dtype not in INTEGERS:
        kind = f"tensor of {values.dtype}" if isinstance(values, torch.Tensor) else type(values).__name__
        raise TypeError(f"{name} is a {kind}; expected a tensor of integers, such as torch.tensor([0, 0, 1])")


def _check_values(
    config: SwinVedConfig,
    studies: int,
    input_ids: torch.Tensor,
    study_index: torch.Tensor | None,
    labels: torch.Tensor | None,
) -> None:
    if study_index is not None:
        wrong = study_index[(study_index < 0) | (study_index >= studies)].tolist()
        if wrong:
            raise ValueError(f"study_index holds {wrong}; allowed are 0 to {studies - 1}, one for each encoded study")
    vocab_size = config.decoder.vocab_size
    lowest, highest = int(input_ids.min()), int(input_ids.max())
    if lowest < 0 or highest >= vocab_size:
        raise ValueError(
            f"input_ids holds token {lowest if lowest < 0 else highest}, but the model's vocabulary has ids 0 to "
            f"{vocab_size - 1}: tokenizer and model do not belong together; load the processor from the model's folder"
        )
    if labels is not None:
        wrong = labels[((labels < 0) & (labels != -100)) | (labels >= vocab_size)].unique().tolist()
        if wrong:
            raise ValueError(
                f"labels holds {wrong[:5]}; allowed are the ids 0 to {vocab_size - 1}, and -100 where nothing is learnt"
            )


def check_prompts(config: SwinVedConfig, prompts: torch.Tensor, attention_mask: Any, labels: Any) -> None:
    """Check that (questions, tokens) prompts stop where their answers begin.

    Raises:
        ValueError: labels, an [EOS], or padding on the right, as a batch made for training has them.
    """
    padding = prompts == config.decoder.pad_token_id if attention_mask is None else ~attention_mask.bool()
    if labels is not None or ((prompts == config.decoder.eos_token_id) & ~padding[:, -prompts.shape[1] :]).any():
        raise ValueError(
            "generate got labels, or a prompt with an [EOS]: this batch holds answers, which would be returned as if "
            "the model had written them; call the processor without answers="
        )
    if padding[:, -1].any():
        rows = padding[:, -1].nonzero().flatten().tolist()
        raise ValueError(
            f"prompts {rows[:5]} are padded on the right, where their answers go; pad on the left, as the processor "
            "called without answers= does"
        )


def check_shift(config: SwinVedConfig, shift: torch.Tensor) -> None:
    """Check that questions end before `answer_position`, given how far each (questions, 1) answer is moved on.

    Raises:
        ValueError: a question is longer.
    """
    if not torch.compiler.is_compiling() and (shift < 0).any():
        position = config.answer_position
        raise ValueError(
            f"a question of {position - int(shift.min())} tokens, [CLS] included, is longer than "
            f"config.answer_position, {position}, where its answer begins; use max_question_tokens={position} at most"
        )


def check_positions(config: SwinVedConfig, position_ids: torch.Tensor, past_length: int) -> None:
    """Check that every token of (questions, tokens) `position_ids` has a position to take.

    Raises:
        ValueError: the sequence is longer than the decoder's table of positions.
    """
    limit = config.decoder.max_position_embeddings
    # Positions are read back only where the length, padding included, leaves a doubt.
    if past_length + position_ids.shape[1] + (config.answer_position or 0) <= limit or torch.compiler.is_compiling():
        return
    last = int(position_ids.max())
    if last >= limit:
        raise ValueError(
            f"a sequence reaches position {last}, and the model has positions 0 to {limit - 1} "
            "(decoder.max_position_embeddings): shorten the text or lower max_new_tokens"
        )
