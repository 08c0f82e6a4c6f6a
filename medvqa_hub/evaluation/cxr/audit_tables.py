"""Tables of an audit for a terminal of 80 columns."""

from pathlib import Path
from typing import Any

from rich.console import Console

from medvqa_hub.evaluation.cxr.printing import log, make_table

PARTS = ("accuracy", "looking", "following_text", "guessing")
LINES = {"images": "own images", "stated": "indication stated"}


def print_audit(summary: dict[str, Any], out: Path) -> None:
    """Print where right answers come from, the shares, the conditions, the confidence, and the shares by finding."""
    console = Console()
    data = summary["data"]
    log(console, f"{summary['model']['name']}: {data['questions']:,} questions about {data['studies']:,} studies")
    parts = make_table("Where right answers come from", *(name.replace("_", " ") for name in PARTS))
    for name, head in LINES.items():
        if found := summary["parts"][name]:
            parts.add_row(head, *(_format(found.get(part), with_interval=False) for part in PARTS))
    if parts.row_count:
        console.print(parts)
    else:
        log(console, "No other patient has the opposite label of a finding in the same views. Audit more studies.")
    shares = make_table("Answers, 95% intervals over studies", "value", "rows")
    for name, found in {**summary["shares"], **summary["behaviour"]}.items():
        shares.add_row(name.replace("_", " "), _format(found), f"{found['rows']:,}" if found else "-")
    console.print(shares)
    conditions = make_table("Conditions", "right", "changed from own", "failed")
    for name in {**summary["accuracy"], **summary["failed"]}:
        right, changed = summary["accuracy"].get(name), summary["changed"].get(name)
        conditions.add_row(
            name.replace("_", " "), _format(right), _format(changed), f"{summary['failed'].get(name, 0):,}"
        )
    console.print(conditions)
    if summary["calibration"]:
        _print_calibration(console, summary["calibration"])
    else:
        log(console, "The model states no confidences. Checkpoints do with --beams 1, and servers with logprobs.")
    names = list(summary["shares"])
    by_finding = make_table("By finding", *(name.replace("_", " ") for name in names))
    for finding, found in summary["by_finding"].items():
        by_finding.add_row(finding, *(_format(found["shares"][name], with_interval=False) for name in names))
    console.print(by_finding)
    log(console, f"results, answers, chart, examples and changed images: {out}")


def _print_calibration(console: Console, found: dict[str, Any]) -> None:
    table = make_table("Confidence in answers about own images", "value")
    table.add_row("wrong answers", f"{found['risk']:.2f}")
    for name in ("risk_at_80%", "risk_at_50%", "aurc", "excess_aurc", "ece"):
        table.add_row(_TITLES[name], _format(found[name]))
    for name, mean in found["mean_confidence"].items():
        table.add_row(f"mean confidence, {name.replace('_', ' ')}", _format(mean))
    console.print(table)
    if missing := found["without_confidence"]:
        log(console, f"{missing:,} answers without a confidence are left out")


_TITLES = {
    "risk_at_80%": "wrong among the surest 80%",
    "risk_at_50%": "wrong among the surest 50%",
    "aurc": "area under risk-coverage curve",
    "excess_aurc": "the same above the best order",
    "ece": "expected calibration error",
}


def _format(found: dict[str, Any] | None, with_interval: bool = True) -> str:
    if found is None:
        return "-"
    low_high = found["interval"] if with_interval else None
    bounds = f" [{low_high[0]:.2f}, {low_high[1]:.2f}]" if low_high else ""
    return f"{found['value']:.2f}{bounds}"
