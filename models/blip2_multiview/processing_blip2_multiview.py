"""Processor of BLIP-2-MultiView: images with view names, questions and answers to model inputs.

Images become RGB, are resized to a square and normalised by transformers' Pillow backend. The text is
`Question: .. Answer:`. The model itself adds the embeddings of [AP], [PA], [LAT] and [Q].
"""

from .configuration_blip2_multiview import VIEWS

# isort: split
# The first import checks the version of transformers.
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig, AutoTokenizer, BatchFeature
from transformers.image_utils import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD
from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil
from transformers.processing_utils import ProcessorMixin
from transformers.utils import logging

from .image_processing_blip2_multiview import to_rgb
from .tokenization_blip2_multiview import TEXTS, make_tokenizer

logger = logging.get_logger(__name__)

VIEW_ALIASES = {"AP": "AP", "PA": "PA", "LAT": "LAT", "LATERAL": "LAT", "LL": "LAT", "L": "LAT"}
PROMPT = "Question: {question} Answer:"
# Reduces a chat to the text of its question. The images are passed to the processor separately.
CHAT_TEMPLATE = """
{%- if messages | length != 1 or messages[0]["role"] != "user" -%}
{{- raise_exception("This model answers one message, the user's question with its images.") -}}
{%- endif -%}
{%- set content = messages[0]["content"] -%}
{%- if content is string -%}
{{- content -}}
{%- else -%}
{{- content | selectattr("type", "equalto", "text") | map(attribute="text") | join(" ") -}}
{%- endif -%}
"""


