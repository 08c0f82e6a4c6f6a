"""Tables of an audit for a terminal of 80 columns."""

from pathlib import Path
from typing import Any

from rich.console import Console

from medvqa_hub.evaluation.cxr.printing import log, make_table


def print_audit(summary: dict[str, Any], out: Path) -> None:
    """Print the shares, the accuracy in each condition, and the shares by finding."""
    console = Console()
    data = summary["data"]
    log(console, f"{summary['model']['name']}: {data['questions']:,} questions about {data['studies']:,} studies")
    shares = make_table("Shares, 95% intervals over studies", "value", "rows")
    for name, found in summary["shares"].items():
        shares.add_row(name.replace("_", " "), _format(found), f"{found['rows']:,}" if found else "-")
    console.print(shares)
    conditions = make_table("Conditions", "right", "changed from own")
    for name, found in summary["accuracy"].items():
        conditions.add_row(name.replace("_", " "), _format(found), _format(summary["changed"].get(name)))
    console.print(conditions)
    names = list(summary["shares"])
    by_finding = make_table("By finding", *(name.replace("_", " ") for name in names))
    for finding, found in summary["by_finding"].items():
        values = (found["shares"][name] for name in names)
        by_finding.add_row(finding, *("-" if value is None else f"{value['value']:.2f}" for value in values))
    console.print(by_finding)
    log(console, f"results, answers and changed images: {out}")


def _format(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    bounds = f" [{found['interval'][0]:.2f}, {found['interval'][1]:.2f}]" if found["interval"] else ""
    return f"{found['value']:.2f}{bounds}"
