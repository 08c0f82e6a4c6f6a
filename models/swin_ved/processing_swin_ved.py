"""Processor of SwinVED: images, questions and answers to model inputs, and generated tokens to answers.

A study is a list of up to 3 images, which several questions may share (`study_index`). A question becomes
`[CLS] question [BOS]`, padded on the left for `generate`. With its answer it becomes `[CLS] question [BOS] answer
[EOS]`, padded on the right, with labels for `answer [EOS]`.

The release padded every question to 64 tokens, every answer to 256 with [EOS] after the padding, and every study to
three images. Here texts are padded to the longest of the batch, and the encoder skips absent images.
"""

import warnings
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import BatchFeature, PreTrainedTokenizerBase, ProcessorMixin

from .augmenting_swin_ved import augment as augment_image
from .configuration_swin_ved import SwinVedConfig
from .image_processing_swin_ved import normalize, resize_and_crop, to_eight_bit

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RESIZE_RATIO = 416 / 384
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


class SwinVedProcessor(ProcessorMixin):
    """Prepares images and text for SwinVED.

    Args:
        tokenizer: word-level tokenizer, such as `train_tokenizer` returns.
        image_size: side of the encoder's images.
        resize_size: length of the shorter side before cropping. None keeps the release's ratio, 416 to 384.
        image_mean, image_std: of each channel of pixels scaled to 0..1.
        max_images: most images of a study.
        max_question_tokens: longest question with [CLS].
        max_answer_tokens: longest answer with [EOS].
        governance: class of the training data, saved with the other settings.

    Raises:
        ValueError: a setting is out of range, or the tokenizer lacks a special token.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        image_size: int = 384,
        resize_size: int | None = None,
        image_mean: list[float] | tuple[float, ...] = IMAGENET_MEAN,
        image_std: list[float] | tuple[float, ...] = IMAGENET_STD,
        max_images: int = 3,
        max_question_tokens: int = 64,
        max_answer_tokens: int = 256,
        chat_template: str | None = None,
        governance: str | None = None,
    ) -> None:
        self.governance = governance
        self.image_size = image_size
        self.resize_size = round(image_size * RESIZE_RATIO) if resize_size is None else resize_size
        if not 0 < self.image_size <= self.resize_size:
            raise ValueError(
                f"image_size is {image_size} and resize_size {resize_size}. Expected 0 < image_size <= resize_size."
            )
        self.image_mean, self.image_std = list(image_mean), list(image_std)
        self.max_images = max_images
        self.max_question_tokens = max_question_tokens
        self.max_answer_tokens = max_answer_tokens
        self._warned: set[str] = set()
        tokenizer.padding_side = "left"  # pipelines concatenate batches by it
        self._check_settings(tokenizer)
        super().__init__(tokenizer, chat_template=chat_template)

    def _check_settings(self, tokenizer: PreTrainedTokenizerBase) -> None:
        lowest = {"max_images": 1, "max_question_tokens": 2, "max_answer_tokens": 2}
        for name, limit in lowest.items():
            value = getattr(self, name)
            if value < limit:
                raise ValueError(f"{name} is {value}. It must be at least {limit}.")
        names = ("cls_token", "pad_token", "bos_token", "eos_token")
        missing = [name for name in names if getattr(tokenizer, f"{name}_id") is None]
        if missing:
            raise ValueError(f"The tokenizer lacks {', '.join(missing)}. Train one with swin_ved.train_tokenizer.")

    @property
    def image_processor(self) -> "SwinVedProcessor":
        """This processor. Pipelines need an image processor to batch the inputs of a generator."""
        return self

    @classmethod
    def from_config(
        cls, config: SwinVedConfig, tokenizer: PreTrainedTokenizerBase, **kwargs: Any
    ) -> "SwinVedProcessor":
        """The processor for a model of `config`. Raises ValueError if the tokenizer does not fit."""
        processor = cls(tokenizer, image_size=config.encoder.image_size, max_images=config.max_images, **kwargs)
        processor.check_config(config)
        return processor

    def check_config(self, config: SwinVedConfig) -> None:
        """Raise ValueError if vocabulary, special tokens, image size or limits differ from those of a model."""
        decoder = config.decoder
        positions = max(self.max_question_tokens, config.answer_position or 0) + 1 + self.max_answer_tokens
        pairs = {
            "vocabulary size": (len(self.tokenizer), decoder.vocab_size),
            "[PAD] id": (self.tokenizer.pad_token_id, decoder.pad_token_id),
            "[BOS] id": (self.tokenizer.bos_token_id, decoder.bos_token_id),
            "[EOS] id": (self.tokenizer.eos_token_id, decoder.eos_token_id),
            "image size": (self.image_size, config.encoder.image_size),
        }
        wrong = [f"{name} {ours}, the model's {theirs}" for name, (ours, theirs) in pairs.items() if ours != theirs]
        if self.max_images > config.max_images:
            wrong.append(f"max_images {self.max_images}, the model's {config.max_images}")
        if config.answer_position is not None and self.max_question_tokens > config.answer_position:
            wrong.append(f"max_question_tokens {self.max_question_tokens}, the model's {config.answer_position}")
        if positions > decoder.max_position_embeddings:
            wrong.append(f"up to {positions} tokens, the model's {decoder.max_position_embeddings}")
        if wrong:
            raise ValueError(
                f"Processor and model do not belong together: {'; '.join(wrong)}. Load both from one folder, or build "
                "the config with vocab_size=len(tokenizer)."
            )

    def __call__(
        self,
        images: Any = None,
        text: str | list[str] | None = None,
        answers: str | list[str] | None = None,
        released_targets: bool = False,
        study_index: list[int] | torch.Tensor | None = None,
        augment: bool = False,
        seed: int | None = None,
        truncate_images: bool = False,
        return_tensors: str = "pt",
        padding: bool | str = True,
        **kwargs: Any,
    ) -> BatchFeature:
        """Prepare a batch.

        Args:
            images: list of studies, each a list of images. A flat list of images, or one image, is one study.
            text: questions.
            answers: their answers, for training.
            released_targets: lay out answers as the release: `[CLS] question [PAD]… [BOS] answer [PAD]… [EOS]` of
                `max_question_tokens` + 1 + `max_answer_tokens` tokens, with labels for the padding of the answer too.
            study_index: the study of each question. Not needed for one study, or as many studies as questions.
            augment: apply the training augmentation instead of the central crop.
            seed: seed of the augmentation. None draws it from torch's generator.
            truncate_images: keep the first `max_images` of a study, as the release does. Otherwise more are an error.
            return_tensors: "pt" only.
            padding: True or "longest" only. Pipelines pass it.

        Returns:
            `pixel_values` (studies, max_images, 3, H, W) float32, `image_mask` (studies, max_images) bool, `input_ids`
            and `attention_mask` (questions, tokens), `labels` with answers, `position_ids` with released targets,
            and `study_index` (questions,) if questions and studies are not one to one.

        Raises:
            ValueError: a study without images or with too many, an empty text, or numbers that do not match.
            TypeError: an unknown argument, or an image or text of another type.
            OSError: an image's file is damaged.
        """
        unknown = sorted(name for name, value in kwargs.items() if value is not None)  # pipelines pass videos=None
        if unknown:
            raise TypeError(f"{type(self).__name__} does not take {unknown}.")
        if padding not in (True, "longest"):
            raise ValueError(f"padding is {padding!r}. Expected True or 'longest'.")
        if return_tensors != "pt":
            raise ValueError(f"return_tensors is {return_tensors!r}. Expected 'pt'.")
        if images is None and text is None:
            raise ValueError("Pass images, text (the questions), or both.")
        data: dict[str, torch.Tensor] = {}
        if images is not None:
            rng = None
            if augment:
                rng = np.random.default_rng(int(torch.randint(2**62, ())) if seed is None else seed)
            data |= self._images(as_studies(images), rng, truncate_images)
        if text is not None:
            data |= self._texts([text] if isinstance(text, str) else list(text), answers, released_targets)
        elif answers is not None:
            raise ValueError("answers were passed without text, their questions.")
        if text is not None:
            studies = None if images is None else len(data["pixel_values"])
            data |= encode_study_index(study_index, studies, len(data["input_ids"]))
        elif study_index is not None:
            raise ValueError("study_index was passed without text, the questions.")
        return BatchFeature(data)

    def apply_chat_template(self, conversation: Any, chat_template: str | None = None, **kwargs: Any) -> Any:
        """As in transformers, with a default template for one message, a question with its images."""
        return super().apply_chat_template(conversation, chat_template or self.chat_template or CHAT_TEMPLATE, **kwargs)

    def batch_decode(self, sequences: torch.Tensor | np.ndarray | list, **kwargs: Any) -> list[str]:
        """The answers in generated sequences (questions, tokens), which is the text after [BOS]."""
        rows = sequences if isinstance(sequences, list | tuple) else sequences.tolist()
        return [self._decode_row(_as_ids(row), **kwargs) for row in rows]

    def decode(self, sequence: torch.Tensor | np.ndarray | list[int], **kwargs: Any) -> str | list[str]:
        """The answer in one generated sequence (tokens,), or the list of `batch_decode` for (questions, tokens)."""
        ids = _as_ids(sequence)
        if ids and not isinstance(ids[0], int):
            return self.batch_decode(ids, **kwargs)
        return self._decode_row(ids, **kwargs)

    def _decode_row(self, ids: list[int], **kwargs: Any) -> str:
        tokenizer = self.tokenizer
        bos, eos, blank = tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id
        if bos in ids:
            ids = ids[ids.index(bos) + 1 :]
            if blank in ids:  # beams of converted weights write on behind the [PAD] that ends an answer
                ids = ids[: ids.index(blank)]
        if eos in ids:
            ids = ids[: ids.index(eos)]
        # Labels have -100 in front of the answer.
        ids = [token for token in ids if token >= 0]
        return tokenizer.decode(ids, **{"skip_special_tokens": True, **kwargs})

    def _images(
        self, studies: list[list[Any]], rng: np.random.Generator | None, truncate: bool
    ) -> dict[str, torch.Tensor]:
        if not studies:
            raise ValueError("images is empty. Pass at least one study with at least one image.")
        for number, study in enumerate(studies):
            if not study:
                raise ValueError(f"Study {number} is empty. Every study needs 1 to {self.max_images} images.")
            if len(study) > self.max_images and not truncate:
                raise ValueError(
                    f"Study {number} has {len(study)} images, more than {self.max_images}. Choose some of them, or "
                    "pass truncate_images=True to take the first ones."
                )
        studies = [study[: self.max_images] for study in studies]
        # The same number of columns in every batch, so that pipelines can concatenate them.
        pixel_values = torch.zeros(len(studies), self.max_images, 3, self.image_size, self.image_size)
        image_mask = torch.zeros(len(studies), self.max_images, dtype=torch.bool)
        for row, study in enumerate(studies):
            for column, image in enumerate(study):
                image = to_eight_bit(image, f"image {column} of study {row}")
                if rng is None:
                    image = resize_and_crop(image, self.resize_size, self.image_size)
                else:
                    image = augment_image(image, self.resize_size, self.image_size, rng)
                pixel_values[row, column] = normalize(image, self.image_mean, self.image_std)
                image_mask[row, column] = True
        return {"pixel_values": pixel_values, "image_mask": image_mask}

    def _texts(self, questions: list[str], answers: str | list[str] | None, released: bool) -> dict[str, torch.Tensor]:
        tokenizer = self.tokenizer
        prompts = [
            [tokenizer.cls_token_id, *ids, tokenizer.bos_token_id]
            for ids in self._tokens(questions, "question", self.max_question_tokens - 1)
        ]
        if answers is None:
            input_ids, attention_mask = pad(prompts, tokenizer.pad_token_id, left=True)
            return {"input_ids": input_ids, "attention_mask": attention_mask}
        answers = [answers] if isinstance(answers, str) else list(answers)
        if len(answers) != len(questions):
            raise ValueError(f"There are {len(questions)} questions and {len(answers)} answers.")
        tokens = self._tokens(answers, "answer", self.max_answer_tokens - 1)
        if released:
            return self._released_layout(prompts, tokens)
        targets = [[*ids, tokenizer.eos_token_id] for ids in tokens]
        sequences = [prompt + target for prompt, target in zip(prompts, targets, strict=True)]
        labels = [[-100] * len(prompt) + target for prompt, target in zip(prompts, targets, strict=True)]
        input_ids, attention_mask = pad(sequences, tokenizer.pad_token_id, left=False)
        return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": pad(labels, -100, left=False)[0]}

    def _released_layout(self, prompts: list[list[int]], answers: list[list[int]]) -> dict[str, torch.Tensor]:
        width, blank = self.max_question_tokens, self.tokenizer.pad_token_id
        input_ids = torch.full((len(prompts), width + 1 + self.max_answer_tokens), blank)
        input_ids[:, width], input_ids[:, -1] = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        for row, prompt, answer in zip(input_ids, prompts, answers, strict=True):
            row[: len(prompt) - 1] = torch.tensor(prompt[:-1])  # without [BOS]
            row[width + 1 : width + 1 + len(answer)] = torch.tensor(answer)
        labels = input_ids.clone()
        labels[:, : width + 1] = -100
        return {
            "input_ids": input_ids,
            "attention_mask": (input_ids != blank).long(),
            "labels": labels,
            "position_ids": torch.arange(input_ids.shape[1]).expand_as(input_ids),
        }

    def _tokens(self, texts: list[str], kind: str, limit: int) -> list[list[int]]:
        if not texts:
            raise ValueError(f"The list of {kind}s is empty.")
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"{kind} {number} is a {type(text).__name__}. Expected a string.")
        # Without split_special_tokens, "[BOS]" in a text would end the question.
        encoded = self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        for number, ids in enumerate(encoded):
            if not ids:
                raise ValueError(f"{kind} {number} is {texts[number]!r}, which does not contain a word.")
        if kind not in self._warned and any(len(ids) > limit for ids in encoded):
            self._warned.add(kind)
            longest = max(len(ids) for ids in encoded)
            warnings.warn(
                f"A {kind} of {longest} tokens was truncated to {limit} (max_{kind}_tokens - 1). This warning is "
                "shown once.",
                stacklevel=4,
            )
        return [ids[:limit] for ids in encoded]


def as_studies(images: Any) -> list[list[Any]]:
    """Nest a list of images or one image as a list of studies. Raises TypeError for anything else."""
    if isinstance(images, Image.Image | np.ndarray | torch.Tensor):
        return [[images]]
    if not isinstance(images, list | tuple):
        raise TypeError(f"images is a {type(images).__name__}. Expected a list of studies, each a list of images.")
    if images and not any(isinstance(study, list | tuple) for study in images):
        return [list(images)]
    if not all(isinstance(study, list | tuple) for study in images):
        raise TypeError("images mixes studies (lists) and single images. Pass a list of lists.")
    return [list(study) for study in images]


def pad(rows: list[list[int]], value: int, left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad to the longest row. Returns (rows, tokens) and its mask."""
    longest = max(len(row) for row in rows)
    padded = torch.full((len(rows), longest), value)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), None) if left else slice(len(row))
        padded[number, place] = torch.tensor(row)
        mask[number, place] = 1
    return padded, mask


