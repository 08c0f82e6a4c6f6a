"""A loaded checkpoint that answers the questions of a batch of studies in one generate call."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from medvqa_core.errors import ConfigError, InputError, one_line
from medvqa_core.governance import Governance
from medvqa_core.llm.greedy_logprobs import GreedyLogprobs
from medvqa_hub.evaluation.cxr.options import GenerationSettings
from medvqa_hub.evaluation.cxr.studies import BLANK_GREY, BLANK_SIZE, Study
from medvqa_hub.families.checkpoint import Checkpoint
from medvqa_hub.families.registry import find_family, is_decoder_only, through_first_eos
from mimic_cxr_vqa.images import FILM_SIDE, read_film

if TYPE_CHECKING:
    from medvqa_hub.families.feature_cache import FeatureCache


@dataclass(frozen=True)
class Answer:
    """Attributes:
    tokens: number of new tokens with the end token.
    truncated: whether the limit was reached before the end token.
    logprob: mean log-probability of the tokens. None with several beams.
    """

    text: str
    tokens: int
    truncated: bool
    logprob: float | None = None

    @property
    def details(self) -> dict[str, Any]:
        """Further fields of its record."""
        stated = {} if self.logprob is None else {"logprob": round(self.logprob, 4)}
        return {"tokens": self.tokens, "truncated": self.truncated, **stated}


class UnusableStudyError(Exception):
    """A study whose images cannot be used. Its answers are recorded as failed and the run continues."""


class StudyAnswerer:
    """Model and processor of a checkpoint, on the GPU if there is one.

    Args:
        device: a GPU or "cpu".
        features: folder of cached features, which checkpoints with the same image encoder share. None: no cache.
        governance: the strictest class of the images and the checkpoint, for the cache.

    Raises:
        InputError: the checkpoint is incomplete or damaged, or model and processor do not belong together.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        settings: GenerationSettings,
        device: str | None = None,
        features: Path | None = None,
        governance: Governance = Governance.CREDENTIALED,
    ) -> None:
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self.family, self.settings = find_family(checkpoint.kind), settings
        self.family.register()
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        try:
            self.model, report = AutoModelForImageTextToText.from_pretrained(
                checkpoint.folder,
                dtype=getattr(torch, settings.dtype),
                output_loading_info=True,
                local_files_only=True,  # `open_checkpoint` has downloaded the files
            )
            self.processor = AutoProcessor.from_pretrained(checkpoint.folder, local_files_only=True)
            if hasattr(self.processor, "check_config"):
                self.processor.check_config(self.model.config)
        except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
            raise InputError(f"{checkpoint.folder} cannot be loaded: {one_line(error)}") from error
        if report["missing_keys"]:  # transformers would use random weights
            missing = sorted(report["missing_keys"])
            some = ", ".join(missing[:3]) + ", …" * (len(missing) > 3)
            raise InputError(f"{checkpoint.folder} lacks {len(missing)} weights ({some}). Copy or convert it again.")
        self.model.eval().to(self.device)
        # The size that the released models' files were shrunk to, but at least the size of the processor.
        self.side = max(FILM_SIDE, *(getattr(self.processor, name, 0) for name in ("resize_size", "image_size")))
        self.cache = None if features is None else self._open_cache(features, governance)

    def _open_cache(self, folder: Path, governance: Governance) -> "FeatureCache":
        from medvqa_hub.families.feature_cache import FeatureCache, ImageEncoder

        encoder = ImageEncoder(self.family, self.model, self.processor, self.side, "float32")
        cache = FeatureCache(folder, encoder, self.settings.dtype, governance)  # as computed, so that answers are equal
        cache.open()
        return cache

    def prepare_images(self, studies: Sequence[Study]) -> dict[str, Any]:
        """Arguments of the model's `encode` for `studies`.

        Raises:
            UnusableStudyError: an image cannot be decoded, or a study lacks an image that the model supports.
        """
        try:
            most = getattr(self.processor, "max_images", None)
            paths = [list(study.images[:most]) for study in studies]
            views = [list(study.views[:most]) for study in studies]
            if self.cache is not None and (cached := self._read_cached(paths, views)) is not None:
                return cached
            images = [[read_image(path, self.side) for path in study] for study in paths]
            return dict(self.family.collate(self.processor, images, views))
        except (ValueError, OSError, InputError) as error:
            raise UnusableStudyError(one_line(error)) from error

    def _read_cached(self, paths: list[list[Path | None]], views: list[list[Any]]) -> dict[str, Any] | None:
        """Image inputs without pixels, `digests` of the images, and pixels of the `missing` ones by digest.

        None if the model supports no image of a study, which the processor refuses.
        """
        from medvqa_hub.families.feature_cache import digest_image, make_pixels

        assert self.cache is not None
        pairs = zip(paths, views, strict=True)
        if not all(self.family.arrange_images(self.processor, [study], [names])[0] for study, names in pairs):
            return None
        kept, inputs = self.family.arrange_images(self.processor, paths, views)
        digests = [digest_image(read_image(None).tobytes() if path is None else path) for path in kept]
        wanted = {digest: path for digest, path in zip(digests, kept, strict=True) if digest not in self.cache}
        missing = {
            digest: make_pixels(self.family, self.processor, read_image(path, self.side))
            for digest, path in wanted.items()
        }
        return {**inputs, "digests": digests, "missing": missing}

    def _encode(self, images: dict[str, Any]) -> Any:
        """Features of studies. Images that are not in the cache are encoded and added to it."""
        import torch

        if self.cache is not None and "digests" in images:
            images = dict(images)
            digests, missing = images.pop("digests"), images.pop("missing")
            self.cache.add({digest: pixels for digest, pixels in missing.items() if digest not in self.cache})
            images["image_features"] = torch.stack([self.cache.read(digest) for digest in digests])
        return self.model.encode(**{name: value.to(self.device) for name, value in images.items()})

    def flush(self) -> None:
        """Write the features that are only in memory, if there is a cache."""
        if self.cache is not None:
            self.cache.flush()

    def answer(self, images: dict[str, Any], questions: Sequence[str], study_index: Sequence[int]) -> list[Answer]:
        """Answers to `questions`. `images` is the result of `prepare_images`, and `study_index` refers to it.

        Raises:
            ConfigError: the GPU runs out of memory.
        """
        import torch

        most = self.settings.max_new_tokens
        limit: dict[str, Any] = {} if most is None else {"max_new_tokens": most}
        logprobs = GreedyLogprobs() if self.settings.num_beams == 1 else None
        if logprobs is not None:
            limit["logits_processor"] = [logprobs]
        try:
            with torch.inference_mode():
                encoded = self._encode(images)
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
                f"{len(questions)} questions about {max(study_index) + 1} studies do not fit into the GPU's memory. "
                "Lower --questions-per-batch or add --bf16."
            ) from error
        # Sequences of encoder-decoder models begin with the decoder's start token.
        prompt = text["input_ids"].shape[1] if is_decoder_only(self.model) else 1
        texts = self.processor.batch_decode(sequences, skip_special_tokens=True)
        new, ends = sequences[:, prompt:], self.model.generation_config.eos_token_id  # one or several
        lengths = through_first_eos(new, ends).sum(1).tolist()
        closed = torch.isin(new, torch.as_tensor(ends, device=new.device)).any(1).tolist()
        return [
            Answer(text.strip(), length, not done, logprobs.mean(row, length) if logprobs and length else None)
            for row, (text, length, done) in enumerate(zip(texts, lengths, closed, strict=True))
        ]


def read_image(path: Path | None, side: int = FILM_SIDE) -> Image.Image:
    """The image as in training: grey, with its shorter side shrunk to `side`. None is a blank image."""
    if path is None:
        return Image.new("L", (BLANK_SIZE, BLANK_SIZE), BLANK_GREY)
    return read_film(path, side)
