"""Features of a frozen image encoder, computed once per image and kept on disk.

    FOLDER/KEY/manifest.json         governance class, and what KEY is a digest of
    FOLDER/KEY/DIGEST.safetensors    features (tokens, width) of up to 256 images, by the digest of the image's file

KEY covers the encoder's weights and configuration, the processor's image settings, the size to which images are shrunk,
and the precisions. So features of changed weights or images are never found. Files appear by rename: a killed run keeps
all but the last one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from medvqa_core.digests import digest_file
from medvqa_core.errors import InputError
from medvqa_core.files import MANIFEST, atomic_file, make_folder
from medvqa_core.governance import Governance, parse, strictest
from medvqa_core.json_files import plain, read_manifest, write_manifest
from medvqa_core.progress import track
from medvqa_core.store import content_key
from medvqa_hub.families.registry import ModelFamily
from medvqa_hub.training.batch_loading import ShardSampler, load_batches
from medvqa_hub.training.checkpoints import fingerprint_weights
from medvqa_hub.training.study_questions import StudyQuestions

KIND = "image-features"
IMAGES_AT_ONCE = 32  # in a forward pass
IMAGES_PER_FILE = 256
# Names in a config that saving and loading set.
UNRELATED = ("dtype", "architectures", "transformers_version", "_name_or_path")
REMEDY = "delete it, and run the same command again"


class FeatureCache:
    """Features by the digest of an image's file.

    Args:
        folder: for any number of encoders.
        family, model, processor: see `ModelFamily`. The family's `image_encoder` takes `pixel_values`
            (images, 3, H, W) and returns `last_hidden_state` (images, tokens, width).
        image_side: as in the recipe.
        precision: in which the encoder computes, "float32" or "bfloat16".
        dtype: in which features are stored: float32, float16 or bfloat16.
        governance: of the images.
    """

    def __init__(
        self,
        folder: Path,
        family: ModelFamily,
        model: torch.nn.Module,
        processor: Any,
        image_side: int | None,
        precision: str,
        dtype: str,
        governance: Governance,
    ) -> None:
        encoder = family.image_encoder(model)
        pixels = {name: value for name, value in processor.to_dict().items() if name.startswith(("image_", "resize_"))}
        settings = plain(
            {
                "weights": fingerprint_weights(encoder.state_dict().items()),
                "config": {
                    name: value for name, value in encoder.config.to_diff_dict().items() if name not in UNRELATED
                },
                "pixels": pixels,
                "image_side": image_side,
                "precision": precision,
                "dtype": dtype,
            }
        )
        self.family, self.processor, self.encoder = family, processor, encoder
        self.dtype, self.governance = getattr(torch, dtype), governance
        self.folder = folder / content_key(**settings)
        self._settings = settings
        self._files: dict[str, Path] = {}
        self._open: dict[Path, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """For worker processes: without the encoder and open files."""
        return {**self.__dict__, "encoder": None, "_open": {}}

    def __contains__(self, digest: str) -> bool:
        return digest in self._files

    def __len__(self) -> int:
        return len(self._files)

    def open(self) -> None:
        """Create the folder, or make its class as strict as the images', and find its features.

        Raises:
            InputError: a file is damaged.
        """
        make_folder(self.folder, self.governance.private)
        if (self.folder / MANIFEST).exists():
            found = read_manifest(self.folder, REMEDY)
            self.governance = strictest([self.governance, parse(found["governance"], str(self.folder))])
        write_manifest(self.folder, {"kind": KIND, "governance": str(self.governance), **self._settings}, indent=2)
        self.find()

    def find(self) -> None:
        """Find the features that any process has written."""
        for path in set(self.folder.glob("*.safetensors")) - set(self._files.values()):
            self._files |= dict.fromkeys(self._reader(path).keys(), path)

    def read(self, digest: str) -> torch.Tensor:
        """Features (tokens, width) of an image. Raises KeyError if it is not in the cache."""
        return self._reader(self._files[digest]).get_tensor(digest)

    def write(self, features: dict[str, torch.Tensor]) -> None:
        """Add features by digest."""
        from safetensors.torch import save

        path = self.folder / f"{next(iter(features))}.safetensors"
        with atomic_file(path, private=self.governance.private) as file:
            file.write(save({digest: value.contiguous() for digest, value in features.items()}))

    def _reader(self, path: Path) -> Any:
        from safetensors import SafetensorError, safe_open

        if path not in self._open:
            try:
                self._open[path] = safe_open(path, "pt")
            except (SafetensorError, OSError) as error:
                raise InputError(f"{path} cannot be read ({error}): {REMEDY}") from error
        return self._open[path]

    @torch.no_grad()
    def _encode(self, images: dict[str, torch.Tensor], accelerator: Any) -> dict[str, torch.Tensor]:
        pixels = torch.stack(list(images.values())).to(accelerator.device)
        with accelerator.autocast():
            features = self.encoder(pixel_values=pixels).last_hidden_state
        return dict(zip(images, features.to(self.dtype).cpu(), strict=True))

    def fill(self, questions: Sequence[StudyQuestions], accelerator: Any, workers: int) -> None:
        """Compute the features that are missing, each process a share of them.

        Args:
            questions: whose images are needed. They are read from the cache afterwards.
            accelerator: of the trainer.
            workers: processes that read images.

        Raises:
            InputError: an image is damaged or missing, or a file of the cache is damaged.
        """
        self.open()
        training = self.encoder.training
        self.encoder.to(accelerator.device).eval()
        for split in questions:
            studies = _Missing(self, split)
            share = ShardSampler(accelerator.process_index, accelerator.num_processes, len(studies))
            waiting: dict[str, torch.Tensor] = {}
            ready: dict[str, torch.Tensor] = {}
            for found in track(load_batches(studies, share, workers), "encoding images", total=len(share)):
                waiting |= {digest: pixels for digest, pixels in found.items() if digest not in ready}
                if len(waiting) >= IMAGES_AT_ONCE:
                    ready |= self._encode(waiting, accelerator)
                    waiting = {}
                if len(ready) >= IMAGES_PER_FILE:
                    self.write(ready)
                    ready = {}
            ready |= self._encode(waiting, accelerator) if waiting else {}
            if ready:
                self.write(ready)
            accelerator.wait_for_everyone()
            self.find()
            split.open_image = partial(CachedImage, self)
        self.encoder.train(training)


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


def digest_image(source: Path | bytes) -> str:
    """BLAKE2b of an image's file, 32 hex digits. Raises InputError if it cannot be read."""
    if isinstance(source, bytes):
        return hashlib.blake2b(source, digest_size=16).hexdigest()
    return digest_file(source, lambda: hashlib.blake2b(digest_size=16))


class _Missing(Dataset):
    """Pixels by digest of each study's images that are not in the cache."""

    def __init__(self, cache: FeatureCache, questions: StudyQuestions) -> None:
        self.cache, self.questions = cache, questions.grouped

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, study: int) -> dict[str, torch.Tensor]:
        """Pixels (3, H, W) of the images that the model would see."""
        family, processor = self.cache.family, self.cache.processor
        row = self.questions.read_row(study, open_image=lambda source: source)
        sources, views = pair_images(row)
        found = {}
        for source in family.arrange_images(processor, [sources], [views])[0]:
            digest = digest_image(source)
            if digest not in self.cache:
                film = self.questions.read_film(source)
                pixels = family.collate(processor, [[film]], [["AP"]])["pixel_values"]
                found[digest] = pixels.reshape(-1, *pixels.shape[-3:])[0]
        return found


def pair_images(row: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The images of a study that are there, and their views."""
    pairs = [pair for pair in zip(row["images"], row["views"], strict=True) if pair[0] is not None]
    return [image for image, _ in pairs], [view for _, view in pairs]
