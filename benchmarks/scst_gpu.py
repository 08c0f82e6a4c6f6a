"""Self-critical training on a GPU: the comparison of `scst.py`, and training steps of the shipped recipes at full size.

The comparison runs under bfloat16 autocast, the baseline on all questions. The recipes run with random weights. Each
defines the batch size (studies x questions), the trained parts and the precision. A step is forward, backward and AdamW
on one batch of random tensors: three images per study, questions of 12 tokens, answers of 40. Stage 3 also generates.
Reading images and computing rewards are excluded, since other benchmarks measure them.

torch counts the model FLOPs of a step (matrix products, convolutions and attention, forward and backward). MFU is their
rate divided by the dense bfloat16 peak of the device.

Run: python benchmarks/scst_gpu.py     (needs a CUDA device)
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from blip2_multiview import Blip2MultiViewConfig, Blip2MultiViewForConditionalGeneration
from scst import QUESTIONS, SIZES, as_texts, constant_reward, log, measure
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration
from timing import write_result
from torch.utils.flop_counter import FlopCounterMode

from medvqa_hub.families.registry import frozen_modules
from medvqa_hub.training.recipes import Recipe, load_recipe
from medvqa_hub.training.scst_rollout import switch_off_dropout
from medvqa_hub.training.scst_step import SelfCriticalLoss

RECIPES = {
    "swin-ved-stage1": [],
    "swin-ved-stage2": [],
    "swin-ved-stage3": ["scst.max_new_tokens=40"],
    "blip2-multiview": ["model.from_blip2=null", "model.size=base"],
}
IMAGES, PROMPT_TOKENS, ANSWER_TOKENS = 3, 12, 40
WARM_STEPS, STEPS = 2, 5
MEMORY_LIMIT_GIB = 22.0
# Dense bfloat16 peaks in FLOP/s, as stated by the makers. MFU is not computed for other devices.
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "RTX 4090": 165e12, "RTX 3090": 71e12}


def measure_recipes(device: str = "cuda", tiny: bool = False) -> dict[str, dict[str, Any]]:
    """Figures of each recipe. `tiny` takes the smallest models, to try this file without a GPU."""
    figures = {}
    for name, overrides in RECIPES.items():
        recipe = load_recipe(name, overrides)
        figures[name] = measure_recipe(recipe, device, tiny)
        if device == "cuda":
            torch.cuda.empty_cache()
    return figures


def measure_recipe(recipe: Recipe, device: str, tiny: bool) -> dict[str, Any]:
    """Questions per second, peak memory, FLOPs and MFU of the recipe's batches."""
    model, batch = make_swin_ved(recipe, tiny) if recipe.model.kind == "swin_ved" else make_blip2(recipe, tiny, device)
    model.to(device)
    batch = {name: value.to(device) for name, value in batch.items()}
    rates = recipe.training.learning_rates
    recipe.family.freeze_groups(model, rates)
    model.train()
    for module in frozen_modules(model):
        module.eval()
    if recipe.training.gradient_checkpointing:
        model.activation_checkpointing_enable()
    groups = recipe.family.optimizer_groups(model, rates, recipe.training.weight_decay)
    optimizer = torch.optim.AdamW(groups, betas=tuple(recipe.training.betas))
    loss_of = supervised_loss if recipe.scst is None else make_self_critical_loss(recipe)
    if recipe.scst is not None:
        switch_off_dropout(model)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16):
            loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    questions = len(batch["input_ids"])
    seconds, gib = time_steps(step, device)
    with FlopCounterMode(display=False) as counter:
        step()
    flops = counter.get_total_flops()
    peak = next(
        (value for name, value in PEAKS.items() if device == "cuda" and name in torch.cuda.get_device_name()), None
    )
    return {
        "studies": recipe.training.studies_per_batch,
        "questions": questions,
        "questions_per_second": round(questions / seconds, 1),
        "step_seconds": round(seconds, 4),
        "peak_memory_gib": gib,
        "within_22_gib": None if gib is None else gib <= MEMORY_LIMIT_GIB,
        "teraflops_per_step": round(flops / 1e12, 3),
        "mfu": None if peak is None else round(flops / seconds / peak, 4),
    }


