"""SwinVED: answer one study's 16 questions with its images encoded once, against question by question.

Swin-B 384 and the paper's decoder at full size with random weights, three images, beam 2. The baseline has the shape of
the released code: one question at a time, images encoded for each, no key-value cache. Both ways generate exactly
NEW_TOKENS tokens per question ([EOS] is suppressed), so that neither wins by stopping early. The share of equal tokens
is recorded. On a CPU the baseline is timed on every BASELINE_STEP-th question and scaled up, because each question
costs the same apart from its length. With a CUDA device both ways also run there in bfloat16, the baseline in full.

Run: python benchmarks/generation.py
"""

import time
from collections.abc import Callable

import torch
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration
from timing import write_result

QUESTIONS, IMAGES, BEAMS, NEW_TOKENS = 16, 3, 2, 24
BASELINE_STEP = 5  # questions 0, 5, 10 and 15, of 12, 7, 9 and 11 tokens
ROUNDS = 2
TARGET = 15


def make_inputs(config: SwinVedConfig) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pixels (1, images, 3, H, W) and 16 left-padded prompts of 6 to 12 tokens with their mask."""
    torch.manual_seed(0)
    side, longest = config.encoder.image_size, 12
    input_ids = torch.randint(7, config.decoder.vocab_size, (QUESTIONS, longest))
    input_ids[:, -1] = config.decoder.bos_token_id
    mask = torch.ones_like(input_ids)
    for row in range(QUESTIONS):
        padding = row % 7
        input_ids[row, padding] = 0
        input_ids[row, :padding], mask[row, :padding] = config.decoder.pad_token_id, 0
    return torch.randn(1, IMAGES, 3, side, side), input_ids, mask


def answer_grouped(model: SwinVedForConditionalGeneration, pixels: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor):
    """All questions in one call, (questions, NEW_TOKENS)."""
    study_index = torch.zeros(len(ids), dtype=torch.long, device=ids.device)
    return _generate(model, ids, mask, pixel_values=pixels, study_index=study_index)


def answer_one_by_one(
    model: SwinVedForConditionalGeneration, pixels: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Each question by itself, images encoded again, no cache, (questions, NEW_TOKENS)."""
    rows = []
    for row, row_mask in zip(ids, mask.bool(), strict=True):
        rows.append(_generate(model, row[row_mask][None], None, pixel_values=pixels, use_cache=False))
    return torch.cat(rows)


def _generate(model, ids, mask, **arguments):
    length = {"min_new_tokens": NEW_TOKENS, "max_new_tokens": NEW_TOKENS, "num_beams": BEAMS}
    return model.generate(ids, attention_mask=mask, **length, **arguments)[:, ids.shape[1] :]


def compare(model: SwinVedForConditionalGeneration, inputs: tuple, step: int) -> dict[str, float]:
    """Best seconds of both ways for all questions, their ratio, and the share of equal tokens."""
    pixels, ids, mask = inputs
    few = (pixels, ids[::step], mask[::step])
    grouped, one_by_one = answer_grouped(model, *inputs), answer_one_by_one(model, *few)  # warms up both
    equal = (grouped[::step] == one_by_one).float().mean().item()
    seconds = {answer_grouped: [], answer_one_by_one: []}
    for _ in range(ROUNDS):  # in turn, so that a slow spell of the machine hits both
        seconds[answer_grouped].append(_time(lambda: answer_grouped(model, *inputs)))
        seconds[answer_one_by_one].append(_time(lambda: answer_one_by_one(model, *few)))
    grouped_seconds = min(seconds[answer_grouped])
    baseline_seconds = min(seconds[answer_one_by_one]) * QUESTIONS / len(few[1])
    return {
        "grouped_seconds": round(grouped_seconds, 3),
        "one_by_one_seconds": round(baseline_seconds, 3),
        "one_by_one_questions_timed": len(few[1]),
        "ratio": round(baseline_seconds / grouped_seconds, 1),
        "equal_tokens": round(equal, 4),
    }


def _time(function: Callable[[], torch.Tensor]) -> float:
    start = time.perf_counter()
    function()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    config = SwinVedConfig.base()
    model = SwinVedForConditionalGeneration(config).eval()
    inputs = make_inputs(config)
    figures = {"questions": QUESTIONS, "images": IMAGES, "beams": BEAMS, "new_tokens": NEW_TOKENS}
    figures["torch_threads"] = torch.get_num_threads()
    figures["cpu_float32"] = compare(model, inputs, BASELINE_STEP)
    model.to(torch.bfloat16)
    figures["cpu_bfloat16"] = compare(model, (inputs[0].bfloat16(), *inputs[1:]), BASELINE_STEP)
    if torch.cuda.is_available():
        model.to("cuda")
        figures["cuda_bfloat16"] = compare(model, tuple(value.to("cuda") for value in inputs), 1)
        figures["cuda_device"] = torch.cuda.get_device_name()
    cpu = figures["cpu_float32"]
    print(
        f"{QUESTIONS} questions of one study, {IMAGES} images, beam {BEAMS}, {NEW_TOKENS} tokens each: study-grouped "
        f"{cpu['grouped_seconds']:.1f} s, one by one {cpu['one_by_one_seconds']:.1f} s (scaled up from "
        f"{cpu['one_by_one_questions_timed']}): {cpu['ratio']:.1f}x (target {TARGET}x: "
        f"{'reached' if cpu['ratio'] >= TARGET else 'MISSED'}); equal tokens {cpu['equal_tokens']:.0%}"
    )
    if "cuda_bfloat16" in figures:
        print(f"on {figures['cuda_device']} in bfloat16: {figures['cuda_bfloat16']}")
    write_result("generation_swin_ved", figures)


if __name__ == "__main__":
    main()
