"""Stage 0 of the tiny SwinVED: its Swin encoder learns the studies' labels, before it meets a question.

The paper starts from Swin-B, trained on ImageNet and fine-tuned on MIMIC-CXR; those weights are not public, and no Swin
of tiny size exists. From random weights, stage 1 would learn language without a look at the picture, and stage 2 would
need hours on a CPU to find the findings through the words of answers. So the encoder first learns, on the images of the
training split alone, which labels were drawn: a head asks for each label where in the images to look, and is thrown
away afterwards.

Labels 1 (stated) and -1 (hedged) count as there, 0 and "not mentioned" as not there. That is right for phantom studies,
where nothing unmentioned is drawn; of real reports it is an approximation.

    OUT/config.json, model.safetensors    a Swin, for `model.pretrained_encoder` of a recipe
    OUT/manifest.json                     settings, data, losses; the folder appears by rename when all is done

A run that is stopped goes on from its last checkpoint, a file beside OUT (`.OUT.unfinished.pt`) that is written every
STEPS_PER_CHECKPOINT steps and goes when OUT is there: the weights are those of a run that was never stopped.
"""

import io
import math
import pickle
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from medvqa_core.errors import ConfigError, InputError, one_line
from medvqa_core.files import MANIFEST, atomic_file, atomic_folder, output_errors
from medvqa_core.json_files import plain, read_manifest, write_manifest
from medvqa_core.progress import track
from medvqa_hub.training.recipes import DataSettings, Recipe
from medvqa_hub.training.training_data import TrainingData, load_data
from mimic_cxr_vqa.schema import CHEXPERT_LABELS

KIND = "swin-labels"
STEPS_PER_CHECKPOINT = 50  # some seconds of training; a checkpoint of the tiny encoder takes a tenth of one
PIXEL_MEAN, PIXEL_STD = 0.485, 0.229  # of 0..1; the processor's own for the first channel


@dataclass(frozen=True)
class EncoderSettings:
    """How the encoder is trained: AdamW with warm-up and cosine decay."""

    epochs: int = 8
    studies_per_step: int = 8
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    warmup_steps: int = 100
    seed: int = 0


def pretrain_encoder(recipe: Recipe, data: Path, image_root: Path, out: Path, settings: EncoderSettings) -> dict:
    """Train `recipe`'s encoder on the labels of the training split and save it to `out`, unless it is there already.

    Returns:
        The manifest: `loss` of each epoch on the training split, `validation_loss` and `validation_auc` (mean over the
        labels that some validation studies have and some have not).

    Raises:
        ConfigError: `out` holds an encoder of other settings, sizes or data.
        InputError: the data or its images are not there.
        OutputError: `out` cannot be written.
    """
    loaded = load_data(data, image_root, DataSettings())
    made = {"settings": asdict(settings), "encoder": recipe.model.encoder, "data": loaded.fingerprint}
    if (out / MANIFEST).exists():
        return _read_finished(out, made)
    model, processor = recipe.open_model(None, loaded.texts(), settings.seed)
    encoder = model.model.encoder
    train, validation = (_decode(loaded, name, processor) for name in ("train", "validation"))
    unfinished = _Unfinished(out.with_name(f".{out.name}.unfinished.pt"), plain(made), loaded.governance.private)
    figures = _fit(encoder, train, validation, settings, unfinished)
    with atomic_folder(out, KIND, loaded.governance.private) as folder:
        encoder.save_pretrained(folder)
        manifest = {"kind": KIND, "governance": str(loaded.governance), **made, **figures}
        write_manifest(folder, manifest, indent=2)
    unfinished.remove()
    return manifest


def _read_finished(out: Path, made: dict[str, Any]) -> dict:
    manifest = read_manifest(out, "choose another folder, or delete it")
    differing = [name for name, value in plain(made).items() if manifest.get(name) != value]
    if differing:
        raise ConfigError(
            f"{out} holds an encoder with another value of {', '.join(differing)}; choose another folder, or delete it"
        )
    return manifest


@dataclass(frozen=True)
class _Studies:
    images: list[torch.Tensor]  # each (images, H, W) uint8
    labels: torch.Tensor  # (studies, 14), 1 where it was drawn


def _decode(data: TrainingData, split: str, processor: Any) -> _Studies:
    """All images of a split as the processor would crop them, small enough to stay in memory."""
    from swin_ved.image_processing_swin_ved import resize_and_crop, to_eight_bit

    images, labels = [], []
    for row in track(getattr(data, split), f"Reading {split} images"):
        kept = [to_eight_bit(image, "an image").convert("L") for image in row["images"][: processor.max_images]]
        kept = [resize_and_crop(image, processor.resize_size, processor.image_size) for image in kept]
        images.append(torch.from_numpy(np.stack([np.asarray(image) for image in kept])))
        labels.append([float(row["labels"][name] in (1, -1)) for name in CHEXPERT_LABELS])
    return _Studies(images, torch.tensor(labels))


