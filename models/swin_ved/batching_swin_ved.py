"""How lists of images, texts and indices become the rows of one batch.

Not here: what a row holds (`processing_swin_ved`), what an image becomes (`image_processing_swin_ved`).
"""

from typing import Any

import numpy as np
import torch
from PIL import Image


def as_studies(images: Any) -> list[list[Any]]:
    """Bring a list of lists of images, a list of images, or one image to the first.

    Raises:
        TypeError: something else.
    """
    if isinstance(images, Image.Image | np.ndarray | torch.Tensor):
        return [[images]]
    if not isinstance(images, list | tuple):
        raise TypeError(f"images is a {type(images).__name__}; expected a list of studies, each a list of images")
    if images and not any(isinstance(study, list | tuple) for study in images):
        return [list(images)]
    if not all(isinstance(study, list | tuple) for study in images):
        raise TypeError("images mixes studies (lists) and single images; pass a list of lists, or images of one study")
    return [list(study) for study in images]


def pad(rows: list[list[int]], value: int, left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad to the longest row: (rows, tokens) and its mask."""
    longest = max(len(row) for row in rows)
    padded = torch.full((len(rows), longest), value)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), None) if left else slice(len(row))
        padded[number, place] = torch.tensor(row)
        mask[number, place] = 1
    return padded, mask


def study_of_questions(study_index: Any, studies: int | None, questions: int) -> dict[str, torch.Tensor]:
    """`study_index` (questions,) as the model takes it, or nothing where it says nothing.

    Args:
        study_index: the study of each question, or None where that is clear without it.
        studies: how many there are; None where only the model will know.
        questions: how many there are.

    Raises:
        TypeError: not whole numbers.
        ValueError: not one for each question, no study of that number, or unclear without it.
    """
    if study_index is None and studies is None:
        return {}
    if study_index is None:
        if questions == studies:
            return {}
        if studies > 1:
            raise ValueError(
                f"{questions} questions about {studies} studies: pass study_index, the study of each question"
            )
        return {"study_index": torch.zeros(questions, dtype=torch.long)}
    index = torch.as_tensor(study_index)
    if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        raise TypeError(f"study_index holds {index.dtype} numbers; expected whole ones, the study of each question")
    index = index.long()
    if tuple(index.shape) != (questions,):
        raise ValueError(f"study_index has shape {tuple(index.shape)}; expected ({questions},), one for each question")
    wrong = index[(index < 0) | (index >= (torch.inf if studies is None else studies))].tolist()
    if wrong:
        allowed = "0 and above" if studies is None else f"0 to {studies - 1}, the studies in images"
        raise ValueError(f"study_index holds {wrong}; allowed are {allowed}")
    return {"study_index": index}