def encode_study_index(study_index: Any, studies: int | None, questions: int) -> dict[str, torch.Tensor]:
    """`study_index` as a tensor (questions,), or nothing if the model does not need it.

    Args:
        study_index: the study of each question, or None.
        studies: number of studies, or None if images are passed to the model separately.
        questions: number of questions.

    Raises:
        ValueError: not one number of a study for each question, or missing.
    """
    if study_index is None:
        if studies is None or questions == studies:
            return {}
        if studies > 1:
            raise ValueError(f"{questions} questions about {studies} studies need study_index, the study of each one.")
        return {"study_index": torch.zeros(questions, dtype=torch.long)}
    index = torch.as_tensor(study_index)
    whole = not (index.is_floating_point() or index.dtype == torch.bool)
    if not whole or tuple(index.shape) != (questions,):
        raise ValueError(
            f"study_index is {index.dtype} of shape {tuple(index.shape)}. Expected ({questions},) whole numbers."
        )
    wrong = index[(index < 0) | (index >= (torch.inf if studies is None else studies))].tolist()
    if wrong:
        allowed = "0 and above" if studies is None else f"0 to {studies - 1}"
        raise ValueError(f"study_index has {wrong}. Expected {allowed}.")
    return {"study_index": index.long()}


def _as_ids(sequence: Any) -> list[Any]:
    return list(sequence) if isinstance(sequence, list | tuple) else sequence.tolist()
