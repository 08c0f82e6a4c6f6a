"""The README's table of results: one row per question that a new user has, from the result files."""

from pathlib import Path
from typing import Any

from medvqa_core.json_files import read_json

RESULTS = Path(__file__).parent / "results"


def make_results() -> str:
    """The Markdown table."""
    learning, reports = _read("learning"), _read("meddqa")
    loading, answering, explore = _read("loading"), _read("generation_swin_ved"), _read("explore")
    second, third = (learning["stages"][f"stage{stage}"] for stage in (2, 3))
    hard = reports["hard"]["held_out"]["all"]
    grouped = answering["cpu_float32"]

    def mean(stage: dict[str, Any], figure: str, condition: str = "test") -> str:
        return f"{stage[condition][figure]['mean']:.4f}"

    lines = [
        "| what was measured | result | compared with |",
        "|---|---|---|",
        f"| tiny SwinVED on synthetic X-rays, finding accuracy after stage 2 (mean of "
        f"{len(learning['seeds'])} seeds) | {mean(second, 'accuracy')} | {mean(second, 'accuracy', 'test_shuffled')} "
        f"with another patient's images, {mean(second, 'majority')} for the more frequent label |",
        "| the same model, BERTScore and finding accuracy after stage 3 with the reward `bert_score:0.6+label:0.4` "
        f"| {mean(third, 'bertscore')}, {mean(third, 'accuracy')} "
        f"| {mean(second, 'bertscore')}, {mean(second, 'accuracy')} after stage 2 |",
        f"| {hard['reports']} hard synthetic report pages, held out: table rows restored to one line "
        f"| {hard['rows_on_one_line']} of {hard['rows']} | |",
        f"| … characters wrong, in reading order | {hard['character_error_rate']:.1%} | |",
        f"| … soft accuracy of the rules: entity, table, numerical questions | {_accuracies(hard)} | "
        f"{_accuracies(reports['released']['all'])} on 5 released reports, seen in development |",
        f"| load {loading['rows']:,} rows of the authors' CSV | {loading['load_ours_seconds']} s, "
        f"{loading['load_ours_peak_gib']} GiB | pandas: {loading['load_by_pandas_seconds']} s, "
        f"{loading['load_by_pandas_peak_gib']} GiB |",
        f"| answer {answering['questions']} questions about a study with {answering['images']} images, SwinVED base, "
        f"CPU | {grouped['grouped_seconds']:.1f} s | one by one: {grouped['one_by_one_seconds']:.1f} s |",
        f"| find a study among {explore['rows']:,} rows in the explorer | {explore['study_ms']['median']:.0f} ms "
        f"| `Dataset.filter`: {explore['datasets_study_ms']} ms |",
    ]
    return "\n".join(lines) + "\n"


def _accuracies(figures: dict[str, Any]) -> str:
    return ", ".join(f"{figures['accuracy'][task]:.3f}" for task in ("entity_qa", "table_qa", "table_nr_qa"))


def _read(name: str) -> Any:
    return read_json(RESULTS / f"{name}.json", "run the benchmark that writes it")
