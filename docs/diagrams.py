"""Writes the pictures of the guides: docs/pipelines.png, study.png, scst.png and audit.png.

Run: python docs/diagrams.py      (needs no browser and no network)

The study is one of the bundled synthetic sample, and the audit's values are those of benchmarks/results/audit.json.
"""

import io
import json
import textwrap
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from PIL import Image

from medvqa_core.files import atomic_file
from medvqa_hub.evaluation.cxr.charts import COLOURS
from mimic_cxr_vqa import SAMPLE_DIR

DOCS = Path(__file__).parent
AUDIT = DOCS.parent / "benchmarks" / "results" / "audit.json"
WIDTH, DPI = 7.0, 150  # inches, dots per inch
BLUE, ORANGE, GREY, GREEN = COLOURS
DARK, PALE = "#555555", {BLUE: "#E3F0F8", ORANGE: "#FDF1DA", GREY: "#F2F2F2", GREEN: "#DDF3EB"}
TEXT, SMALL = 8.5, 7.5  # points

PIPELINES = {  # title -> step, commands, what it writes
    "MIMIC-CXR-VQA: from chest X-rays with reports": (
        ("Draw\nquestions", "cxr questions", "questions.parquet"),
        ("Answer from\nthe report", "cxr answer", "answers.jsonl"),
        ("Judge,\nreview", "cxr judge\ncxr review", "judge/, review/"),
        ("Release", "cxr release", "release/"),
        ("Train", "train swin-ved", "a model folder"),
        ("Evaluate,\naudit", "evaluate cxr\naudit cxr", "scores"),
    ),
    "RJUA-MedDQA: from photographed reports": (
        ("Read, rectify,\nrestore text", "meddqa esra", "pages.jsonl"),
        ("Draft keys\nand rows", "meddqa\npreannotate", "annotations.csv"),
        ("Correct", "explore", "annotations.csv"),
        ("Check", "meddqa check", "a list of findings"),
        ("Generate\nquestions", "meddqa generate", "questions.jsonl"),
        ("Evaluate", "evaluate meddqa", "scores"),
    ),
}
STUDY = 95000037  # of the sample's test split
CATEGORIES = ("Consolidation", "Edema", "Pneumothorax", "Cardiomegaly", "Support Devices")
ANSWERERS = {  # name in audit.json -> name in docs/audit.md
    "looker": "reads the finding",
    "looker_80": "the same, one error in five",
    "prior_answer": "more frequent label",
    "wrong_region": "reads another place",
    "SwinVED stage 1": "tiny SwinVED, stage 1",
    "SwinVED stage 2": "tiny SwinVED, stage 2",
    "SwinVED stage 3": "tiny SwinVED, stage 3",
    "BLIP-2-MultiView": "tiny BLIP-2-MultiView",
    "image-text model": "tiny image-text model",
}


def main() -> None:
    write(draw_pipelines(), DOCS / "pipelines.png")
    write(draw_study(), DOCS / "study.png", colours=32)  # greys of a noisy image take space
    write(draw_scst(), DOCS / "scst.png")
    write(draw_audit(), DOCS / "audit.png")


def draw_pipelines() -> Figure:
    """A row of steps for each dataset, with their commands."""
    figure, axes = make_canvas(3.0)
    for (title, steps), top, colour in zip(PIPELINES.items(), (2.85, 1.35), (BLUE, GREEN), strict=True):
        axes.text(0.05, top, title, fontsize=TEXT + 1, weight="bold", va="center")
        for number, (step, command, written) in enumerate(steps):
            left = 0.05 + 1.17 * number
            add_box(axes, left, top - 0.75, 0.98, 0.55, step, colour)
            if number:
                add_arrow(axes, (left - 0.17, top - 0.475), (left - 0.01, top - 0.475))
            axes.text(left + 0.49, top - 0.83, command, fontsize=SMALL, family="monospace", ha="center", va="top")
            axes.text(left + 0.49, top - 1.12, written, fontsize=SMALL - 0.5, color=DARK, ha="center", va="top")
    return figure


def draw_study() -> Figure:
    """Images of a study beside five of its questions and answers."""
    rows = pq.read_table(SAMPLE_DIR / "qa" / "test-00000-of-00001.parquet").to_pylist()
    rows = [row for row in rows if row["study_id"] == STUDY]
    asked = [next(row for row in rows if row["category"] == category) for category in CATEGORIES]
    images = list(zip(asked[0]["images"], asked[0]["views"], strict=True))
    figure, axes = make_canvas(4.5)
    for number, (path, view) in enumerate(images):
        left = 0.05 + 2.33 * number
        with Image.open(SAMPLE_DIR / "files" / path) as image:
            axes.imshow(
                image.convert("L"), cmap="gray", extent=(left, left + 2.24, 2.15, 4.39), interpolation="antialiased"
            )
        axes.text(left + 0.06, 4.33, view, fontsize=SMALL, color="white", va="top")
    for number, row in enumerate(asked):
        height = 1.9 - 0.4 * number
        axes.text(0.05, height, row["question"], fontsize=TEXT, weight="bold", va="center")
        axes.text(2.55, height, textwrap.fill(row["answer"], 58), fontsize=TEXT, va="center")
        axes.plot((0.05, 6.95), (height - 0.2, height - 0.2), color="#DDDDDD", linewidth=0.8)
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(0, 4.5)
    return figure


