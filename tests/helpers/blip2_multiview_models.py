"""Tiny BLIP-2-MultiView models and inputs for the tests, and an interpreter with transformers but without us."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import torch
from blip2_multiview import Blip2MultiViewConfig, Blip2MultiViewForConditionalGeneration
from PIL import Image
from transformers import Blip2Config, Blip2ForConditionalGeneration

# Two studies: the first with an AP and two lateral images, the second with one PA image.
NUM_IMAGES = torch.tensor([3, 1])
IMAGE_VIEW = torch.tensor([0, 2, 2, 1])

# -S leaves out the .pth files, and with them the editable install; -I leaves out the working folder.
WITHOUT_US = "import sys; sys.path.extend({paths!r})\nimport importlib.util as util\n" + (
    "assert not [name for name in ('blip2_multiview', 'swin_ved', 'medvqa_core') if util.find_spec(name)]\n"
)


def make_lively(model: Blip2MultiViewForConditionalGeneration) -> Blip2MultiViewForConditionalGeneration:
    """Let images reach the answer: T5's own random weights repeat the last token whatever the encoder says."""
    with torch.no_grad():
        for name, weight in model.language_model.decoder.named_parameters():
            if "block" in name and weight.dim() == 2:
                weight *= 3
    return model.eval()


def make_model(seed: int = 0, **changes) -> Blip2MultiViewForConditionalGeneration:
    """A tiny model in evaluation mode, the same for the same seed."""
    torch.manual_seed(seed)
    return make_lively(Blip2MultiViewForConditionalGeneration(Blip2MultiViewConfig.tiny(**changes)))


def make_inputs(seed: int = 0, labels: bool = True) -> dict[str, torch.Tensor]:
    """One question for each of the two studies, of 9 and 5 tokens."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 500, (2, 9), generator=generator)
    mask = torch.ones(2, 9, dtype=torch.long)
    ids[1, 5:], mask[1, 5:] = 0, 0
    inputs = {
        "pixel_values": torch.randn(4, 3, 28, 28, generator=generator),
        "num_images": NUM_IMAGES,
        "image_view": IMAGE_VIEW,
        "input_ids": ids,
        "attention_mask": mask,
    }
    if labels:
        inputs["labels"] = torch.randint(3, 500, (2, 6), generator=generator)
        inputs["labels"][1, 4:] = -100
    return inputs


def make_plain_blip2(seed: int = 0, **changes) -> Blip2ForConditionalGeneration:
    """A tiny plain BLIP-2 with an output layer of its own, as FLAN-T5 has."""
    tiny = Blip2MultiViewConfig.tiny()
    parts = {name: getattr(tiny, name) for name in ("vision_config", "qformer_config", "text_config")}
    torch.manual_seed(seed)
    plain = make_lively(Blip2ForConditionalGeneration(Blip2Config(**{**parts, "num_query_tokens": 4, **changes})))
    plain.query_tokens.data.normal_()
    return plain


def assert_same_logits(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal but for the last bits, which depend on where in memory the weights lie; the logits are up to 30."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3 if found.dtype == torch.float32 else 0.5)


def make_image(seed: int = 0, mode: str = "L", size: tuple[int, int] = (50, 40)) -> Image.Image:
    """A noise image of `size` (width, height)."""
    values = np.random.default_rng(seed).integers(0, 255, size[::-1], dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


def run_without_us(code: str, folder: Path) -> str:
    """Run Python code in `folder`, in an interpreter that can import transformers but none of our packages."""
    paths = list(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]))
    environment = {**os.environ, "HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", WITHOUT_US.format(paths=paths) + code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
