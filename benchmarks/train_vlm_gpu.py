"""`train vlm` on a GPU: a step's time and memory for an image-text model of some 3 billion random weights, in bfloat16.

The parts of a LLaVA at size: CLIP ViT-L/14 at 336 pixels (576 tokens an image) and a Qwen2 decoder of 36 layers x 2048.
Rows are the bundled sample's. Each way is a shipped recipe with an adapter. Its first steps are left out of the times.
How long a real model's answers are is not measured here: `grpo` draws 32 tokens.

Run: python benchmarks/train_vlm_gpu.py     (needs a CUDA device)
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from timing import write_result
from tiny_vlm import write_tiny_vlm

from medvqa_core.governance import Governance
from medvqa_hub.training.arguments import TrainingRun
from medvqa_hub.training.vlm.model import find_start, load_model
from medvqa_hub.training.vlm.recipe import VlmRecipe, load_vlm_recipe
from medvqa_hub.training.vlm.rewards import AnswerReward
from medvqa_hub.training.vlm.rows import load_rows
from mimic_cxr_vqa.workspace import SAMPLE_DIR

WARM_STEPS, STEPS = 2, 6
DECODER = {
    "hidden_size": 2048, "intermediate_size": 11_008, "num_hidden_layers": 36, "num_attention_heads": 16,
    "num_key_value_heads": 2, "vocab_size": 151_936,
}  # fmt: skip
ENCODER = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
COMMON = ["data.validation_split=null", "data.workers=0", "data.label_conflicts=keep", "training.warmup_steps=0"]
WAYS = {
    "sft": ("vlm-sft", ["training.rows_per_step=8", "training.rows_per_batch=4"]),
    "sft, no checkpointing": (
        "vlm-sft",
        ["training.rows_per_step=8", "training.rows_per_batch=4", "training.gradient_checkpointing=false"],
    ),
    "sft, 4 bits": ("vlm-sft", ["training.rows_per_step=8", "training.rows_per_batch=4", "lora.quantize=4bit"]),
    "grpo": ("vlm-grpo", ["training.rows_per_step=2", "training.rows_per_batch=8", "grpo.max_new_tokens=32"]),
}
ON_CPU = ["training.precision=float32", "grpo.max_new_tokens=4"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tiny", action="store_true", help="try this script with a tiny model on the CPU, without writing a result"
    )
    tiny = parser.parse_args().tiny
    if not torch.cuda.is_available() and not tiny:
        print("no CUDA device: nothing is measured (--tiny tries this file on the CPU)")
        return
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        sizes = {} if tiny else {"decoder": DECODER, "encoder": ENCODER, "side": 336, "patch": 14, "dtype": "bfloat16"}
        words = ["is there an effusion", "no pleural effusion is seen in the radiograph"]
        model = write_tiny_vlm(Path(place, "model"), words, Governance.OPEN, **sizes)
        for name, (recipe, changes) in WAYS.items():
            if tiny:
                changes = [*changes, *(change for change in ON_CPU if "grpo" in recipe or "grpo" not in change)]
            figures[name] = measure(load_vlm_recipe(recipe, [*COMMON, *changes]), model, Path(place, "out"))
            print(name, figures[name], flush=True)
    if not tiny:
        device = torch.cuda.get_device_name()
        write_result("train_vlm_gpu", {"ways": figures, "device": device, "steps": STEPS, "warm_steps": WARM_STEPS})


def measure(recipe: VlmRecipe, model: Path, out: Path) -> dict[str, Any]:
    """Median seconds of a step, rows per second, peak memory and sizes."""
    from transformers import TrainerCallback

    from medvqa_hub.training.vlm.trainers import make_trainer

    class Clock(TrainerCallback):
        times: list[float] = []

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.times.append(time.monotonic())
            control.should_save = False
            return control

    network, processor = load_model(find_start(str(model)), recipe)
    rows = load_rows(SAMPLE_DIR, SAMPLE_DIR, recipe.data)
    reward = AnswerReward(lambda completions, **columns: [float(len(text) % 7) for text in completions], "length")
    steps = WARM_STEPS + STEPS
    run = TrainingRun(recipe, out, Governance.OPEN, base="random")
    trainer = make_trainer(run, network, processor, rows, steps, reward if recipe.grpo else None)
    clock = Clock()
    clock.times = []
    trainer.add_callback(clock)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    trainer.train()
    times = clock.times[WARM_STEPS - 1 :]
    seconds = statistics.median(after - before for before, after in zip(times, times[1:], strict=False))
    trained = sum(p.numel() for p in network.parameters() if p.requires_grad)
    figures = {
        "seconds_a_step": round(seconds, 3),
        "rows_a_second": round(recipe.training.rows_per_step / seconds, 2),
        "peak_memory_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2) if torch.cuda.is_available() else None,
        "parameters": sum(p.numel() for p in network.parameters()),
        "trained_parameters": trained,
        "precision": recipe.training.precision,
    }
    del trainer, network
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return figures


if __name__ == "__main__":
    main()
