"""Answers of an image-text model to a few rows, for experiment trackers."""

from typing import Any

import torch

from medvqa_hub.tracking import Sample

MOST_TOKENS = 128


@torch.no_grad()
def answer_first_rows(model: Any, processor: Any, rows: Any, most: int = 2) -> list[Sample]:
    """Greedy answers to the first `most` rows of the configuration `chat`, or to the first question of each study."""
    was_training = model.training
    model.eval()
    samples = []
    for number in range(min(most, len(rows))):
        row = rows[number]
        messages = row["prompt"] if "prompt" in row else row["messages"][:1]
        question, reference = (
            row[name] if isinstance(row[name], str) else row[name][0] for name in ("question", "ground_truth")
        )
        text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        inputs = processor(text=[text], images=[row["images"]], return_tensors="pt").to(model.device)
        made = model.generate(**inputs, max_new_tokens=MOST_TOKENS, do_sample=False)
        answer = processor.decode(made[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip()
        samples.append(Sample(row["images"], question, reference, answer))
    model.train(was_training)
    return samples
