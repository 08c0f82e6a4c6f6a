"""Bar chart of an evaluation: text scores and accuracy by category, with a bar per kind of images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medvqa_core.files import atomic_file
from medvqa_core.metrics.caption_row import METRICS

# Okabe and Ito's palette, which is safe for colour blindness
COLOURS = ("#0072B2", "#E69F00", "#BBBBBB", "#009E73")


def draw_chart(results: Sequence[dict[str, Any]], path: Path, private: bool = False) -> None:
    """Draw text scores on the left and finding accuracy by category on the right.

    A black tick marks the accuracy of always answering with the category's more frequent label.

    Args:
        results: of one model, own images first.
        private: give the file mode 0600 (credentialed data).

    Raises:
        OutputError: `path` cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = results[0]
    part = "findings" if "findings" in first else "short_answers"
    findings = first[part]["by_category"]
    categories = [name for name, scores in findings.items() if scores["rows"]]
    figure = Figure(figsize=(12, 1.6 + 0.42 * max(len(categories), 8)), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))

    names = {name: METRICS.get(name, name) for name, value in first["table_4"].items() if value is not None}
    _bars(left, list(names.values()), [[r["table_4"].get(name) for name in names] for r in results], results)
    left.set_title("Answers against the references", fontsize=11)
    left.set_xlabel("Score (scales differ between metrics)")

    rows = [[r[part]["by_category"].get(name, {}).get("accuracy") for name in categories] for r in results]
    labels = [f"{name} ({findings[name]['rows']:,})" for name in categories]
    _bars(right, labels, rows, results)
    for place, name in enumerate(categories):
        commoner = findings[name].get("majority")
        if commoner is None:
            continue
        right.plot([commoner, commoner], [place - 0.42, place + 0.42], color="black", linewidth=1.6, zorder=3)
    right.set_xlim(0, 1.02)
    titles = {
        "findings": "Finding accuracy by category (rows); black: the commoner label",
        "short_answers": "Right answers by category (rows)",
    }
    right.set_title(titles[part], fontsize=11)
    handles, texts = right.get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=len(results), frameon=False)
    with atomic_file(path, private=private) as file:
        figure.savefig(file, format="png")


def _bars(axes: Any, names: Sequence[str], rows: Sequence[Sequence[float | None]], results: Sequence[dict]) -> None:
    """Horizontal bars in a group for each name, with a bar for each result."""
    thick = 0.8 / len(rows)
    for index, (values, result) in enumerate(zip(rows, results, strict=True)):
        places = [place - 0.4 + thick * (index + 0.5) for place in range(len(names))]
        shown = [0.0 if value is None else value for value in values]
        colour = COLOURS[index % len(COLOURS)]
        bars = axes.barh(places, shown, thick * 0.92, label=f"{result['images']} images", color=colour, zorder=2)
        if len(rows) == 1:
            texts = ["" if value is None else f"{value:.3f}" for value in values]
            axes.bar_label(bars, texts, padding=3, fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)
