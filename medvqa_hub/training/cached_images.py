"""Images of studies whose features are read from a cache (`families.feature_cache`) instead of encoded at each step."""

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


def pair_images(row: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The images of a study that are there, and their views."""
    pairs = [pair for pair in zip(row["images"], row["views"], strict=True) if pair[0] is not None]
    return [image for image, _ in pairs], [view for _, view in pairs]