def time_steps(step: Callable[[], None], device: str) -> tuple[float, float | None]:
    """Median seconds of a step after warming up, and the peak of allocated memory in GiB."""
    seconds = []
    for number in range(WARM_STEPS + STEPS):
        start = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        if number >= WARM_STEPS:
            seconds.append(time.perf_counter() - start)
        elif device == "cuda":
            torch.cuda.reset_peak_memory_stats()
    gib = round(torch.cuda.max_memory_allocated() / 2**30, 2) if device == "cuda" else None
    return sorted(seconds)[len(seconds) // 2], gib


def supervised_loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model(**batch).loss


def make_self_critical_loss(recipe: Recipe) -> Callable[[torch.nn.Module, dict[str, torch.Tensor]], torch.Tensor]:
    """The recipe's self-critical loss with a constant reward."""

    def loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        questions = len(batch["input_ids"])
        rows = [{"qa_id": str(number), "answer": "reference"} for number in range(questions)]
        return SelfCriticalLoss(constant_reward, as_texts, recipe.scst)(model, batch, rows, list(range(questions)))[0]

    return loss


def make_swin_ved(recipe: Recipe, tiny: bool) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """SwinVED with random weights, an [EOS] that is never written, and a batch."""
    torch.manual_seed(0)
    config = SwinVedConfig.tiny() if tiny else SwinVedConfig.base()
    model = SwinVedForConditionalGeneration(config)
    with torch.no_grad():
        model.decoder.lm_head.decoder.bias[config.decoder.eos_token_id] = -1e4
    studies, index = make_study_index(recipe)
    side = config.encoder.image_size
    ids = torch.randint(7, config.decoder.vocab_size, (len(index), PROMPT_TOKENS + ANSWER_TOKENS))
    ids[:, PROMPT_TOKENS - 1] = config.decoder.bos_token_id
    labels = ids.clone()
    labels[:, :PROMPT_TOKENS] = -100
    return model, {
        "pixel_values": torch.randn(studies, IMAGES, 3, side, side), "study_index": index,
        "input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels,
    }  # fmt: skip


def make_blip2(recipe: Recipe, tiny: bool, device: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """BLIP-2-MultiView with random weights, the frozen parts in the recipe's type, and a batch of all three views."""
    torch.manual_seed(0)
    config = Blip2MultiViewConfig.tiny() if tiny else Blip2MultiViewConfig.base()
    frozen_type = getattr(torch, recipe.model.dtype)
    with torch.device(device):
        model = Blip2MultiViewForConditionalGeneration(config)
    model.model.vision_model.to(frozen_type)
    model.language_model.to(frozen_type)
    studies, index = make_study_index(recipe)
    side, vocabulary = config.vision_config.image_size, config.text_config.vocab_size
    return model, {
        "pixel_values": torch.randn(studies * IMAGES, 3, side, side),
        "num_images": torch.full((studies,), IMAGES),
        "image_view": torch.arange(IMAGES).repeat(studies),
        "study_index": index,
        "input_ids": torch.randint(3, vocabulary, (len(index), PROMPT_TOKENS)),
        "attention_mask": torch.ones(len(index), PROMPT_TOKENS, dtype=torch.long),
        "labels": torch.randint(3, vocabulary, (len(index), ANSWER_TOKENS)),
    }


def make_study_index(recipe: Recipe) -> tuple[int, torch.Tensor]:
    """Studies of a batch, and the study of each of its questions."""
    studies = recipe.training.studies_per_batch
    return studies, torch.arange(studies).repeat_interleave(recipe.data.questions_per_study)


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("no CUDA device: nothing was measured")
    run = measure("cuda", rounds=3, timed=QUESTIONS, bfloat16=True)
    log("cuda_bfloat16", run)
    figures = {**SIZES, "device": torch.cuda.get_device_name(), "cuda_bfloat16": run, "recipes": {}}
    for name, found in measure_recipes().items():
        print(f"{name}: {found}")
        figures["recipes"][name] = found
    write_result("scst_gpu", figures)


if __name__ == "__main__":
    main()