class Blip2MultiViewProcessor(ProcessorMixin):
    """Prepares images and text for BLIP-2-MultiView.

    Args:
        tokenizer: tokenizer of the language model.
        image_size: height and width that the vision tower takes.
        image_mean, image_std: of each channel.
        unknown_views: handling of views that are not aliases of AP, PA or LAT. "skip" leaves the image out and counts
            it in `skipped_views`, "error" raises, and a mapping such as {"": "AP"} translates them. Case is ignored.
        default_view: view of images that are passed without views, for example by a pipeline. A warning is shown.
        max_question_tokens: longer questions are truncated, with one warning.
        max_answer_tokens: longer answers are truncated, with one warning.
        governance: class of the training data, saved with the other settings.

    Raises:
        ValueError: a setting is out of range.
    """

    def __init__(
        self,
        tokenizer,
        image_size: int = 224,
        image_mean: Sequence[float] = OPENAI_CLIP_MEAN,
        image_std: Sequence[float] = OPENAI_CLIP_STD,
        unknown_views: str | Mapping[str, str] = "skip",
        max_question_tokens: int = 64,
        max_answer_tokens: int = 256,
        default_view: str = "AP",
        chat_template: str | None = None,
        governance: str | None = None,
    ):
        super().__init__(tokenizer, chat_template=chat_template)
        self.governance = governance
        if unknown_views not in ("skip", "error") and not isinstance(unknown_views, Mapping):
            raise ValueError(f"unknown_views is {unknown_views!r}. Expected 'skip', 'error' or a mapping of names.")
        for view in (default_view, *(() if isinstance(unknown_views, str) else unknown_views.values())):
            if view not in VIEW_ALIASES:
                raise ValueError(f"default_view and unknown_views must name one of {', '.join(VIEW_ALIASES)}: {view!r}")
        for name, limit in {"max_question_tokens": max_question_tokens, "max_answer_tokens": max_answer_tokens}.items():
            if limit < 1:
                raise ValueError(f"{name} is {limit}. It must be at least 1.")
        self.default_view = default_view
        tokenizer.padding_side = "right"  # pipelines concatenate batches by it
        self.image_size, self.image_mean, self.image_std = image_size, list(image_mean), list(image_std)
        self.unknown_views = unknown_views if isinstance(unknown_views, str) else dict(unknown_views)
        self.max_question_tokens, self.max_answer_tokens = max_question_tokens, max_answer_tokens
        size = {"height": image_size, "width": image_size}
        # Not an argument, because a saved image processor is reloaded with torchvision if that is installed.
        self.image_processor = BlipImageProcessorPil(size=size, image_mean=self.image_mean, image_std=self.image_std)
        # Each worker process of a DataLoader has its own count.
        self.skipped_views: Counter[str] = Counter()

    @property
    def model_input_names(self) -> list[str]:
        return ["pixel_values", "num_images", "image_view", "input_ids", "attention_mask", "study_index"]

    def __call__(
        self,
        images: Sequence | None = None,
        views: Sequence | None = None,
        text: str | Sequence[str] | None = None,
        answers: str | Sequence[str] | None = None,
        study_index: Sequence[int] | None = None,
        return_tensors: str = "pt",
        padding: bool | str = True,
        **kwargs: Any,
    ) -> BatchFeature:
        """Prepare a batch.

        Args:
            images: list of studies, each a list of images. A flat list of images, or one image, is one study.
            views: view name (ViewPosition) of each image, nested like `images`. By default `default_view`.
            text: questions.
            answers: their answers, which become `labels`.
            study_index: the study of each question. None if question i is about study i.
            return_tensors: "pt" only.
            padding: True or "longest" only. Pipelines pass it.

        Returns:
            `pixel_values` (images, 3, H, W), `image_view` (images,), `num_images` (studies,), `input_ids` and
            `attention_mask` (questions, tokens), `labels` (questions, tokens), -100 on padding, and `study_index`
            (questions,), as far as their inputs were passed.

        Raises:
            ValueError: numbers do not match, a study lacks an image of a known view, or a view is unknown.
            TypeError: an unknown argument, or an image, view or text of another type.
        """
        unknown = sorted(name for name, value in kwargs.items() if value is not None)  # pipelines pass videos=None
        if unknown:
            raise TypeError(f"{type(self).__name__} does not take {unknown}.")
        if padding not in (True, "longest"):
            raise ValueError(f"padding is {padding!r}. Expected True or 'longest'.")
        if return_tensors != "pt":
            raise ValueError(f"return_tensors is {return_tensors!r}. Expected 'pt'.")
        if images is None and text is None:
            raise ValueError("Pass images with views, text (the questions), or all three.")
        for name, value, other, owner in (
            ("answers", answers, "text", text),
            ("study_index", study_index, "text", text),
            ("views", views, "images", images),
        ):
            if value is not None and owner is None:
                raise ValueError(f"{name} was passed without {other}.")
        batch, studies = {}, None
        if images is not None:
            images, views = self._nest(images, self._default_views(images) if views is None else views)
            studies = len(images)
            batch.update(self._encode_images(images, views))
        if text is not None:
            questions = _as_texts("text", text)
            batch.update(self._encode_text(questions, answers))
            if studies is not None and study_index is None and len(questions) != studies:
                raise ValueError(
                    f"{len(questions)} questions about {studies} studies need study_index, the study of each one."
                )
            if study_index is not None:
                batch["study_index"] = self._encode_study_index(study_index, len(questions), studies)
        return BatchFeature(batch)

    def apply_chat_template(self, conversation: Any, chat_template: str | None = None, **kwargs: Any) -> Any:
        """As in transformers, with a default template for one message, a question with its images."""
        return super().apply_chat_template(conversation, chat_template or self.chat_template or CHAT_TEMPLATE, **kwargs)

    def _default_views(self, images: Any) -> Any:
        """`default_view` for each image, nested as they are."""
        if not isinstance(images, list | tuple):
            logger.warning_once(f"Images without views are treated as {self.default_view} (default_view). Pass views.")
            return self.default_view
        return [self._default_views(image) for image in images]

    def view_number(self, view: str | None) -> int | None:
        """Return 0 for AP, 1 for PA, 2 for LAT and their aliases, and None for a view to skip.

        Raises:
            ValueError: the view is unknown and not to be skipped.
            TypeError: the view is not a string.
        """
        name = clean_view(view)
        known = VIEW_ALIASES.get(name)
        if known is None and isinstance(self.unknown_views, dict):
            mapping = {clean_view(unknown): target for unknown, target in self.unknown_views.items()}
            known = VIEW_ALIASES.get(mapping.get(name) or "")
        if known is not None:
            return VIEWS.index(known)
        if self.unknown_views == "skip":
            return None
        raise ValueError(
            f"View {view!r} is unknown. Expected one of {', '.join(VIEW_ALIASES)}. Set unknown_views to 'skip' or to a "
            f"mapping such as {{{name!r}: 'AP'}}."
        )

    @staticmethod
    def _nest(images: Sequence, views: Sequence) -> tuple[list[list], list[list]]:
        """Images and views as lists of studies of the same lengths."""
        if isinstance(images, Image.Image | np.ndarray):
            images = [images]
            views = [views] if isinstance(views, str) else views
        if isinstance(views, str):
            raise ValueError(f"views is {views!r} for a list of images. Pass a list with a view for each image.")
        if all(isinstance(view, str) or not hasattr(view, "__iter__") for view in views):
            images, views = [images], [views]
        for study in (*images, *views):
            if isinstance(study, Image.Image | np.ndarray | str):
                raise ValueError("images and views must be lists of studies, each a list, or flat lists of one study.")
        images, views = [list(study) for study in images], [list(study) for study in views]
        if [len(study) for study in images] != [len(study) for study in views]:
            counts = [[len(study) for study in studies] for studies in (images, views)]
            raise ValueError(f"images has {counts[0]} images per study, but views has {counts[1]} views.")
        return images, views

    def _encode_images(self, images: list[list], views: list[list]) -> dict[str, torch.Tensor]:
        chosen, studies, numbers = [], [], []
        for study, (some_images, some_views) in enumerate(zip(images, views, strict=True)):
            for place, (image, view) in enumerate(zip(some_images, some_views, strict=True)):
                number = self.view_number(view)
                if number is None:
                    self.skipped_views[view if isinstance(view, str) else ""] += 1
                    continue
                chosen.append(to_rgb(image, f"image {place} of study {study}"))
                studies.append(study)
                numbers.append(number)
            if study not in studies:
                raise ValueError(
                    f"Study {study} has no image of a known view: its views are {some_views}, known are "
                    f"{', '.join(VIEW_ALIASES)}. Leave the study out or map its views with unknown_views={{...}}."
                )
        if not chosen:
            raise ValueError("images is empty. Pass at least one image.")
        pixels = self.image_processor(chosen, return_tensors="pt")["pixel_values"]
        return {
            "pixel_values": pixels,
            "num_images": torch.bincount(torch.tensor(studies)),
            "image_view": torch.tensor(numbers),
        }

    def _encode_text(self, questions: list[str], answers: str | Sequence[str] | None) -> dict[str, torch.Tensor]:
        prompts = [PROMPT.format(question=self._shorten(question)) for question in questions]
        encoded = self.tokenizer(prompts, padding=True, padding_side="right", return_tensors="pt")
        batch = {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}
        if answers is None:
            return batch
        answers = _as_texts("answers", answers)
        if len(answers) != len(questions):
            raise ValueError(f"There are {len(questions)} questions and {len(answers)} answers.")
        longest = max(len(ids) for ids in self.tokenizer(answers, verbose=False)["input_ids"])
        if longest > self.max_answer_tokens:
            logger.warning_once(f"Answers are truncated to {self.max_answer_tokens} tokens (max_answer_tokens).")
        limits = {"truncation": True, "max_length": self.max_answer_tokens}
        encoded = self.tokenizer(answers, padding=True, padding_side="right", return_tensors="pt", **limits)
        batch["labels"] = encoded["input_ids"].masked_fill(encoded["attention_mask"] == 0, -100)
        return batch

    def _shorten(self, question: str) -> str:
        """The question truncated to `max_question_tokens` tokens."""
        encoded = self.tokenizer(question, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        if len(encoded["input_ids"]) <= self.max_question_tokens:
            return question
        logger.warning_once(f"Questions are truncated to {self.max_question_tokens} tokens (max_question_tokens).")
        return question[: encoded["offset_mapping"][self.max_question_tokens - 1][1]]

    @staticmethod
    def _encode_study_index(study_index: Any, questions: int, studies: int | None) -> torch.Tensor:
        index = torch.as_tensor(study_index)
        if index.is_floating_point() or index.dtype == torch.bool or index.shape != (questions,):
            raise ValueError(
                f"study_index is {index.dtype} of shape {tuple(index.shape)}. Expected ({questions},) whole numbers."
            )
        if index.min() < 0 or (studies is not None and index.max() >= studies):
            allowed = "0 and above" if studies is None else f"0 to {studies - 1}"
            raise ValueError(f"study_index has {index.tolist()}. Expected {allowed}.")
        return index.long()

    @classmethod
    def from_blip2(cls, path: str, **changes) -> "Blip2MultiViewProcessor":
        """The processor for a model of `from_blip2(path)`, with its tokenizer and image size."""
        image_size = AutoConfig.from_pretrained(path).vision_config.image_size
        return cls(AutoTokenizer.from_pretrained(path), **{"image_size": image_size, **changes})

    @classmethod
    def tiny(cls, texts: Sequence[str] = TEXTS, vocab_size: int = 512, **changes) -> "Blip2MultiViewProcessor":
        """A processor for `Blip2MultiViewConfig.tiny()` with a tokenizer of the words of `texts`."""
        return cls(make_tokenizer(texts, vocab_size), **{"image_size": 28, **changes})


def clean_view(view: Any) -> str:
    """A view's name in upper case, and "" for None and NaN (an empty table cell). Raises TypeError for others."""
    if view is None or (isinstance(view, float) and math.isnan(view)):
        return ""
    if not isinstance(view, str):
        raise TypeError(f"A view is {view!r}, a {type(view).__name__}. Expected its name or None.")
    return view.strip().upper()


def _as_texts(name: str, texts: str | Sequence[str]) -> list[str]:
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not texts:
        raise ValueError(f"{name} is empty.")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{number}] is {text!r}, a {type(text).__name__}. Expected a string.")
    return texts
