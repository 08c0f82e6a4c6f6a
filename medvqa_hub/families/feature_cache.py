"""Features of an image encoder that is not trained, computed once per image and kept on disk.

    FOLDER/KEY/manifest.json         governance class, and what KEY is a digest of
    FOLDER/KEY/DIGEST.safetensors    features (tokens, width) of up to 256 images, by the digest of the image's file

KEY covers the encoder's weights and configuration, the processor's image settings, the size to which images are shrunk,
and the precisions. So features of changed weights or images are never found, and models with the same encoder share
them. Files appear by rename: a killed run keeps all but the last one.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from medvqa_core.digests import digest_file
from medvqa_core.errors import InputError
from medvqa_core.files import MANIFEST, atomic_file, make_folder
from medvqa_core.governance import Governance, parse, strictest
from medvqa_core.json_files import plain, read_manifest, write_manifest
from medvqa_core.store import content_key
from medvqa_hub.families.registry import ModelFamily

KIND = "image-features"
IMAGES_AT_ONCE = 32  # in a forward pass
IMAGES_PER_FILE = 256
# Names in a config that saving and loading set.
UNRELATED = ("dtype", "architectures", "transformers_version", "_name_or_path")
REMEDY = "delete it, and run the same command again"


@dataclass(frozen=True)
class ImageEncoder:
    """The image encoder of a model, with everything that its features depend on.

    Attributes:
        family, model, processor: see `ModelFamily`. The family's `image_encoder` takes `pixel_values`
            (images, 3, H, W) and returns `last_hidden_state` (images, tokens, width).
        image_side: shorter side to which images are shrunk while they are decoded.
        precision: "bfloat16" computes in autocast, "float32" in the type of the weights.
    """

    family: ModelFamily
    model: torch.nn.Module
    processor: Any
    image_side: int | None
    precision: str

    @property
    def module(self) -> torch.nn.Module:
        return self.family.image_encoder(self.model)

    def describe(self) -> dict[str, Any]:
        """What the features of an image's file depend on."""
        config = self.module.config.to_diff_dict()
        settings = self.processor.to_dict().items()
        return {
            "weights": fingerprint_weights(self.module.state_dict().items()),
            "config": {name: value for name, value in config.items() if name not in UNRELATED},
            "pixels": {name: value for name, value in settings if name.startswith(("image_", "resize_"))},
            "image_side": self.image_side,
            "precision": self.precision,
        }

    @torch.no_grad()
    def encode(self, pixels: torch.Tensor) -> torch.Tensor:
        """Features (images, tokens, width) of pixels (images, 3, H, W), on the encoder's device."""
        module = self.module
        with torch.autocast(module.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            return module(pixel_values=pixels.to(module.device, module.dtype)).last_hidden_state


class FeatureCache:
    """Features by the digest of an image's file.

    Args:
        folder: for any number of encoders.
        encoder: that computes them. It must be in evaluation mode when `add` is called.
        dtype: in which features are stored: float32, float16 or bfloat16.
        governance: the strictest class of the images and the model.
    """

    def __init__(self, folder: Path, encoder: ImageEncoder, dtype: str, governance: Governance) -> None:
        self.encoder, self.dtype, self.governance = encoder, getattr(torch, dtype), governance
        self._settings = plain({**encoder.describe(), "dtype": dtype})
        self.folder = folder / content_key(**self._settings)
        self._files: dict[str, Path] = {}
        self._open: dict[Path, Any] = {}
        self._unwritten: dict[str, torch.Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        """For worker processes: without the encoder and open files."""
        return {**self.__dict__, "encoder": None, "_open": {}, "_unwritten": {}}

    def __contains__(self, digest: str) -> bool:
        return digest in self._files or digest in self._unwritten

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
        if digest in self._unwritten:
            return self._unwritten[digest]
        return self._reader(self._files[digest]).get_tensor(digest)

    def add(self, images: dict[str, torch.Tensor]) -> None:
        """Encode images, given as pixels (3, H, W) by digest. Their features are written when a file is full."""
        digests = list(images)
        for start in range(0, len(digests), IMAGES_AT_ONCE):
            chosen = digests[start : start + IMAGES_AT_ONCE]
            features = self._encode([images[digest] for digest in chosen])
            self._unwritten |= dict(zip(chosen, features, strict=True))
            if len(self._unwritten) >= IMAGES_PER_FILE:
                self.flush()

    def flush(self) -> None:
        """Write the features that are only in memory."""
        if self._unwritten:
            self.write(self._unwritten)
            self.find()
            self._unwritten = {}

    def write(self, features: dict[str, torch.Tensor]) -> None:
        """Write a file of features by digest."""
        from safetensors.torch import save

        path = self.folder / f"{next(iter(features))}.safetensors"
        with atomic_file(path, private=self.governance.private) as file:
            file.write(save({digest: value.contiguous() for digest, value in features.items()}))

    def _encode(self, images: list[torch.Tensor]) -> torch.Tensor:
        return self.encoder.encode(torch.stack(images)).to(self.dtype).cpu()

    def _reader(self, path: Path) -> Any:
        from safetensors import SafetensorError, safe_open

        if path not in self._open:
            try:
                self._open[path] = safe_open(path, "pt")
            except (SafetensorError, OSError) as error:
                raise InputError(f"{path} cannot be read ({error}): {REMEDY}") from error
        return self._open[path]


def make_pixels(family: ModelFamily, processor: Any, image: Any) -> torch.Tensor:
    """Pixels (3, H, W) of a decoded image, as the processor makes them."""
    pixels = family.collate(processor, [[image]], [["AP"]])["pixel_values"]
    return pixels.reshape(-1, *pixels.shape[-3:])[0]


def digest_image(source: Path | bytes) -> str:
    """BLAKE2b of an image's file, 32 hex digits. Raises InputError if it cannot be read."""
    if isinstance(source, bytes):
        return hashlib.blake2b(source, digest_size=16).hexdigest()
    return digest_file(source, lambda: hashlib.blake2b(digest_size=16))


def fingerprint_weights(weights: Iterable[tuple[str, torch.Tensor]]) -> str:
    """32 hex digits that identify tensors and their names."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(weights, key=lambda pair: pair[0]):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
