"""The table of training results: our tiny models on synthetic studies, beside the paper's Table 4.

The two halves use different data, models and reference answers, so the table states that they must not be compared. The
paper's figures are copied once from its Table 4.
"""

from pathlib import Path
from typing import Any

from medvqa_core.json_files import read_json

RESULT = Path(__file__).parent / "results" / "learning.json"
PAPER = {  # BLEU-1, BLEU-4, ROUGE-L, CIDEr, BERTScore
    "SwinVED, stage 1": (0.2837, 0.1323, 0.4125, 1.6421, 0.5937),
    "SwinVED, stage 2": (0.2867, 0.1352, 0.4137, 1.6514, 0.5954),
    "SwinVED, stage 3": (0.3046, 0.1416, 0.4143, 1.6329, 0.5957),
    "BLIP-2-MultiView": (0.1357, 0.0523, 0.3472, 0.7657, 0.5301),
}
SCORES = ("bleu_1", "bleu_4", "rouge_l", "cider", "bertscore")


def make_learning() -> str:
    """The Markdown table and the sentences under it."""
    result = read_json(RESULT, "run the benchmark that writes it")
    parts, checks = result["parts"], result["checks"]
    lines = [
        "| model, data | BLEU-1 | BLEU-4 | ROUGE-L | CIDEr | BERTScore | finding accuracy | … other patient's images |",
        "|---|---|---|---|---|---|---|---|",
        *(_measured(stage, parts[f"stage{stage}"]) for stage in (1, 2, 3)),
        *(_published(name, scores) for name, scores in PAPER.items()),
        "",
        _remarks(result, parts),
        "",
        *(
            f"- {name}: {check['value']} (target {check['target']}{'' if check['reached'] else ', **missed**'})"
            for name, check in checks.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _measured(stage: int, part: dict[str, Any]) -> str:
    own, shuffled = part["test"], part["test_shuffled"]
    scores = " | ".join(f"{own[name]:.4f}" for name in SCORES)
    return (
        f"| tiny SwinVED, stage {stage}, synthetic test split | {scores} | {own['accuracy']:.4f} "
        f"| {shuffled['accuracy']:.4f} |"
    )


def _published(name: str, scores: tuple[float, ...]) -> str:
    return f"| *paper: {name}, MIMIC-CXR-VQA* | {' | '.join(f'*{score:.4f}*' for score in scores)} | | |"


def _remarks(result: dict[str, Any], parts: dict[str, Any]) -> str:
    second = parts["stage2"]["test"]
    return (
        "Rows in italics have **another dataset and other models** and cannot be compared with ours. Our rows are "
        f"answers about {result['studies_evaluated']} test studies of {result['studies']:,} synthetic ones, whose "
        "patients are in no other split, and their BERTScore uses all-MiniLM-L6-v2 without rescaling. The more "
        f"frequent label of each category has a finding accuracy of {second['majority']:.4f}. The balanced accuracy of "
        f"stage 2 is {second['balanced_accuracy']:.4f}."
    )
