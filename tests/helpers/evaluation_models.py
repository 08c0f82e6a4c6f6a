"""Tiny random checkpoints that fit a phantom build, saved to folders, for the tests of evaluation."""

from pathlib import Path

import torch
from blip2_multiview import Blip2MultiViewConfig, Blip2MultiViewForConditionalGeneration, Blip2MultiViewProcessor
from blip2_multiview_models import make_lively
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration, SwinVedProcessor, train_tokenizer

from mimic_cxr_vqa.release import Release


def texts_of(release: Release) -> list[str]:
    """All questions and answers of a release."""
    rows = [row for batch in release.iterate_all() for row in batch.select(["question", "answer"]).to_pylist()]
    return [text for row in rows for text in row.values()]


def save_swin_ved(folder: Path, texts: list[str], seed: int = 0) -> Path:
    """A SwinVED whose random answers depend on question and images."""
    tokenizer = train_tokenizer(texts)
    config = SwinVedConfig.tiny(vocab_size=len(tokenizer))
    torch.manual_seed(seed)
    model = SwinVedForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.2)
    model.save_pretrained(folder)
    SwinVedProcessor.from_config(config, tokenizer).save_pretrained(folder)
    return folder


def save_blip2(folder: Path, texts: list[str], seed: int = 0) -> Path:
    """A tiny random BLIP-2-MultiView whose answers depend on question and images."""
    torch.manual_seed(seed)
    make_lively(Blip2MultiViewForConditionalGeneration(Blip2MultiViewConfig.tiny())).save_pretrained(folder)
    Blip2MultiViewProcessor.tiny(texts).save_pretrained(folder)
    return folder
