"""The table of what reading report images reaches: released samples, drawn reports plain and hard."""

from pathlib import Path
from typing import Any

from medvqa_core.json_files import read_json

RESULT = Path(__file__).parent / "results" / "meddqa.json"
TASKS = {"entity_qa": "entity", "table_qa": "table", "table_nr_qa": "numerical"}


def make_meddqa() -> str:
    """The Markdown table."""
    result = read_json(RESULT, "run the benchmark that writes it")
    released, drawn, targets = result["released"]["all"], result["synthetic"]["all"], result["targets"]
    hard = result["hard"]["held_out"]["all"]
    recall, precision = _planted(result["hard"]["held_out"]["planted"])
    judged, covered = result["released"]["is_normal"], result["released"]["released_questions"]
    rows = ("rows_on_one_line", "rows")
    fields = ("key_values_found", "key_values")
    lines = [
        f"| | {released['reports']} released reports, seen in development | target | {drawn['reports']} plain drawn "
        f"reports | {hard['reports']} hard drawn reports, held out |",
        "|---|---|---|---|---|",
        f"| table rows on a restored line of their own | {_of(released, *rows)} "
        f"| {targets['rows_on_one_line']} | {_of(drawn, *rows)} | {_of(hard, *rows)} |",
        f"| filled key-values found by pre-annotation | {_of(released, *fields)} "
        f"| {targets['key_values_found']} | {_of(drawn, *fields)} | {_of(hard, *fields)} |",
        f"| `is_normal` recomputed, decided rows that agree | {judged['agreeing']} of {judged['decided']} "
        f"| {targets['is_normal_agreement']:.0%} | | {hard['wrong_verdicts']} wrong of {hard['rows_with_verdict']} |",
        f"| released questions that the generator also asks | {covered['covered']} of {covered['total']} | all | | |",
        f"| characters of the page wrong, in reading order | | | | {hard['character_error_rate']:.1%} |",
        "| errors that its authors planted, found by `check`: recall, precision | | 90%, 90% | "
        f"| {recall:.1%}, {precision:.1%} |",
        *(
            f"| `esra-rules`, soft accuracy, {name} | {_share(released['accuracy'][task])} "
            f"| {targets['accuracy'][task]} | {_share(drawn['accuracy'][task])} | {_share(hard['accuracy'][task])} |"
            for task, name in TASKS.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _planted(kinds: dict[str, dict[str, int]]) -> tuple[float, float]:
    found, planted, false = (sum(kind[name] for kind in kinds.values()) for name in ("found", "planted", "false"))
    return found / planted, found / (found + false)


def _of(figures: dict[str, Any], part: str, whole: str) -> str:
    return f"{figures[part]:,} of {figures[whole]:,}"


def _share(value: float) -> str:
    return f"{value:.3f}"
