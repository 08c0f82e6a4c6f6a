"""Processor of BLIP-2-MultiView: radiographs with their view names and questions in, the model's tensors out.

Images: any mode of 8 or 16 bits to RGB, resized (bicubic, both sides to `image_size`), scaled and normalised with
CLIP's mean and standard deviation by transformers' Pillow backend, so that torchvision changes nothing. Text:
`Question: .. Answer:`.
The tokens [AP], [PA], [LAT] and [Q] are not in the text: the model puts their embeddings in front of it.
"""

from .configuration_blip2_multiview import VIEWS

# isort: split
# First of all, since it names the version of transformers that is needed.
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
# What a chat comes to: the words of its one question. Its images go to the processor beside them.
CHAT_TEMPLATE = """
{%- if messages | length != 1 or messages[0]["role"] != "user" -%}
{{- raise_exception("a chat holds one message, the user's question with its images: this model holds no talks") -}}
{%- endif -%}
{%- set content = messages[0]["content"] -%}
{%- if content is string -%}
{{- content -}}
{%- else -%}
{{- content | selectattr("type", "equalto", "text") | map(attribute="text") | join(" ") -}}
{%- endif -%}
"""


class Blip2MultiViewProcessor(ProcessorMixin):
    """Makes the inputs of `Blip2MultiViewForConditionalGeneration`.

    Args:
        tokenizer: The language model's own tokenizer.
        image_size: Height and width that the vision tower takes.
        image_mean: Mean per channel.
        image_std: Standard deviation per channel.
        unknown_views: What to do with a view that is no alias of AP, PA or LAT: "skip" the image and count it in
            `skipped_views`, raise an "error", or a mapping from such names to known ones, {"": "AP"} log, which also
            raises for names it does not have. Case does not matter, nor for the known names.
        default_view: What images are that come without any views, from a pipeline say. AP is the commonest view in
            MIMIC-CXR; one warning says that it was taken.
        max_question_tokens: A longer question is cut, with one warning; the words around it stay.
        max_answer_tokens: A longer answer is cut, with one warning.
        chat_template: Unused; transformers passes it.

    Raises:
        ValueError: `unknown_views` or `default_view` is none of these, or a limit is below one.
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
    ):
        super().__init__(tokenizer, chat_template=chat_template)
        if unknown_views not in ("skip", "error") and not isinstance(unknown_views, Mapping):
            raise ValueError(f"unknown_views is {unknown_views!r}; allowed are 'skip', 'error' or a mapping of names")
        for name, view in () if isinstance(unknown_views, str) else unknown_views.items():
            if view not in VIEW_ALIASES:
                raise ValueError(f"unknown_views maps to {view!r}; allowed are {', '.join(VIEW_ALIASES)}")
            if clean_view(name) in VIEW_ALIASES:
                raise ValueError(f"unknown_views maps {name!r}, which is a known name; leave it out")
        for name, limit in {"max_question_tokens": max_question_tokens, "max_answer_tokens": max_answer_tokens}.items():
            if limit < 1:
                raise ValueError(f"{name} is {limit}; it must be at least 1")
        if default_view not in VIEW_ALIASES:
            raise ValueError(f"default_view is {default_view!r}; allowed are {', '.join(VIEW_ALIASES)}")
        self.default_view = default_view
        self.image_size, self.image_mean, self.image_std = image_size, list(image_mean), list(image_std)
        self.unknown_views = unknown_views if isinstance(unknown_views, str) else dict(unknown_views)
        self.max_question_tokens, self.max_answer_tokens = max_question_tokens, max_answer_tokens
        size = {"height": image_size, "width": image_size}
        # Not an argument: a saved image processor would be reloaded with torchvision where that is installed.
        self.image_processor = BlipImageProcessorPil(size=size, image_mean=self.image_mean, image_std=self.image_std)
        # Of this process: workers of a DataLoader count for themselves.
        self.skipped_views: Counter[str] = Counter()

    @property
    def model_input_names(self) -> list[str]:
        return ["pixel_values", "image_study", "image_view", "input_ids", "attention_mask", "study_index"]

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
        """Make a batch.

        Args:
            images: Per study its images: Pillow images, or arrays of uint8 or uint16, (H, W) or with 1 or 3 channels.
                One study may be given as a flat list, or as its only image.
            views: Per study the view name of each image (ViewPosition), in the same nesting; None and NaN are "".
                Left out, all images are of `default_view`.
            text: Questions.
            answers: Reference answers, one per question; they become `labels`.
            study_index: Per question the number of its study; None when there is one question per study, in order.
            return_tensors: "pt", the only kind there is.
            padding: True or "longest", which is what is done in any case; pipelines pass it.

        Returns:
            `pixel_values (images, 3, H, W)`, `image_study (images,)`, `image_view (images,)` if there are images;
            `input_ids` and `attention_mask (questions, tokens)` if there is text; `labels (questions, tokens)`, -100 on
            padding; `study_index (questions,)`.

        Raises:
            ValueError: Images, views, questions, answers and studies do not fit together in number, a study has no
                image of a known view, an image is empty or of an unknown mode, a view is unknown and not skipped, or
                an argument came without the one that it belongs to.
            TypeError: An image is neither a Pillow image nor such an array, a view or a text is no string, or an
                argument is unknown.
        """
        unknown = sorted(name for name, value in kwargs.items() if value is not None)  # pipelines: videos=None
        if unknown:
            raise TypeError(f"unknown arguments {unknown} of {type(self).__name__}")
        if padding not in (True, "longest"):
            raise ValueError(f"padding is {padding!r}; allowed are True and 'longest', as rows of a batch are")
        if return_tensors != "pt":
            raise ValueError(f"return_tensors is {return_tensors!r}; only 'pt' is supported")
        if images is None and text is None:
            raise ValueError("neither images nor text was passed; pass images with views, or text, or all three")
        for name, value in {"answers": answers, "study_index": study_index}.items():
            if value is not None and text is None:
                raise ValueError(f"{name} came without text, the questions; pass both")
        if views is not None and images is None:
            raise ValueError("views came without images; pass both")
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
                    f"{len(questions)} questions for {studies} studies; pass study_index, the study of each question"
                )
            if study_index is not None:
                batch["study_index"] = self._encode_study_index(study_index, len(questions), studies)
        return BatchFeature(batch)

    def apply_chat_template(self, conversation: Any, chat_template: str | None = None, **kwargs: Any) -> Any:
        """As every processor's; without a template of its own a chat is one message, a question with its images."""
        return super().apply_chat_template(conversation, chat_template or self.chat_template or CHAT_TEMPLATE, **kwargs)

    def _default_views(self, images: Any) -> Any:
        """`default_view` for each image, nested as they are."""
        if not isinstance(images, list | tuple):
            logger.warning_once(f"images without views are taken for {self.default_view} (default_view); pass views")
            return self.default_view
        return [self._default_views(image) for image in images]

    def view_number(self, view: str | None) -> int | None:
        """0 AP, 1 PA, 2 LAT, whatever the alias and its case; None if the image is to be skipped.

        Raises:
            ValueError: The view is unknown and the policy is not to skip it.
            TypeError: The view is no string.
        """
        name = clean_view(view)
        known = VIEW_ALIASES.get(name)
        if known is None and isinstance(self.unknown_views, dict):
            mapping = {clean_view(unknown): target for unknown, target in self.unknown_views.items()}
            known = VIEW_ALIASES.get(mapping.get(name))
        if known is not None:
            return VIEWS.index(known)
        if self.unknown_views == "skip":
            return None
        raise ValueError(
            f"unknown view {view!r}; known are {', '.join(VIEW_ALIASES)}. Set unknown_views to 'skip', or to a "
            f"mapping such as {{{name!r}: 'AP'}}"
        )

    @staticmethod
    def _nest(images: Sequence, views: Sequence) -> tuple[list[list], list[list]]:
        """Images and views as lists of studies, checked to be of the same lengths."""
        if isinstance(images, Image.Image | np.ndarray):
            images = [images]
            views = [views] if isinstance(views, str) else views
        if isinstance(views, str):
            raise ValueError(f"views is {views!r} for a list of images; pass a list too, with a name for each image")
        if all(isinstance(view, str) or not hasattr(view, "__iter__") for view in views):
            images, views = [images], [views]
        for number, (some_images, some_views) in enumerate(zip(images, views, strict=False)):
            if isinstance(some_images, Image.Image | np.ndarray) or isinstance(some_views, str):
                raise ValueError(
                    f"study {number} of images or views is no list; pass a list per study in both, or two flat lists "
                    "for the images of one study"
                )
        images, views = [list(study) for study in images], [list(study) for study in views]
        if len(images) != len(views):
            raise ValueError(f"images holds {len(images)} studies, views {len(views)}; they must be nested alike")
        for number, (some_images, some_views) in enumerate(zip(images, views, strict=True)):
            if len(some_images) != len(some_views):
                raise ValueError(f"study {number} has {len(some_images)} images and {len(some_views)} views")
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
                    f"study {study} has no image to use: its views are {some_views}, known are "
                    f"{', '.join(VIEW_ALIASES)}; leave the study out, or map its views with unknown_views={{...}}"
                )
        if not chosen:
            raise ValueError("images holds no study; pass at least one image")
        pixels = self.image_processor(chosen, return_tensors="pt")["pixel_values"]
        return {
            "pixel_values": pixels,
            "image_study": torch.tensor(studies),
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
            raise ValueError(f"{len(answers)} answers for {len(questions)} questions; pass one answer per question")
        longest = max(len(ids) for ids in self.tokenizer(answers, verbose=False)["input_ids"])
        if longest > self.max_answer_tokens:
            logger.warning_once(f"answers of more than {self.max_answer_tokens} tokens are cut (max_answer_tokens)")
        limits = {"truncation": True, "max_length": self.max_answer_tokens}
        encoded = self.tokenizer(answers, padding=True, padding_side="right", return_tensors="pt", **limits)
        batch["labels"] = encoded["input_ids"].masked_fill(encoded["attention_mask"] == 0, -100)
        return batch

    def _shorten(self, question: str) -> str:
        """The question, cut after `max_question_tokens` tokens."""
        encoded = self.tokenizer(question, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        if len(encoded["input_ids"]) <= self.max_question_tokens:
            return question
        logger.warning_once(f"questions of more than {self.max_question_tokens} tokens are cut (max_question_tokens)")
        return question[: encoded["offset_mapping"][self.max_question_tokens - 1][1]]

    @staticmethod
    def _encode_study_index(study_index: Any, questions: int, studies: int | None) -> torch.Tensor:
        index = torch.as_tensor(study_index)
        if index.is_floating_point() or index.dtype == torch.bool:
            raise ValueError(f"study_index holds {index.dtype}; pass whole numbers, the study of each question")
        index = index.long()
        if index.shape != (questions,):
            raise ValueError(f"study_index has shape {tuple(index.shape)}, expected ({questions},): one per question")
        if index.min() < 0 or (studies is not None and index.max() >= studies):
            allowed = "0 and up" if studies is None else f"0 to {studies - 1} for {studies} studies"
            raise ValueError(f"study_index holds {index.tolist()}, allowed are {allowed}")
        return index

    @classmethod
    def from_blip2(cls, path: str, **changes) -> "Blip2MultiViewProcessor":
        """The processor for a model of `from_blip2(path)`: the same tokenizer, the same image size."""
        image_size = AutoConfig.from_pretrained(path).vision_config.image_size
        return cls(AutoTokenizer.from_pretrained(path), **{"image_size": image_size, **changes})

    @classmethod
    def tiny(cls, texts: Sequence[str] = TEXTS, vocab_size: int = 512, **changes) -> "Blip2MultiViewProcessor":
        """A processor for `Blip2MultiViewConfig.tiny()`: a tokenizer of the words of `texts`, images of 28 x 28."""
        return cls(make_tokenizer(texts, vocab_size), **{"image_size": 28, **changes})


def clean_view(view: Any) -> str:
    """A view's name without spaces around it, in capitals; "" for None and NaN, which an empty table cell becomes.

    Raises:
        TypeError: It is something else than a name, a number say.
    """
    if view is None or (isinstance(view, float) and math.isnan(view)):
        return ""
    if not isinstance(view, str):
        raise TypeError(
            f"a view is {view!r}, a {type(view).__name__}; pass its name, one of {', '.join(VIEW_ALIASES)}, or None"
        )
    return view.strip().upper()


def _as_texts(name: str, texts: str | Sequence[str]) -> list[str]:
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not texts:
        raise ValueError(f"{name} is empty; pass at least one")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{number}] is {text!r}, a {type(text).__name__}; pass a string")
    return texts
