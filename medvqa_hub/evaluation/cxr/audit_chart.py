"""Chart of an audit: shares, accuracy by condition, looking by finding, and the risk-coverage curve."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medvqa_core.files import atomic_file
from medvqa_hub.evaluation.cxr.charts import COLOURS

BLUE, ORANGE, GREY, GREEN = COLOURS


def draw_audit(summary: Mapping[str, Any], path: Path, private: bool = False) -> None:
    """Draw a summary of `audit_cxr`. Lines are 95% intervals. Raises OutputError if `path` cannot be written."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    findings = summary["by_finding"]
    figure = Figure(figsize=(13, 7.5 + 0.12 * len(findings)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    ((shares, conditions), (by_finding, curve)) = figure.subplots(2, 2)
    figure.suptitle(f"{summary['model']['name']}: does the model look at the images?", fontsize=13)

    _draw_points(shares, {**summary["shares"], **summary["behaviour"]}, BLUE)
    shares.set_title("Answers", fontsize=11)
    shares.axvline(0, color="black", linewidth=0.8)
    low = min((found["value"] for found in summary["shares"].values() if found), default=0)
    shares.set_xlim(min(-0.05, low - 0.1), 1.05)

    _draw_points(conditions, summary["accuracy"], ORANGE)
    conditions.set_title("Accuracy by condition, against the own label", fontsize=11)
    conditions.set_xlim(-0.02, 1.05)

    looking = {f"{name} ({found['shares']['looking']['rows']:,})": found["shares"]["looking"]
               for name, found in findings.items() if found["shares"]["looking"]}  # fmt: skip
    _draw_points(by_finding, looking, GREEN)
    by_finding.set_title("Looking by finding (rows)", fontsize=11)
    by_finding.axvline(0, color="black", linewidth=0.8)

    _draw_curve(curve, summary["calibration"])
    with atomic_file(path, private=private) as file:
        figure.savefig(file, format="png")


def _draw_points(axes: Any, found: Mapping[str, Mapping[str, Any] | None], colour: str) -> None:
    """A point with its interval for each estimate, in reading order."""
    shown = {name: estimate for name, estimate in found.items() if estimate is not None}
    for place, estimate in enumerate(shown.values()):
        if estimate["interval"]:
            axes.plot(estimate["interval"], [place, place], color=colour, linewidth=2.5, alpha=0.5)
        axes.plot(estimate["value"], place, "o", color=colour)
        axes.annotate(f"{estimate['value']:.2f}", (estimate["value"], place), xytext=(0, 6), textcoords="offset points",
                      ha="center", fontsize=8)  # fmt: skip
    axes.set_yticks(range(len(shown)), [name.replace("_", " ") for name in shown])
    axes.set_ylim(len(shown) - 0.4, -0.8)
    axes.tick_params(axis="y", length=0)
    _tidy(axes, "x")


def _draw_curve(axes: Any, calibration: Mapping[str, Any] | None) -> None:
    axes.set_title("Wrong answers if only the most confident are kept", fontsize=11)
    axes.set_xlabel("coverage")
    axes.set_ylabel("risk")
    axes.set_xlim(0, 1.02)
    _tidy(axes, "both")
    if calibration is None:
        axes.text(0.5, 0.5, "The model does not state confidences.", ha="center", transform=axes.transAxes)
        return
    coverage: Sequence[float] = calibration["curve"]["coverage"]
    axes.plot(coverage, calibration["curve"]["risk"], color=BLUE, linewidth=2)
    axes.axhline(calibration["risk"], color=GREY, linewidth=1.5, linestyle="--")
    axes.set_ylim(0, max(0.05, *calibration["curve"]["risk"]) * 1.15)
    text = f"AURC {calibration['aurc']['value']:.3f}, ECE {calibration['ece']['value']:.3f}"
    axes.text(0.98, 0.05, text, ha="right", transform=axes.transAxes)


def _tidy(axes: Any, grid: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color="#DDDDDD", linewidth=0.8)
