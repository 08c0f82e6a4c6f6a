"""A self-critical step of SwinVED per question, against the shape of the released training loop.

Swin-B 384 and the paper's decoder at full size with random weights, encoder trained, 3 images, 1 study x QUESTIONS.
Both ways generate exactly NEW_TOKENS tokens per answer ([EOS] is suppressed) for prompts and references of the same
lengths, run forward and backward, and use a constant reward. The figures therefore exclude the reward (see
benchmarks/reward.py) and the optimizer.

The baseline processes one question at a time. It encodes the images three times (for the NLL, the greedy answer and the
sampled answer), uses no key-value cache, and keeps the graph through all sampling steps. Each question costs the same,
so on a CPU one question is timed. Greedy tokens and NLL of both ways are compared for the timed questions.

This script measures a CPU in float32 and under bfloat16 autocast in about 8 minutes on two cores. `scst_gpu.py` does
the same on a GPU.

Run: python benchmarks/scst.py
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration
from timing import write_result

from medvqa_hub.training.recipes import ScstSettings
from medvqa_hub.training.scst_rollout import switch_off_dropout
from medvqa_hub.training.scst_step import SelfCriticalLoss

QUESTIONS, IMAGES = 8, 3
PROMPT_TOKENS, NEW_TOKENS = 12, 40
SETTINGS = ScstSettings(max_new_tokens=NEW_TOKENS)
TARGETS = {"cpu": 12, "cuda": 40}
PRECISIONS = ("float32", "bfloat16")
SIZES = {"questions": QUESTIONS, "images": IMAGES, "new_tokens": NEW_TOKENS, "prompt_tokens": PROMPT_TOKENS}


def make_model(config: SwinVedConfig) -> SwinVedForConditionalGeneration:
    """Random weights, no dropout, and an [EOS] that is never written."""
    torch.manual_seed(0)
    model = SwinVedForConditionalGeneration(config)
    switch_off_dropout(model.train())
    with torch.no_grad():
        model.decoder.lm_head.decoder.bias[config.decoder.eos_token_id] = -1e4
    return model


def make_batch(config: SwinVedConfig, questions: int = QUESTIONS, studies: int = 1) -> dict[str, torch.Tensor]:
    """A training batch: prompts of PROMPT_TOKENS and references of NEW_TOKENS tokens, `questions` in all."""
    generator = torch.Generator().manual_seed(0)
    side, words = config.encoder.image_size, (7, config.decoder.vocab_size)
    ids = torch.randint(*words, (questions, PROMPT_TOKENS + NEW_TOKENS), generator=generator)
    ids[:, 0], ids[:, PROMPT_TOKENS - 1] = 0, config.decoder.bos_token_id
    labels = ids.clone()
    labels[:, :PROMPT_TOKENS] = -100
    return {
        "pixel_values": torch.randn(studies, IMAGES, 3, side, side, generator=generator),
        "input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels,
        "study_index": torch.arange(questions) % studies,
    }  # fmt: skip


def constant_reward(completions: list[str], **columns: Any) -> list[float]:
    """1 for sampled answers, 0 for greedy ones."""
    return [1.0] * (len(completions) // 2) + [0.0] * (len(completions) // 2)


def as_texts(answers: list[list[int]]) -> list[str]:
    """Token ids as text: random ids mean nothing."""
    return [" ".join(map(str, ids)) for ids in answers]


def step_of_ours(model: SwinVedForConditionalGeneration, batch: dict[str, torch.Tensor]) -> float:
    """Run forward and backward for all questions and return the NLL."""
    questions = len(batch["input_ids"])
    rows = [{"qa_id": str(number), "answer": "reference"} for number in range(questions)]
    self_critical = SelfCriticalLoss(constant_reward, as_texts, SETTINGS)
    loss, sums = self_critical(model, batch, rows, seeds=list(range(questions)))
    loss.backward()
    model.zero_grad(set_to_none=True)
    return sums["nll"] / sums["reference_tokens"]


def step_of_baseline(model: SwinVedForConditionalGeneration, batch: dict[str, torch.Tensor], questions: int) -> float:
    """The same for the first `questions`, one by one in the shape of the released loop, and return the mean NLL."""
    total = 0.0
    for number in range(questions):
        ids, labels = (batch[name][number : number + 1] for name in ("input_ids", "labels"))
        nll = model(ids, pixel_values=batch["pixel_values"], labels=labels).loss
        with torch.no_grad():
            write_one_by_one(model, ids[:, :PROMPT_TOKENS], batch["pixel_values"], sample=False)
        _, log_prob = write_one_by_one(model, ids[:, :PROMPT_TOKENS], batch["pixel_values"], sample=True)
        (SETTINGS.alpha * -(1.0 - 0.0) * log_prob + SETTINGS.gamma * nll).backward()
        total += nll.item()
    model.zero_grad(set_to_none=True)
    return total / questions


def write_one_by_one(
    model: SwinVedForConditionalGeneration, tokens: torch.Tensor, pixels: torch.Tensor, sample: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Generate NEW_TOKENS tokens after a prompt (1, tokens) without a cache, with their log-probability."""
    encoded = model.encode(pixels)
    total = torch.zeros((), device=tokens.device)
    for _ in range(NEW_TOKENS):
        logits = model(tokens, encoder_outputs=encoded, logits_to_keep=1).logits[:, -1].float()
        log_probs = logits.log_softmax(-1)
        token = torch.multinomial(log_probs.exp(), 1) if sample else logits.argmax(-1, keepdim=True)
        total = total + log_probs.gather(1, token).sum()
        tokens = torch.cat([tokens, token], 1)
    return tokens, total


