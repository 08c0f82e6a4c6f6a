"""A comparison of runs as text, CSV and picture."""

import csv
from pathlib import Path

from rich.console import Console

from medvqa_core.files import atomic_file, make_folder
from medvqa_core.metrics.caption_row import METRICS
from medvqa_hub.evaluation.comparing import Comparison
from medvqa_hub.evaluation.cxr.charts import COLOURS
from medvqa_hub.evaluation.cxr.printing import log, make_table, number

CSV_FILE, PICTURE = "comparison.csv", "comparison.png"
SMALL_P = 0.05


def print_comparison(made: Comparison) -> None:
    """Print values with 95% intervals, then tests of every pair with Holm's p values among the pairs of a metric."""
    console = Console()
    log(
        console,
        f"{len(made.runs)} runs on {made.questions:,} questions of {made.units:,} {_units(made)}; 95% intervals",
    )
    for place, run in enumerate(made.runs, start=1):
        failed = sum(row["error"] is not None for row in run.rows.values())
        verified = "verified" if run.verified else "not verified, the results do not state hashes"
        log(console, f"{place}: {run.name}, {failed:,} answers failed (they count as wrong), {verified}")
    table = make_table("Scores", *(str(place) for place in range(1, len(made.runs) + 1)))
    for name, scores in made.scores.items():
        table.add_row(METRICS.get(name, name), *(_with_interval(*score) for score in scores))
    console.print(table)
    tests = make_table("Paired tests", "difference", "p", "p (Holm)", "left out")
    for (name, one, other), (difference, p, among) in made.tests.items():
        signed = "-" if difference is None else f"{difference:+.4f}"
        pair = f"{METRICS.get(name, name)}, {other + 1} against {one + 1}"
        left_out = made.left_out[name, one, other]
        tests.add_row(pair, signed, number(p), number(among), f"{left_out:,}")
    console.print(tests)
    if any(made.left_out.values()):
        log(console, "left out: questions that the metric can score in one of both runs only")


def write_comparison(made: Comparison, out: Path) -> None:
    """Write comparison.csv and comparison.png to `out`. Raises OutputError."""
    private = made.governance.private
    make_folder(out, private)
    with atomic_file(out / CSV_FILE, "w", private=private) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["metric", "run", "against", "value", "low", "high", "difference", "p", "p_holm", "left_out"])
        for name, scores in made.scores.items():
            for run, (value, bounds) in zip(made.runs, scores, strict=True):
                low, high = bounds or (None, None)
                table.writerow([name, run.name, "", value, low, high, "", "", "", ""])
        for (name, one, other), figures in made.tests.items():
            left_out = made.left_out[name, one, other]
            table.writerow([name, made.runs[other].name, made.runs[one].name, "", "", "", *figures, left_out])
    draw_comparison(made, out / PICTURE)


def draw_comparison(made: Comparison, path: Path) -> None:
    """Draw a panel per metric with each run's value on its interval. Hollow dots do not differ from the first run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(3, len(made.scores))
    rows = -(-len(made.scores) // columns)
    height = 0.5 + 0.3 * len(made.runs)
    figure = Figure(figsize=(4.2 * columns, 1.0 + rows * (height + 0.7)), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (name, scores) in zip(panels, made.scores.items(), strict=False):
        for place, (value, bounds) in enumerate(scores):
            if value is None:
                continue
            colour = COLOURS[place % len(COLOURS)]
            p = made.tests[name, 0, place][2] if place else 0.0
            if bounds:
                axes.plot(bounds, [place, place], color=colour, linewidth=2, zorder=2)
            filled = p is not None and p < SMALL_P
            axes.plot([value], [place], "o", color=colour, mfc=colour if filled else "white", markersize=7, zorder=3)
            axes.annotate(f"{value:.3f}", (value, place), (0, 6), textcoords="offset points", ha="center", fontsize=7)
        axes.set_yticks(range(len(made.runs)), [_short(run.name) for run in made.runs], fontsize=8)
        axes.set_ylim(len(made.runs) - 0.4, -0.7)
        axes.set_title(METRICS.get(name, name), fontsize=10)
        axes.margins(x=0.15)
        axes.locator_params(axis="x", nbins=4)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)
        axes.set_axisbelow(True)
    for axes in panels[len(made.scores) :]:
        axes.set_visible(False)
    units = f"{made.units:,} {_units(made)}"
    note = f"95% intervals over {units}. Filled: different from the first run (Holm's p < {SMALL_P})."
    figure.supxlabel(note, fontsize=8)
    with atomic_file(path, private=made.governance.private) as file:
        figure.savefig(file, format="png")


def _units(made: Comparison) -> str:
    return "images" if made.runs[0].kind.startswith("meddqa") else "studies"


def _short(name: str) -> str:
    return name if len(name) <= 28 else f"…{name[-27:]}"


def _with_interval(value: float | None, bounds: tuple[float, float] | None) -> str:
    if value is None or bounds is None:
        return number(value)
    return f"{value:.3f} [{bounds[0]:.3f}, {bounds[1]:.3f}]"
