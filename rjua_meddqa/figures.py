"""Figures 5, 6 and 7 of the paper.

Figure 5: results of several models on the five tasks, from their `results.json`. Figure 6: the most frequent diseases,
from the reasoning questions. Figure 7: the effect of the line discount r on the restored text of a page.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import atomic_file
from rjua_meddqa import fonts
from rjua_meddqa.restoration.esra import restore
from rjua_meddqa.schema import (
    ANSWER_SEPARATOR,
    DISEASE,
    LABORATORY,
    SHORT_ANSWER,
    Annotation,
    Box,
    ReasoningQuestion,
)
from rjua_meddqa.statistics import label_bars

AXES = {  # Figure 5: a task and its column of Table 5
    "Entity": "entity_rouge_l",
    "Table": "table_accuracy",
    "TableNR": "table_nr_accuracy",
    "MC": "mc_accuracy",
    "SA": "sa_rouge_l",
}
TOP = 25
DISCOUNTS = (0.0, 0.15, 0.5, 1.0)
PANEL_LINES, PANEL_WIDTH = 60, 100  # characters of a restored page in a panel of Figure 7


def read_results(path: Path) -> tuple[str, dict[str, float | None]]:
    """Read (model and profile, Table 5) from a `results.json` of `medvqa-hub evaluate meddqa`.

    Raises:
        InputError: the file is missing or does not hold such results.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        name, scores = record["model"]["name"], record["scores"]
        row = {axis: scores["table_5"][column] for axis, column in AXES.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: no results of an evaluation ({error!r}). Run medvqa-hub evaluate meddqa to get some."
        ) from None
    return f"{name} ({scores.get('profile', 'ours')})", row


def plot_models(
    rows: Mapping[str, Mapping[str, float | None]],
    path: Path,
    others: Mapping[str, Mapping[str, float | None]] | None = None,
    private: bool = False,
) -> None:
    """Draw Figure 5 as a PNG, a line per model. Tasks without a score are skipped.

    Args:
        rows: {model: {axis of AXES: score from 0 to 1, or None}}.
        others: results on other data, such as the paper's, drawn as thin dotted lines.
        private: give the file mode 0600 (credentialed data).

    Raises:
        InputError: all scores are missing.
        OutputError: `path` cannot be written.
    """
    if not any(value is not None for row in rows.values() for value in row.values()):
        raise InputError("no results to draw. Pass results.json files with scores in Table 5.")
    figure, axes = _figure(9, 6, projection="polar")
    angles = [2 * math.pi * place / len(AXES) for place in range(len(AXES))]
    for name, row in [*rows.items(), *(others or {}).items()]:
        points = [(angle, row[axis]) for angle, axis in zip(angles, AXES, strict=True) if row[axis] is not None]
        if not points:
            continue
        whole = [*points, points[0]] if len(points) == len(AXES) else points
        is_other = name not in rows
        look = {"linestyle": ":", "linewidth": 1.0} if is_other else {"marker": "o", "clip_on": False}
        axes.plot(*zip(*whole, strict=True), label=f"{name} (other data)" if is_other else name, **look)
    axes.set_xticks(angles, list(AXES))
    axes.tick_params(axis="x", pad=16)  # clear of a point at 1.0
    figure.get_layout_engine().set(rect=(0.07, 0, 0.93, 1))  # room for the names, which the layout ignores
    axes.set_ylim(0, 1)
    rings = [0.2, 0.4, 0.6, 0.8, 1.0]
    axes.set_yticks(rings, [""] * len(rings))
    for ring in rings:  # labels on top of the lines, between two tasks
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        axes.text(math.pi / len(AXES), ring, ring, fontsize=8, color="0.35", ha="center", va="center", bbox=box)
    legend = figure.legend(loc="outside right upper", fontsize=8)
    for text in legend.get_texts():
        text.set_fontstyle("italic" if text.get_text().endswith("(other data)") else "normal")
    _save(figure, path, private)


def count_diseases(
    questions: Iterable[ReasoningQuestion], annotations: Iterable[Annotation]
) -> tuple[Counter[str], Counter[str]]:
    """Count laboratory and clinical reports by disease, from the short answers about diseases.

    Questions about images without an annotation are left out, because their kind of report is unknown.
    """
    kinds = {annotation.img_path: annotation.report_type.strip() == LABORATORY for annotation in annotations}
    found: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
    for question in questions:
        if question.task == DISEASE and question.answer_type == SHORT_ANSWER and question.img_path in kinds:
            parts = filter(None, map(str.strip, question.answer.split(ANSWER_SEPARATOR)))
            found[kinds[question.img_path]] |= {(question.img_path, part) for part in parts}
    laboratory, clinical = (Counter(disease for _, disease in found[kind]) for kind in (True, False))
    return laboratory, clinical


def plot_diseases(laboratory: Counter[str], clinical: Counter[str], path: Path) -> None:
    """Draw Figure 6 as a PNG, with the `TOP` most frequent diseases of each. Raises OutputError."""
    groups = {"Laboratory reports": laboratory, "Clinical reports": clinical}
    tops = [sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:TOP] for counts in groups.values()]
    figure, both = _figure(11, 1.2 + 0.26 * max(1, *map(len, tops)), columns=2)
    for axes, (title, counts), top in zip(both, groups.items(), tops, strict=True):
        axes.barh(range(len(top)), [count for _, count in top], 0.7)
        label_bars(axes, [name for name, _ in top])
        axes.set_title(f"{title}: {sum(counts.values()):,}")
    _save(figure, path)


def plot_discounts(boxes: Sequence[Box], path: Path, discounts: Sequence[float] = DISCOUNTS) -> None:
    """Draw Figure 7 as a PNG: the text restored with each r, and its number of lines.

    Raises:
        InputError: `boxes` is empty.
        ConfigError: a Chinese font is missing.
        OutputError: `path` cannot be written.
    """
    from matplotlib.font_manager import FontProperties

    if not boxes:
        raise InputError("the page does not contain text. Pass those of a page with text, from medvqa-hub meddqa ocr.")
    texts = [restore(boxes, r=discount).text for discount in discounts]
    figure, panels = _figure(5.0 * len(texts), 8, columns=len(texts))
    font = FontProperties(fname=str(fonts.find_font()), size=5)
    for axes, discount, text in zip(panels, discounts, texts, strict=True):
        lines = text.splitlines()
        shown = "\n".join(line[:PANEL_WIDTH] for line in lines[:PANEL_LINES]).replace("$", r"\$")
        axes.text(0, 1, shown, fontproperties=font, va="top")
        axes.set_title(f"r = {discount:g}: {len(lines)} lines", fontsize=9)
        axes.set_axis_off()
    _save(figure, path)


def _figure(width: float, height: float, columns: int = 1, **settings: Any) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns, subplot_kw=settings)


def _save(figure: Any, path: Path, private: bool = False) -> None:
    with atomic_file(path, private=private) as file:
        figure.savefig(file, format="png")
