"""Images of studies whose features are read from a cache (`families.feature_cache`) instead of encoded at each step."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from medvqa_core.errors import InputError
from medvqa_core.progress import track
from medvqa_hub.families.feature_cache import IMAGES_AT_ONCE, FeatureCache, digest_image, make_pixels
from medvqa_hub.training.batch_loading import load_batches
from medvqa_hub.training.study_questions import StudyQuestions

MEASURED = 4  # images


@dataclass(frozen=True)
class CachedImage:
    """An image whose features are read instead of its pixels.

    Attributes:
        cache: with its features.
        source: the image's file, or its bytes.
    """

    cache: FeatureCache
    source: Path | bytes

    def read(self) -> torch.Tensor:
        """Features (tokens, width), as they are stored.

        Raises:
            InputError: the image is missing, or has changed since the training began.
        """
        try:
            return self.cache.read(digest_image(self.source))
        except KeyError:
            where = self.source if isinstance(self.source, Path) else "an image of the rows"
            raise InputError(
                f"{where} has changed since its features were computed. Run the same command again"
            ) from None


class _Missing(Dataset):
    """Pixels by digest of each study's images that are not in the cache."""

    def __init__(self, cache: FeatureCache, questions: StudyQuestions) -> None:
        self.cache, self.questions = cache, questions.grouped
        self.family, self.processor = cache.encoder.family, cache.encoder.processor

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, study: int) -> dict[str, torch.Tensor]:
        """Pixels (3, H, W) of the images that the model would see."""
        row = self.questions.read_row(study, open_image=lambda source: source)
        sources, views = pair_images(row)
        kept, _ = self.family.arrange_images(self.processor, [sources], [views])
        missing = {digest: source for source in kept if (digest := digest_image(source)) not in self.cache}
        return {
            digest: make_pixels(self.family, self.processor, self.questions.read_film(source))
            for digest, source in missing.items()
        }


def fill_cache(cache: FeatureCache, questions: Sequence[StudyQuestions], accelerator: Any, workers: int) -> None:
    """Compute the features that are missing, each process a share of them.

    Args:
        questions: whose images are needed. They are read from the cache afterwards.
        accelerator: of the trainer.
        workers: processes that read images.

    Raises:
        InputError: an image is damaged or missing, or a file of the cache is damaged.
    """
    cache.open()
    encoder = cache.encoder.module
    training = encoder.training
    encoder.to(accelerator.device).eval()
    for split in questions:
        studies = _Missing(cache, split)
        numbers = range(accelerator.process_index, len(studies), accelerator.num_processes)
        waiting: dict[str, torch.Tensor] = {}
        for found in track(load_batches(studies, numbers, workers), "encoding images", total=len(numbers)):
            waiting |= {digest: pixels for digest, pixels in found.items() if digest not in cache}
            if len(waiting) >= IMAGES_AT_ONCE:
                cache.add(waiting)
                waiting = {}
        cache.add(waiting)
        cache.flush()
        accelerator.wait_for_everyone()
        cache.find()
        split.open_image = partial(CachedImage, cache)
    encoder.train(training)


@dataclass(frozen=True)
class CacheCost:
    """What the features of an image cost, measured on this machine with an encoder of random weights.

    Attributes:
        values: numbers in the features.
        decoding: seconds to read and decode the image's file, in one process.
        encoding: seconds of the encoder's pass.
        device: that encoded, such as "cpu".
    """

    values: int
    decoding: float
    encoding: float
    device: str

    def estimate_seconds(self, images: int, workers: int) -> float:
        """Seconds to fill a cache in one process, whose workers decode while it encodes."""
        per_image = max(self.decoding / workers, self.encoding) if workers else self.decoding + self.encoding
        return images * per_image


@torch.no_grad()
def measure_cost(encoder: torch.nn.Module, questions: StudyQuestions, device: torch.device, bf16: bool) -> CacheCost:
    """Decode and encode MEASURED images.

    Args:
        encoder: its weights do not matter. It may be on the device "meta".
        questions: whose first images are decoded.
        bf16: encode in autocast to bfloat16.

    Raises:
        InputError: an image is damaged or missing.
    """
    encoder = encoder.to_empty(device=device).eval()
    for value in [*encoder.parameters(), *encoder.buffers()]:
        value.normal_(std=0.02) if value.is_floating_point() else value.zero_()
    start, decoded = time.perf_counter(), 0
    for study in range(len(questions)):
        decoded += len(pair_images(questions.read_row(study))[0])
        if decoded >= MEASURED:
            break
    decoding = (time.perf_counter() - start) / max(1, decoded)
    side = encoder.config.image_size
    for count in (1, MEASURED):  # the first pass is slower
        pixels = torch.randn(count, 3, side, side, dtype=encoder.dtype, device=device)
        start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            features = encoder(pixel_values=pixels).last_hidden_state
        values = features[0].cpu().numel()  # waits for the device
    return CacheCost(values, decoding, (time.perf_counter() - start) / MEASURED, str(device))


def pair_images(row: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The images of a study that are there, and their views."""
    pairs = [pair for pair in zip(row["images"], row["views"], strict=True) if pair[0] is not None]
    return [image for image, _ in pairs], [view for _, view in pairs]
