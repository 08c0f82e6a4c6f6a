"""The README's table of what reading report images reaches: the five released samples, and synthetic reports."""

from pathlib import Path
from typing import Any

from medvqa_core.json_files import read_json

RESULT = Path(__file__).parent / "results" / "meddqa.json"
TASKS = {"entity_qa": "entity", "table_qa": "table", "table_nr_qa": "numerical"}


def make_meddqa() -> str:
    """The Markdown table."""
    result = read_json(RESULT, "run the benchmark that writes it")
    released, drawn, targets = result["released"]["all"], result["synthetic"]["all"], result["targets"]
    judged, covered = result["released"]["is_normal"], result["released"]["released_questions"]
    lines = [
        f"| | {released['reports']} released reports | target | {drawn['reports']} synthetic reports |",
        "|---|---|---|---|",
        f"| table rows with item and result on one restored line | {_of(released, 'rows_on_one_line', 'rows')} "
        f"| {targets['rows_on_one_line']} | {_of(drawn, 'rows_on_one_line', 'rows')} |",
        f"| filled key-values found by pre-annotation | {_of(released, 'key_values_found', 'key_values')} "
        f"| {targets['key_values_found']} | {_of(drawn, 'key_values_found', 'key_values')} |",
        f"| `is_normal` recomputed, decided rows that agree | {judged['agreeing']} of {judged['decided']} "
        f"| {targets['is_normal_agreement']:.0%} | |",
        f"| released questions that the generator also asks | {covered['covered']} of {covered['total']} | all | |",
        *(
            f"| `esra-rules`, soft accuracy, {name} | {_share(released['accuracy'][task])} "
            f"| {targets['accuracy'][task]} | {_share(drawn['accuracy'][task])} |"
            for task, name in TASKS.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _of(figures: dict[str, Any], part: str, whole: str) -> str:
    return f"{figures[part]:,} of {figures[whole]:,}"


def _share(value: float) -> str:
    return f"{value:.3f}"