def compare(model: SwinVedForConditionalGeneration, batch: dict[str, torch.Tensor], timed: int, rounds: int) -> dict:
    """Best seconds per question of both ways, their ratio, and how far their NLLs are apart."""
    device = batch["pixel_values"].device.type
    per_question = ("input_ids", "attention_mask", "labels", "study_index")
    first = {name: value[:timed] if name in per_question else value for name, value in batch.items()}
    ours_nll = step_of_ours(model, first)  # warms up
    seconds: dict[str, list[float]] = {"ours": [], "baseline": []}
    baseline_nll = 0.0
    for _ in range(rounds):  # in turn, so that a slow spell of the machine hits both
        seconds["ours"].append(time_once(lambda: step_of_ours(model, batch), device)[1] / QUESTIONS)
        baseline_nll, spent = time_once(lambda: step_of_baseline(model, batch, timed), device)
        seconds["baseline"].append(spent / timed)
    ours, baseline = min(seconds["ours"]), min(seconds["baseline"])
    return {
        "ours_seconds_per_question": round(ours, 4),
        "baseline_seconds_per_question": round(baseline, 4),
        "baseline_questions_timed": timed,
        "ratio": round(baseline / ours, 1),
        "nll_difference": abs(ours_nll - baseline_nll),
    }


def time_once(function: Callable[[], Any], device: str) -> tuple[Any, float]:
    """What the function returns, and its seconds."""
    start = time.perf_counter()
    result = function()
    if device == "cuda":
        torch.cuda.synchronize()
    return result, time.perf_counter() - start


def equal_greedy_tokens(model: SwinVedForConditionalGeneration, batch: dict[str, torch.Tensor]) -> float:
    """Share of the first question's greedy tokens on which `generate` with its cache and the baseline agree."""
    prompt = batch["input_ids"][:1, :PROMPT_TOKENS]
    with torch.no_grad():
        plain = write_one_by_one(model, prompt, batch["pixel_values"], sample=False)[0]
    model.eval()
    cached = model.generate(prompt, pixel_values=batch["pixel_values"], max_new_tokens=NEW_TOKENS, do_sample=False)
    model.train()
    return (plain == cached)[:, PROMPT_TOKENS:].float().mean().item()


def measure(device: str, rounds: int, timed: int, bfloat16: bool) -> dict[str, Any]:
    """Both ways on `device`, in float32 or under bfloat16 autocast."""
    config = SwinVedConfig.base()
    model = make_model(config).to(device)
    batch = {name: value.to(device) for name, value in make_batch(config).items()}
    with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
        figures = compare(model, batch, timed, rounds)
        figures["equal_greedy_tokens"] = equal_greedy_tokens(model, batch)
    return {**figures, "target": TARGETS[device], "rounds": rounds}


def log(name: str, run: dict[str, Any]) -> None:
    """Print a comparison beside its target."""
    reached = run["ratio"] >= run["target"]
    print(
        f"{name}: {run['ours_seconds_per_question']} s a question, the released loop's shape "
        f"{run['baseline_seconds_per_question']} s: {run['ratio']}x (target {run['target']}x: "
        f"{'reached' if reached else 'MISSED'}; greedy tokens equal: {run['equal_greedy_tokens']:.0%}, "
        f"NLL differs by {run['nll_difference']:.1e})"
    )


def main() -> None:
    runs = {f"cpu_{name}": measure("cpu", rounds=1, timed=1, bfloat16=name == "bfloat16") for name in PRECISIONS}
    for name, run in runs.items():
        log(name, run)
    write_result("scst", {**SIZES, **runs})


if __name__ == "__main__":
    main()