class _LabelHead(nn.Module):
    """For each label, attention over all tokens of a study's images, then a weighted sum.

    Weights that start at 0.3 in place of 0.02 learn the labels in half of the steps, but the decoder then finds less of
    them in the features: what counts is the finding accuracy of stage 2, not the head's AUC.
    """

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


@dataclass(frozen=True)
class _Unfinished:
    """The checkpoint of a run: what `parts` hold, the losses so far and the state of torch's random numbers.

    Attributes:
        made: what the encoder is made from; a checkpoint of anything else is not gone on from.
    """

    path: Path
    made: dict[str, Any]
    private: bool

    def save(self, parts: dict[str, Any], losses: list[float]) -> None:
        states = {name: part.state_dict() for name, part in parts.items()}
        state = {"made": self.made, "losses": losses, "random": torch.get_rng_state(), **states}
        buffer = io.BytesIO()
        torch.save(state, buffer)
        with atomic_file(self.path, private=self.private) as file:
            file.write(buffer.getbuffer())

    def restore(self, parts: dict[str, Any]) -> list[float]:
        """Put the parts where the last run was; its losses, one a step. Nothing is there for a run that starts."""
        if not self.path.is_file():
            return []
        try:
            state = torch.load(self.path, weights_only=True)
        except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
            raise InputError(f"{self.path}: cannot be read ({one_line(error)}); delete it") from None
        if state["made"] != self.made:
            return []
        for name, part in parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["random"])
        return state["losses"]

    def remove(self) -> None:
        with output_errors(self.path):
            self.path.unlink(missing_ok=True)


def _fit(
    encoder: nn.Module, train: _Studies, validation: _Studies, settings: EncoderSettings, unfinished: _Unfinished
) -> dict[str, Any]:
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
    parts = {"encoder": encoder, "head": head, "optimizer": optimizer, "scheduler": scheduler}
    losses = unfinished.restore(parts)
    encoder.train()
    for places in track(steps[len(losses) :], "Training the encoder"):
        logits = _logits(encoder, head, [train.images[place] for place in places])
        loss = nn.functional.binary_cross_entropy_with_logits(logits, train.labels[places])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if len(losses) % STEPS_PER_CHECKPOINT == 0:
            unfinished.save(parts, losses)
    means = [round(float(np.mean(part)), 4) for part in np.array_split(losses, settings.epochs)]
    return {"loss": means, **_validate(encoder.eval(), head, validation)}


def _warm_cosine(warmup: int, steps: int) -> Any:
    """Factor of the learning rate: up from 0 over `warmup` steps, then down to 0.05 along a cosine."""
    return lambda step: min(1.0, (step + 1) / warmup) * (0.525 + 0.475 * math.cos(math.pi * min(1.0, step / steps)))


def _logits(encoder: nn.Module, head: nn.Module, studies: list[torch.Tensor]) -> torch.Tensor:
    pixels = (torch.cat(studies).float() / 255 - PIXEL_MEAN) / PIXEL_STD
    features = encoder(pixels[:, None].expand(-1, 3, -1, -1)).last_hidden_state  # (images, tokens, width)
    parts = [part.flatten(0, 1) for part in features.split([len(study) for study in studies])]
    padded = nn.utils.rnn.pad_sequence(parts, batch_first=True)
    lengths = torch.tensor([len(part) for part in parts])
    return head(padded, torch.arange(padded.shape[1]) < lengths[:, None])


@torch.no_grad()
def _validate(encoder: nn.Module, head: nn.Module, studies: _Studies) -> dict[str, float]:
    parts = [studies.images[start : start + 64] for start in range(0, len(studies.images), 64)]
    logits = torch.cat([_logits(encoder, head, part) for part in parts])
    loss = nn.functional.binary_cross_entropy_with_logits(logits, studies.labels)
    aucs = [area_under_roc(logits[:, label], studies.labels[:, label] > 0) for label in range(logits.shape[1])]
    known = [auc for auc in aucs if auc is not None]
    return {
        "validation_loss": round(loss.item(), 4),
        "validation_auc": round(sum(known) / len(known), 4) if known else None,
    }


def area_under_roc(scores: torch.Tensor, positive: torch.Tensor) -> float | None:
    """Chance that a positive scores above a negative, ties counting half; None where either is missing."""
    above, below = scores[positive][:, None], scores[~positive][None]
    if not above.numel() or not below.numel():
        return None
    return ((above > below).float() + 0.5 * (above == below).float()).mean().item()
