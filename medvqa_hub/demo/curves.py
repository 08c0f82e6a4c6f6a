"""The curves of the demo's three stages: losses on the left, rewards on the right."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medvqa_core.files import atomic_file

COLOURS = ("#0072B2", "#E69F00", "#009E73")  # Okabe and Ito's: told apart with any colour vision


def draw_curves(logs: Sequence[Sequence[dict[str, Any]]], reward: str, path: Path) -> None:
    """Draw the logs of stages 1, 2 and 3 one after another.

    Left: mean negative log-likelihood per token of the training batches (lines; in stage 3 the part of the loss that is
    one) and of the validation studies (dots). Right: reward of stage 3's sampled and greedy answers to its training
    batches.

    Args:
        logs: entries of `training_log.jsonl`, a list for each stage.
        reward: what stage 3 is rewarded with.

    Raises:
        OutputError: `path` cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    start = 0
    for number, log in enumerate(logs):
        colour = COLOURS[number % len(COLOURS)]
        losses = [(entry["step"] + start, entry.get("nll_loss", entry.get("loss"))) for entry in log if "loss" in entry]
        if losses:
            left.plot(*zip(*losses, strict=True), color=colour, label=f"stage {number + 1}")
        dots = [(entry["step"] + start, entry["eval_loss"]) for entry in log if "eval_loss" in entry]
        if dots:
            left.plot(*zip(*dots, strict=True), "o", color=colour, markeredgecolor="black", label="_")
        start += max((entry["step"] for entry in log), default=0)
    left.set_yscale("log")
    _label(left, "Loss per token (dots: validation)", "Step, stages one after another")
    for name, colour, style in (("greedy_reward", COLOURS[2], "-"), ("sample_reward", COLOURS[1], "--")):
        points = [(entry["step"], entry[name]) for entry in logs[-1] if name in entry]
        if points:
            label = "greedy answers" if name == "greedy_reward" else "sampled answers"
            right.plot(*zip(*points, strict=True), style, color=colour, label=label)
    _label(right, f"Stage 3: reward ({reward}) of training batches", "Step of stage 3")
    with atomic_file(path) as file:
        figure.savefig(file, format="png")


def _label(axes: Any, title: str, steps: str) -> None:
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(steps)
    axes.grid(color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
