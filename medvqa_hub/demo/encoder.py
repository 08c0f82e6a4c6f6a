"""Pretrain the Swin encoder of the tiny SwinVED on the labels of synthetic studies ("stage 0").

The paper starts from a Swin-B that was fine-tuned on MIMIC-CXR. Those weights are not public, and no pretrained Swin of
tiny size exists. With random weights, stage 1 would learn language without the images. So the encoder first learns the
labels of the training split, with a head that is discarded afterwards.

Labels 1 (positive) and -1 (uncertain) count as positive. All others count as negative, which is exact for synthetic
studies and an approximation for real reports.

The output folder holds `config.json` and `model.safetensors` of a Swin, for `model.pretrained_encoder` of a recipe, and
`manifest.json` with settings, data and losses. It appears when training has finished.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from medvqa_core.errors import ConfigError
from medvqa_core.files import MANIFEST, atomic_folder
from medvqa_core.json_files import plain, read_manifest, write_manifest
from medvqa_core.progress import track
from medvqa_hub.training.recipes import DataSettings, Recipe
from medvqa_hub.training.training_data import TrainingData, load_data
from mimic_cxr_vqa.schema import CHEXPERT_LABELS

KIND = "swin-labels"
PIXEL_MEAN, PIXEL_STD = 0.485, 0.229  # the processor's values for the first channel


@dataclass(frozen=True)
class EncoderSettings:
    """AdamW with warm-up and cosine decay."""

    epochs: int = 8
    studies_per_step: int = 8
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    warmup_steps: int = 100
    seed: int = 0


def pretrain_encoder(recipe: Recipe, data: Path, image_root: Path, out: Path, settings: EncoderSettings) -> dict:
    """Train the encoder of `recipe` and save it to `out`. Does nothing if it has been trained before.

    Returns:
        The manifest: `loss` on the training split for each epoch, `validation_loss`, and `validation_auc` (mean over
        the labels with positive and negative validation studies).

    Raises:
        ConfigError: `out` holds an encoder with other settings or of other data.
        InputError: the data or its images cannot be read.
        OutputError: `out` cannot be written.
    """
    loaded = load_data(data, image_root, DataSettings())
    made = {"settings": asdict(settings), "encoder": recipe.model.encoder, "data": loaded.fingerprint}
    remedy = "choose another folder, or delete it"
    if (out / MANIFEST).exists():
        manifest = read_manifest(out, remedy)
        differing = [name for name, value in plain(made).items() if manifest.get(name) != value]
        if differing:
            raise ConfigError(f"{out} holds an encoder with different {', '.join(differing)}; {remedy}")
        return manifest
    model, processor = recipe.open_model(None, loaded.texts(), settings.seed)
    encoder = model.model.encoder
    train, validation = (_decode(loaded, name, processor) for name in ("train", "validation"))
    figures = _fit(encoder, train, validation, settings)
    with atomic_folder(out, KIND, loaded.governance.private) as folder:
        encoder.save_pretrained(folder)
        manifest = {"kind": KIND, "governance": str(loaded.governance), **made, **figures}
        write_manifest(folder, manifest, indent=2)
    return manifest


@dataclass(frozen=True)
class _Studies:
    images: list[torch.Tensor]  # each (images, H, W) uint8
    labels: torch.Tensor  # (studies, 14)


def _decode(data: TrainingData, split: str, processor: Any) -> _Studies:
    """All images of a split, cropped as by the processor."""
    from swin_ved.image_processing_swin_ved import resize_and_crop, to_eight_bit

    images, labels = [], []
    for row in track(getattr(data, split), f"Reading {split} images"):
        kept = [to_eight_bit(image, "an image").convert("L") for image in row["images"][: processor.max_images]]
        kept = [resize_and_crop(image, processor.resize_size, processor.image_size) for image in kept]
        images.append(torch.from_numpy(np.stack([np.asarray(image) for image in kept])))
        labels.append([float(row["labels"][name] in (1, -1)) for name in CHEXPERT_LABELS])
    return _Studies(images, torch.tensor(labels))


class _LabelHead(nn.Module):
    """Attention over the tokens of all images of a study for each label, then a weighted sum."""

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.norm, self.key = nn.LayerNorm(width), nn.Linear(width, width)
        self.query = nn.Parameter(torch.randn(labels, width) * 0.02)
        self.weight = nn.Parameter(torch.randn(labels, width) * 0.02)
        self.bias = nn.Parameter(torch.zeros(labels))

    def forward(self, features: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(studies, tokens, width) and their mask -> logits (studies, labels)."""
        features = self.norm(features)
        scores = torch.einsum("lw,stw->slt", self.query, self.key(features))
        attention = scores.masked_fill(~mask[:, None], -torch.inf).softmax(-1)
        return (torch.einsum("slt,stw->slw", attention, features) * self.weight).sum(-1) + self.bias


