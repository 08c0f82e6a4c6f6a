"""The tables of an evaluation on RJUA-MedDQA, as the command line prints them."""

from pathlib import Path
from typing import Any

from rich.console import Console

from medvqa_hub.evaluation.printing import figure, make_table

TABLE_5 = {
    "entity_rouge_l": "Entity RougeL",
    "entity_accuracy": "Entity Acc",
    "table_rouge_l": "Table RougeL",
    "table_accuracy": "Table Acc",
    "table_nr_accuracy": "TableNR Acc",
    "mc_accuracy": "MC Acc",
    "sa_rouge_l": "SA RougeL",
}
TABLE_6 = {"entity_rouge_l": "Entity RougeL", "table_accuracy": "Table Acc", "table_nr_accuracy": "TableNR Acc"}


def print_meddqa(results: dict[str, Any], out: Path) -> None:
    """Print the rows of Tables 5 and 6, the accuracy by image and what could not be answered."""
    console = Console()
    scores, counts, data = results["scores"], results["counts"], results["data"]
    name = results["model"]["name"]

    row = make_table("Table 5", *TABLE_5.values())
    row.add_row(name, *(figure(scores["table_5"][column]) for column in TABLE_5))
    split = make_table(
        "Table 6, by image quality", *(f"{head} {q}" for head in TABLE_6.values() for q in ("high", "low"))
    )
    split.add_row(name, *(figure(scores["table_6"][f"{c}_{q}"]) for c in TABLE_6 for q in ("high", "low")))
    images = make_table("By image", "questions", "accuracy")
    for image, found in results["by_image"].items():
        images.add_row(image, figure(found["questions"]), figure(found["accuracy"]))
    for each in (row, split, images):
        console.print(each)

    hallucination = scores["hallucination"]
    lines = [
        f"{counts['asked']:,} of {data['questions']:,} questions asked ({results['asked_now']:,} now), "
        f"{counts['failed']:,} failed; {data['images']:,} images, {data['unreadable_images']:,} unreadable",
        f"answers of nothing (无): {hallucination['unanswerable']:,}; something else was said in "
        f"{hallucination['hallucinated']:,} (rate {figure(hallucination['rate'])})",
        *(f"failed: {reason}: {count:,} questions" for reason, count in results["failures"].items()),
        f"predictions, scored questions and results: {out}",
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
