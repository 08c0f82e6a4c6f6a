"""Training steps with study-grouped batches, each study encoded once, against one question per row.

SwinVED at full size (Swin-B 384, three decoder layers, random weights), three images per study, Q = 8 questions of one
study per batch. The baseline has the shape of the released code: every question is its own row with its study's images,
which are encoded again for each. Both use the same questions and answers, and their losses are compared. The forward
pass is timed, and forward with backward as in stage 1 (frozen encoder) and stage 2 (everything trained). `ratio` is
stage 2 on the CPU.

On a CPU one study is timed. The baseline runs BASELINE_ROWS rows and is scaled up, because every row costs the same.
Both are timed in float32 and under bfloat16 autocast.
The fastest round counts, since other work on the machine only adds time. With a CUDA device both also run there in
bfloat16, with several studies per batch and rows in batches of as many questions.

Run: python benchmarks/training_input.py [rounds]
"""

import sys
import time
from collections.abc import Callable

import torch
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration
from timing import write_result

QUESTIONS, IMAGES, QUESTION_TOKENS, ANSWER_TOKENS = 8, 3, 10, 30
BASELINE_ROWS = 2
GPU_STUDIES = 8
TARGET = 5


def make_batch(config: SwinVedConfig, studies: int) -> dict[str, torch.Tensor]:
    """A training batch of `studies` x QUESTIONS, as the collator makes it."""
    torch.manual_seed(0)
    side, questions = config.encoder.image_size, studies * QUESTIONS
    ids = torch.randint(7, config.decoder.vocab_size, (questions, QUESTION_TOKENS + ANSWER_TOKENS))
    ids[:, 0], ids[:, QUESTION_TOKENS - 1] = 0, config.decoder.bos_token_id
    ids[:, -1] = config.decoder.eos_token_id
    labels = ids.clone()
    labels[:, :QUESTION_TOKENS] = -100
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "labels": labels,
        "pixel_values": torch.randn(studies, IMAGES, 3, side, side),
        "study_index": torch.arange(studies).repeat_interleave(QUESTIONS),
    }


def as_rows(batch: dict[str, torch.Tensor], rows: list[int]) -> dict[str, torch.Tensor]:
    """The same questions, each with its own copy of its study's images."""
    texts = {name: batch[name][rows] for name in ("input_ids", "attention_mask", "labels")}
    return {**texts, "pixel_values": batch["pixel_values"][batch["study_index"][rows]]}


def step(
    model: SwinVedForConditionalGeneration, batch: dict[str, torch.Tensor], backward: bool, bfloat16: bool = False
) -> float:
    """Run one pass, under autocast if `bfloat16`, and return the loss."""
    device = batch["input_ids"].device.type
    with torch.set_grad_enabled(backward), torch.autocast(device, torch.bfloat16, enabled=bfloat16):
        loss = model(**batch).loss
    if backward:
        loss.backward()
        model.zero_grad(set_to_none=True)
    return loss.item()


def seconds(function: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    function()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def compare(
    model: SwinVedForConditionalGeneration,
    batch: dict[str, torch.Tensor],
    row_batches: list[list[int]],
    rounds: int,
    bfloat16: bool,
) -> dict[str, dict[str, float]]:
    """Questions per second of both ways, in the forward pass and in training of stages 1 and 2."""
    questions, timed_rows = len(batch["input_ids"]), sum(map(len, row_batches))
    figures = {}
    for name, backward, frozen in (("forward", False, True), ("stage_1", True, True), ("stage_2", True, False)):
        model.requires_grad_(True)
        if frozen:
            model.freeze_encoder()
        ways = {
            "grouped": lambda backward=backward: step(model, batch, backward, bfloat16),
            "rows": lambda backward=backward: [
                step(model, as_rows(batch, rows), backward, bfloat16) for rows in row_batches
            ],
        }
        times = {way: [] for way in ways}
        for _ in range(rounds):  # in turn, so that a slow spell of the machine hits both
            for way, function in ways.items():
                times[way].append(seconds(function))
        grouped, rows = questions / min(times["grouped"]), timed_rows / min(times["rows"])
        figures[name] = {
            "grouped_questions_per_second": round(grouped, 3),
            "rows_questions_per_second": round(rows, 3),
            "ratio": round(grouped / rows, 2),
        }
        print(f"{name}: {grouped:.3g} questions/s, one per row {rows:.3g}: {grouped / rows:.1f}x", flush=True)
    return figures


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    config = SwinVedConfig.base()
    torch.manual_seed(0)
    model = SwinVedForConditionalGeneration(config).eval()  # without dropout: the losses are compared
    batch = make_batch(config, 1)
    chosen = list(range(0, QUESTIONS, QUESTIONS // BASELINE_ROWS))[:BASELINE_ROWS]
    picked = {name: values if name == "pixel_values" else values[chosen] for name, values in batch.items()}
    difference = abs(step(model, picked, False) - step(model, as_rows(batch, chosen), False))
    print(f"losses of both ways differ by {difference:.2g}", flush=True)
    figures = {
        "questions_per_study": QUESTIONS, "images": IMAGES, "question_tokens": QUESTION_TOKENS,
        "answer_tokens": ANSWER_TOKENS, "rows_timed": BASELINE_ROWS, "rounds": rounds, "target": TARGET,
        "torch_threads": torch.get_num_threads(), "loss_difference": difference,
        "cpu_float32": compare(model, batch, [chosen], rounds, bfloat16=False),
        "cpu_bfloat16": compare(model, batch, [chosen], rounds, bfloat16=True),
    }  # fmt: skip
    if torch.cuda.is_available():
        model.to("cuda")
        batch = {name: values.to("cuda") for name, values in make_batch(config, GPU_STUDIES).items()}
        rows = list(range(len(batch["input_ids"])))
        parts = [rows[start : start + QUESTIONS] for start in range(0, len(rows), QUESTIONS)]
        for _ in range(2):
            step(model, batch, True, True)  # chooses its kernels
        torch.cuda.reset_peak_memory_stats()
        figures["cuda_bfloat16"] = compare(model, batch, parts, max(rounds, 5), bfloat16=True)
        figures["cuda_studies"] = GPU_STUDIES
        figures["cuda_device"] = torch.cuda.get_device_name()
        figures["cuda_peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    ratio = figures["cpu_float32"]["stage_2"]["ratio"]
    print(f"stage 2: {ratio}x, target {TARGET}x: {'reached' if ratio >= TARGET else 'MISSED'}")
    write_result("training_input", {**figures, "ratio": ratio})


if __name__ == "__main__":
    main()
