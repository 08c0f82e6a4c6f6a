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
ROWS = {  # name in the results -> name in the table
    "stage1": "stage 1",
    "stage2": "stage 2",
    "stage3": "stage 3",
    "stage3-paper": "stage 3 with the paper's reward alone",
}
SCORES = ("bleu_1", "bleu_4", "rouge_l", "cider", "bertscore")


def make_learning() -> str:
    """The Markdown table and the sentences under it."""
    result = read_json(RESULT, "run the benchmark that writes it")
    stages, checks = result["stages"], result["checks"]
    lines = [
        "| model, data | BLEU-1 | BLEU-4 | ROUGE-L | CIDEr | BERTScore | finding accuracy | … other patient's images |",
        "|---|---|---|---|---|---|---|---|",
        *(_measured(name, stages[stage]) for stage, name in ROWS.items()),
        *(_published(name, scores) for name, scores in PAPER.items()),
        "",
        _remarks(result),
        "",
        *(
            f"- {name}: {', '.join(map(str, check['values']))} "
            f"(target {check['target']}{'' if check['reached'] else ', **missed**'})"
            for name, check in checks.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _measured(name: str, stage: dict[str, Any]) -> str:
    cells = [stage["test"][score] for score in (*SCORES, "accuracy")] + [stage["test_shuffled"]["accuracy"]]
    return f"| tiny SwinVED, {name} | {' | '.join(map(mean_and_deviation, cells))} |"


def mean_and_deviation(figure: dict[str, Any]) -> str:
    """`0.8727 ± 0.0031`."""
    return f"{figure['mean']:.4f} ± {figure['deviation']:.4f}"


def _published(name: str, scores: tuple[float, ...]) -> str:
    return f"| *paper: {name}, MIMIC-CXR-VQA* | {' | '.join(f'*{score:.4f}*' for score in scores)} | | |"


def _remarks(result: dict[str, Any]) -> str:
    second = result["stages"]["stage2"]["test"]
    return (
        "Rows in italics have **another dataset and other models** and cannot be compared with ours. Our rows are "
        f"mean and standard deviation of {len(result['seeds'])} seeds of training, with answers about "
        f"{result['studies_evaluated']} test studies of {result['studies']:,} synthetic ones, whose patients are in no "
        f"other split. The rules {result['answers']} wrote the answers. BERTScore uses all-MiniLM-L6-v2 without "
        f"rescaling. The more frequent label of each category has a finding accuracy of "
        f"{second['majority']['mean']:.4f}. The balanced accuracy of stage 2 is "
        f"{mean_and_deviation(second['balanced_accuracy'])}. Below are the values of each seed."
    )