def draw_scst() -> Figure:
    """A step of self-critical training: medvqa_hub/training/scst_step.py."""
    figure, axes = make_canvas(3.6)
    axes.add_patch(
        FancyBboxPatch((3.0, 1.62), 3.93, 1.88, "round,pad=0,rounding_size=0.08", fc="none", ec=DARK, ls=":")
    )
    axes.text(6.86, 3.36, "without gradient", fontsize=SMALL, color=DARK, ha="right", va="center")
    add_box(axes, 0.05, 2.12, 1.1, 0.7, "Images of\na study", GREY)
    add_box(axes, 1.5, 2.12, 1.2, 0.7, "Image features,\nencoded once", BLUE)
    add_box(axes, 3.1, 2.62, 1.15, 0.6, "Greedy\nanswer", ORANGE)
    add_box(axes, 3.1, 1.72, 1.15, 0.6, "Sampled\nanswers", ORANGE)
    add_box(axes, 4.55, 2.62, 1.0, 0.6, "Reward\nr(greedy)", GREEN)
    add_box(axes, 4.55, 1.72, 1.0, 0.6, "Reward\nr(sampled)", GREEN)
    add_box(axes, 5.85, 2.1, 1.0, 0.74, "Difference\nr(sampled) –\nr(greedy)", GREEN)
    add_box(axes, 0.05, 0.4, 1.1, 0.7, "Reference\nanswers", GREY)
    add_box(axes, 1.5, 0.4, 2.75, 0.7, "One pass with gradient:\nlog P(sampled), log P(reference)", BLUE)
    add_box(axes, 4.55, 0.4, 2.3, 0.7, "Loss = – α · difference · log P(sampled)\n– γ · log P(reference)", BLUE, SMALL)
    arrows = [
        ((1.15, 2.47), (1.5, 2.47)), ((2.7, 2.57), (3.1, 2.92)), ((2.7, 2.37), (3.1, 2.02)),
        ((4.25, 2.92), (4.55, 2.92)), ((4.25, 2.02), (4.55, 2.02)), ((5.55, 2.92), (5.85, 2.62)),
        ((5.55, 2.02), (5.85, 2.32)), ((6.35, 2.1), (6.35, 1.1)), ((2.1, 2.12), (2.1, 1.1)),
        ((3.67, 1.72), (3.67, 1.1)), ((1.15, 0.75), (1.5, 0.75)), ((4.25, 0.75), (4.55, 0.75)),
    ]  # fmt: skip
    for start, end in arrows:
        add_arrow(axes, start, end)
    note = "The reward compares an answer with the reference. Sampled answers that beat the greedy one become likelier."
    axes.text(0.05, 0.14, note, fontsize=SMALL, color=DARK, va="center")
    return figure


def draw_audit() -> Figure:
    """Accuracy, looking and region of the answerers of the guide, with 95% intervals."""
    audits = json.loads(AUDIT.read_text(encoding="utf-8"))["audits"]
    figure = Figure(figsize=(WIDTH, 3.6), dpi=DPI, layout="constrained")
    panels = figure.subplots(1, 3, sharey=True, width_ratios=(1.45, 1.65, 2.5))
    for axes, measure, colour in zip(panels, ("accuracy", "looking", "region"), (ORANGE, BLUE, GREEN), strict=True):
        found = [audits[name][measure] for name in ANSWERERS]
        values = [estimate["value"] for estimate in found]
        axes.barh(range(len(found)), values, 0.5, color=colour, zorder=2)
        for place, estimate in enumerate(found):
            low, high = estimate["interval"]
            axes.plot((low, high), (place, place), color="black", linewidth=1.2, zorder=3)
            at = max(high, 0.0)
            axes.annotate(f"{estimate['value']:.2f}", (at, place), xytext=(4, 0), textcoords="offset points",
                          va="center", fontsize=SMALL)  # fmt: skip
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_title(measure, fontsize=TEXT + 1)
        axes.set_xlim({"accuracy": -0.05, "looking": -0.25, "region": -1.1}[measure], 1.4)
        axes.set_xticks((-1, 0, 1) if measure == "region" else (0, 0.5, 1))
        axes.tick_params(labelsize=SMALL, length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.grid(axis="x", color="#DDDDDD", linewidth=0.8, zorder=0)
    panels[0].set_yticks(range(len(ANSWERERS)), list(ANSWERERS.values()), fontsize=TEXT)
    panels[0].invert_yaxis()
    return figure


def make_canvas(height: float) -> tuple[Figure, Axes]:
    """A white page of WIDTH x `height` inches whose coordinates are inches from the lower left corner."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, height))
    axes.set_axis_off()
    return figure, axes


def add_box(
    axes: Axes, left: float, bottom: float, width: float, height: float, text: str, colour: str, size: float = TEXT
) -> None:
    style = "round,pad=0,rounding_size=0.06"
    axes.add_patch(FancyBboxPatch((left, bottom), width, height, style, fc=PALE[colour], ec=colour, lw=1.2))
    axes.text(left + width / 2, bottom + height / 2, text, fontsize=size, ha="center", va="center", linespacing=1.25)


def add_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    style: dict[str, Any] = {"arrowstyle": "-|>", "color": DARK, "lw": 1.1, "shrinkA": 1, "shrinkB": 1}
    axes.annotate("", end, start, arrowprops=style)


def write(figure: Figure, path: Path, colours: int = 256) -> None:
    """Write `figure` as a PNG with a palette of `colours`."""
    FigureCanvasAgg(figure)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    picture = Image.open(drawn).convert("RGB").quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    with atomic_file(path) as file:
        picture.save(file, format="PNG", optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