def _fit(encoder: nn.Module, train: _Studies, validation: _Studies, settings: EncoderSettings) -> dict[str, Any]:
    rng = np.random.default_rng(settings.seed)
    head = _LabelHead(encoder.config.hidden_size, len(CHEXPERT_LABELS))
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(
        parameters, settings.learning_rate, betas=(0.9, 0.98), weight_decay=settings.weight_decay, fused=True
    )
    size = settings.studies_per_step
    epochs = [rng.permutation(len(train.images)) for _ in range(settings.epochs)]
    steps = [order[start : start + size] for order in epochs for start in range(0, len(order), size)]
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, _warm_cosine(settings.warmup_steps, len(steps)))
    losses = []
    encoder.train()
    for places in track(steps, "Training the encoder"):
        logits = _logits(encoder, head, [train.images[place] for place in places])
        loss = nn.functional.binary_cross_entropy_with_logits(logits, train.labels[places])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    means = [round(float(np.mean(part)), 4) for part in np.array_split(losses, settings.epochs)]
    return {"loss": means, **_validate(encoder.eval(), head, validation)}


def _warm_cosine(warmup: int, steps: int) -> Any:
    """Factor of the learning rate: from 0 to 1 over `warmup` steps, then to 0.05 along a cosine."""
    return lambda step: min(1.0, (step + 1) / warmup) * (0.525 + 0.475 * math.cos(math.pi * min(1.0, step / steps)))


def _logits(encoder: nn.Module, head: nn.Module, studies: list[torch.Tensor]) -> torch.Tensor:
    pixels = (torch.cat(studies).float() / 255 - PIXEL_MEAN) / PIXEL_STD
    features = encoder(pixels[:, None].expand(-1, 3, -1, -1)).last_hidden_state  # (images, tokens, width)
    parts = [part.flatten(0, 1) for part in features.split([len(study) for study in studies])]
    padded = nn.utils.rnn.pad_sequence(parts, batch_first=True)
    lengths = torch.tensor([len(part) for part in parts])
    return head(padded, torch.arange(padded.shape[1]) < lengths[:, None])


@torch.no_grad()
def _validate(encoder: nn.Module, head: nn.Module, studies: _Studies) -> dict[str, float | None]:
    parts = [studies.images[start : start + 64] for start in range(0, len(studies.images), 64)]
    logits = torch.cat([_logits(encoder, head, part) for part in parts])
    loss = nn.functional.binary_cross_entropy_with_logits(logits, studies.labels)
    aucs = [area_under_roc(logits[:, label], studies.labels[:, label] > 0) for label in range(logits.shape[1])]
    known = [auc for auc in aucs if auc is not None]
    mean = round(sum(known) / len(known), 4) if known else None
    return {"validation_loss": round(loss.item(), 4), "validation_auc": mean}


def area_under_roc(scores: torch.Tensor, positive: torch.Tensor) -> float | None:
    """Probability that a positive scores above a negative. Ties count half. None without positives or negatives."""
    above, below = scores[positive][:, None], scores[~positive][None]
    if not above.numel() or not below.numel():
        return None
    return ((above > below).float() + 0.5 * (above == below).float()).mean().item()
