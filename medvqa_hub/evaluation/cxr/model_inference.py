"""A loaded checkpoint that answers the questions of a batch of studies: images encoded once, then one generate call.

In what the models differ is their families' to log (`medvqa_hub.families.registry`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from medvqa_core.errors import ConfigError, InputError, one_line
from medvqa_hub.evaluation.cxr.studies import BLANK_GREY, BLANK_SIZE, Study
from medvqa_hub.families.checkpoint import Checkpoint
from medvqa_hub.families.registry import find_family, is_decoder_only, through_first_eos
from mimic_cxr_vqa.images import FILM_SIDE, read_film


@dataclass(frozen=True)
class GenerationSettings:
    """How answers are written: greedy or by beam search, never sampled. The paper's: beam 2.

    Attributes:
        max_new_tokens: of an answer; None: as many as the checkpoint allows itself (128, of converted weights 63).
    """

    num_beams: int = 2
    max_new_tokens: int | None = None
    dtype: str = "float32"  # or "bfloat16"

    def __post_init__(self) -> None:
        for name in ("num_beams", "max_new_tokens"):
            found = getattr(self, name)
            if found is not None and found < 1:
                raise ConfigError(f"{name} is {found}; it must be at least 1")
        if self.dtype not in ("float32", "bfloat16"):
            raise ConfigError(f"dtype is {self.dtype!r}; allowed are float32 and bfloat16")


@dataclass(frozen=True)
class Answer:
    """tokens: new tokens with the closing one. truncated: the limit was reached before the answer was closed."""

    text: str
    tokens: int
    truncated: bool


class UnusableStudyError(Exception):
    """A study whose images cannot be used; the message says why. It becomes a failure record, not an end of the run."""


class StudyAnswerer:
    """Model and processor of a checkpoint, on the GPU if there is one.

    Raises:
        ConfigError: bfloat16 is asked for and there is no GPU.
        InputError: the checkpoint is incomplete or damaged, or model and processor do not belong together.
    """

    def __init__(self, checkpoint: Checkpoint, settings: GenerationSettings, device: str | None = None) -> None:
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self.family, self.settings = find_family(checkpoint.kind), settings
        self.family.register()
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if settings.dtype == "bfloat16" and self.device.type == "cpu":
            raise ConfigError(
                "--bf16 needs a GPU, and none is found, or --launch says --cpu; leave --bf16 out, or run on a GPU"
            )
        try:
            self.model, report = AutoModelForImageTextToText.from_pretrained(
                checkpoint.folder,
                dtype=getattr(torch, settings.dtype),
                output_loading_info=True,
                local_files_only=True,  # `open_checkpoint` has fetched what may be fetched
            )
            self.processor = AutoProcessor.from_pretrained(checkpoint.folder, local_files_only=True)
            if hasattr(self.processor, "check_config"):
                self.processor.check_config(self.model.config)
        except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
            raise InputError(f"{checkpoint.folder} cannot be loaded: {one_line(error)}") from error
        if report["missing_keys"]:  # transformers would go on with random weights in their place
            some = ", ".join(sorted(report["missing_keys"])[:3])
            raise InputError(
                f"{checkpoint.folder} lacks {len(report['missing_keys'])} weights ({some}, …); save it again"
            )
        self.model.eval().to(self.device)

    def prepare_images(self, studies: Sequence[Study]) -> dict[str, Any]:
        """What the model's `encode` takes, for `studies`.

        Raises:
            UnusableStudyError: an image cannot be decoded, or a study has none that the model takes.
        """
        try:
            most = getattr(self.processor, "max_images", None)  # no image is decoded that the model does not take
            # What the released models' files were shrunk to, and never below what the processor resizes to.
            side = max(FILM_SIDE, *(getattr(self.processor, name, 0) for name in ("resize_size", "image_size")))
            images = [[read_image(path, side) for path in study.images[:most]] for study in studies]
            return dict(self.family.collate(self.processor, images, [list(study.views[:most]) for study in studies]))
        except (ValueError, OSError, InputError) as error:
            raise UnusableStudyError(one_line(error)) from error

    def answer(self, images: dict[str, Any], questions: Sequence[str], study_index: Sequence[int]) -> list[Answer]:
        """Answers to `questions`, each about the study of its index in `images` (what `prepare_images` gave).

        Raises:
            ConfigError: the GPU's memory does not suffice.
        """
        import torch

        most = self.settings.max_new_tokens
        limit = {} if most is None else {"max_new_tokens": most}
        try:
            with torch.inference_mode():
                encoded = self.model.encode(**{name: value.to(self.device) for name, value in images.items()})
                text = self.processor(text=list(questions), study_index=list(study_index)).to(self.device)
                sequences = self.model.generate(
                    **text,
                    encoder_outputs=encoded,
                    num_beams=self.settings.num_beams,
                    do_sample=False,
                    **limit,
                )
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                f"{len(questions)} questions about {max(study_index) + 1} studies do not fit into the GPU's memory: "
                "lower --questions-per-batch, or use --bf16"
            ) from error
        # Other models' sequences begin with the token that starts their decoder.
        prompt = text["input_ids"].shape[1] if is_decoder_only(self.model) else 1
        texts = self.processor.batch_decode(sequences, skip_special_tokens=True)
        new, ends = sequences[:, prompt:], self.model.generation_config.eos_token_id  # one token, or several
        lengths = through_first_eos(new, ends).sum(1).tolist()
        closed = torch.isin(new, torch.as_tensor(ends, device=new.device)).any(1).tolist()
        return [
            Answer(text.strip(), length, not done) for text, length, done in zip(texts, lengths, closed, strict=True)
        ]


def read_image(path: Path | None, side: int = FILM_SIDE) -> Image.Image:
    """The image as training reads it: grey, its shorter side shrunk to `side`. A blank one for None."""
    if path is None:
        return Image.new("L", (BLANK_SIZE, BLANK_SIZE), BLANK_GREY)
    return read_film(path, side)
