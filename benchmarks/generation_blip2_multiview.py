"""BLIP-2-MultiView: encode the images of 8 studies x 3 views together, against one by one as in the released code.

The baseline loops over images in Python and calls the vision tower, the Q-Former and the projection of the view for
each. Both ways give the same features. On a CPU the vision tower is tiny but has 24 layers, so that calls cost more
than arithmetic. With a CUDA device the paper's sizes are also timed in bfloat16 with random weights.

Run: python benchmarks/generation_blip2_multiview.py
"""

import torch
from blip2_multiview import VIEWS, Blip2MultiViewConfig, Blip2MultiViewModel
from timing import time_in_turn, write_result
from transformers import Blip2VisionConfig

STUDIES = 8
TARGET = 2.0


def deep_config() -> Blip2MultiViewConfig:
    """A tiny configuration with a vision tower of 24 layers of 64."""
    vision = Blip2VisionConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=24,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
        initializer_range=0.2,
    )
    return Blip2MultiViewConfig.tiny(vision_config=vision)


def encode_one_by_one(model: Blip2MultiViewModel, images: torch.Tensor) -> torch.Tensor:
    """The baseline: features (studies, 3, queries, hidden) of images (studies, 3, 3, H, W)."""
    first = torch.zeros(1, dtype=torch.long, device=images.device)
    studies = []
    for study in images:
        blocks = []
        for image, view in zip(study, VIEWS, strict=True):
            states = model.vision_model(pixel_values=image[None]).last_hidden_state
            blocks.append(model.branches.by_view[view](states, first, 1))
        studies.append(torch.cat(blocks))
    return torch.stack(studies)


@torch.no_grad()
def compare(config: Blip2MultiViewConfig, device: str, dtype: torch.dtype) -> dict[str, float]:
    """Median milliseconds of both ways, their ratio, and the largest difference between their features."""
    torch.manual_seed(0)
    with torch.device(device):
        model = Blip2MultiViewModel(config).to(dtype).eval()
        size = config.vision_config.image_size
        images = torch.randn(STUDIES, len(VIEWS), 3, size, size, dtype=dtype)
        study = torch.arange(STUDIES).repeat_interleave(len(VIEWS))
        view = torch.arange(len(VIEWS)).repeat(STUDIES)

    def finish(features: torch.Tensor) -> torch.Tensor:
        if device == "cuda":
            torch.cuda.synchronize()
        return features

    ways = {
        "one_by_one": lambda: finish(encode_one_by_one(model, images)),
        "together": lambda: finish(model(images.flatten(0, 1), study, view).view_features),
    }
    difference = (ways["one_by_one"]() - ways["together"]()).abs().max().item()
    seconds = time_in_turn(ways, rounds=15)
    return {
        **{f"{way}_ms": round(1000 * value, 2) for way, value in seconds.items()},
        "ratio": round(seconds["one_by_one"] / seconds["together"], 2),
        "largest_difference": difference,
    }


def main() -> None:
    runs = {"cpu_deep_tower": compare(deep_config(), "cpu", torch.float32)}
    if torch.cuda.is_available():
        runs["gpu_base_bfloat16"] = compare(Blip2MultiViewConfig.base(), "cuda", torch.bfloat16)
    for name, run in runs.items():
        print(
            f"{name}: one by one {run['one_by_one_ms']} ms, together {run['together_ms']} ms = {run['ratio']}x "
            f"(features differ by at most {run['largest_difference']:.1e})"
        )
    ratio = runs["cpu_deep_tower"]["ratio"]
    print(f"ratio {ratio}x, target {TARGET}x: {'reached' if ratio >= TARGET else 'MISSED'}")
    write_result("generation_blip2_multiview", {"runs": runs, "studies": STUDIES, "ratio": ratio, "target": TARGET})


if __name__ == "__main__":
    main()
