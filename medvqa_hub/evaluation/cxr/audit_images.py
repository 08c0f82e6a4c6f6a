"""Changed images of an audit: noise, low-pass, and images with patches over regions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
from PIL import Image, ImageStat

from medvqa_core.digests import digest
from medvqa_core.errors import InputError
from medvqa_core.files import atomic_file
from medvqa_hub.evaluation.cxr.audit_boxes import Box
from medvqa_hub.evaluation.cxr.model_inference import read_image

LOW_PASS = 16  # pixels that a low-pass image is reduced to
NOISE, LOW_PASSED, PATCHED, UNCHANGED = "noise", "low_pass", "patched", "own"


@dataclass(frozen=True)
class ImageWriter:
    """Writes changed images into `folder`. The name of a file depends on its source's content and on the change.

    Attributes:
        digests: of the original images, from `digest_images`.
        private: write them for their owner alone.
    """

    folder: Path
    digests: Mapping[Path, str]
    private: bool

    def write(self, path: Path | None, change: str, boxes: Sequence[Box] = ()) -> Path | None:
        """Write the changed image unless it exists, and return its path. An unreadable image stays as it is."""
        if path is None:
            return None
        name = digest(repr((self.digests[path], change, LOW_PASS, boxes)))[:16]
        target = self.folder / f"{path.stem}-{change}-{name}.png"
        if target.exists():
            return target
        try:
            image = read_image(path).convert("L")
        except InputError:  # the source of the answers reports it
            return path
        if change == NOISE:
            rng = np.random.default_rng(int(self.digests[path][:16], 16))
            image = Image.fromarray(rng.integers(0, 256, (image.height, image.width), np.uint8))
        elif change == LOW_PASSED:
            image = image.resize((LOW_PASS, LOW_PASS), Image.Resampling.BOX).resize(image.size)
        mean = round(ImageStat.Stat(image).mean[0])
        for box in boxes:
            image.paste(mean, _find_pixels(box, image.size))
        return self._save(image, target)

    def write_blank(self) -> Path:
        """Write the image that stands for None."""
        return self._save(read_image(None), self.folder / "blank.png")

    def _save(self, image: Image.Image, target: Path) -> Path:
        with atomic_file(target, private=self.private, synced=False) as file:
            image.save(file, "PNG")
        return target


def _find_pixels(box: Box, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Pixels that contain the box. Their number only depends on its size, so that a control is as large as a region."""
    starts, lengths = [], []
    for start, end, side in zip(box[:2], box[2:], size, strict=True):
        lengths.append(min(side, ceil(round((end - start) * side, 6)) + 1))
        starts.append(min(int(start * side), side - lengths[-1]))
    return starts[0], starts[1], starts[0] + lengths[0], starts[1] + lengths[1]
