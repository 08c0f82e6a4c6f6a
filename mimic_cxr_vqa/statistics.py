"""Statistics of a dataset: Tables 1 and 2 of the paper, and its Figure 1.

Table 1 has images, QA pairs, open and closed answers per split, and also studies and patients. Images are distinct
paths. Table 2 has the CheXpert labels of all studies and the generated questions per label value. Heart is not a
CheXpert label and only counts among the questions. Figure 1 has the questions per category and label value.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import InputError
from medvqa_core.files import atomic_file
from medvqa_core.json_files import write_json
from medvqa_core.text_tables import align
from mimic_cxr_vqa.reports import RULES
from mimic_cxr_vqa.schema import CATEGORIES, CHEXPERT_LABELS, LABEL_VALUES, SPLITS

VALUE_NAMES = tuple(LABEL_VALUES.values())
ANSWER_TYPES = ("open", "closed")
COLUMNS = ("subject_id", "study_id", "split", "category", "label_value", "answer_type", "images")
_DISTINCT = {"images": "images", "studies": "study_id", "patients": "subject_id"}  # count -> column
_KEYS = {"split": SPLITS, "category": CATEGORIES, "label_value": VALUE_NAMES, "answer_type": ANSWER_TYPES}

# Label values and their meaning as in the paper's Table 2, in the order of its rows.
TABLE_2_ROWS = {
    "positive": ("1.0", "Positive Finding"),
    "negative": ("0.0", "Negative Finding"),
    "not_mentioned": ("NaN", "Not Mentioned"),
    "uncertain": ("-1.0", "Uncertain Finding"),
}

# Okabe and Ito's palette for all kinds of colour vision, with grey for values that are not mentioned.
COLOURS = {"positive": "#D55E00", "negative": "#0072B2", "uncertain": "#F0E442", "not_mentioned": "#BBBBBB"}

LabelCounts = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class SplitCounts:
    """One column of Table 1."""

    images: int
    studies: int
    patients: int
    qa_pairs: int
    open: int
    closed: int


@dataclass(frozen=True)
class Statistics:
    """Counts of a dataset.

    Attributes:
        splits: the three splits and `all`, which counts images, studies and patients that splits share once.
        labels: CheXpert labels per label value over the source's studies, if known.
        questions: generated questions per label value.
        distribution: questions per category and label value, for all combinations.
    """

    splits: dict[str, SplitCounts]
    labels: dict[str, int] | None
    questions: dict[str, int]
    distribution: dict[str, dict[str, int]]

    def to_json(self) -> dict:
        """Return plain dicts and numbers by table and figure."""
        return {
            "table_1": {split: dict(vars(counts)) for split, counts in self.splits.items()},
            "table_2": {
                value: {"labels": self.labels[value] if self.labels else None, "questions": self.questions[value]}
                for value in TABLE_2_ROWS
            },
            "figure_1": self.distribution,
        }


def summarise(qa_batches: Iterable[pa.Table | pa.RecordBatch], label_counts: LabelCounts | None = None) -> Statistics:
    """Count QA rows.

    Args:
        qa_batches: rows of `schema.QA_SCHEMA` in any order.
        label_counts: {CheXpert label: {label value: studies}} of the source.

    Raises:
        InputError: a column is missing, or a value is not in the schema.
    """
    rows: Counter[tuple[str, ...]] = Counter()
    distinct: dict[str, dict[str, set[Any]]] = {name: {split: set() for split in SPLITS} for name in _DISTINCT}
    for batch in qa_batches:
        table = _select(batch)
        rows.update(_count_rows(table))
        for split in pc.unique(table["split"]).to_pylist():
            part = table.filter(pc.equal(table["split"], split))
            for name, column in _DISTINCT.items():
                values = pc.list_flatten(part[column]) if column == "images" else part[column]
                distinct[name][split].update(pc.unique(values).to_pylist())

    splits = {}
    for name, members in {**{split: (split,) for split in SPLITS}, "all": SPLITS}.items():
        by_type = {kind: _sum(rows, split=members, answer_type=(kind,)) for kind in ANSWER_TYPES}
        counts = {what: len(set().union(*(found[split] for split in members))) for what, found in distinct.items()}
        splits[name] = SplitCounts(**counts, qa_pairs=sum(by_type.values()), **by_type)
    return Statistics(
        splits=splits,
        labels=_total_labels(label_counts) if label_counts is not None else None,
        questions={value: _sum(rows, label_value=(value,)) for value in VALUE_NAMES},
        distribution={
            category: {value: _sum(rows, category=(category,), label_value=(value,)) for value in VALUE_NAMES}
            for category in CATEGORIES
        },
    )


def format_tables(stats: Statistics) -> str:
    """Return Tables 1 and 2 as plain text in the paper's layout."""
    heads = {"train": "Train", "validate": "Val", "test": "Test", "all": "All"}
    names = {"images": "Images", "studies": "Studies", "patients": "Patients", "qa_pairs": "QA Pairs"}
    names |= {"open": "-Open", "closed": "-Closed"}
    table_1 = [["Dataset", *heads.values()]]
    for field, name in names.items():
        table_1.append([name, *(f"{getattr(stats.splits[split], field):,}" for split in heads)])

    table_2 = [["Value", "CheXpert labels", "Meaning", "Generated questions"]]
    for value, (number, meaning) in TABLE_2_ROWS.items():
        labels = f"{stats.labels[value]:,}" if stats.labels else "-"
        table_2.append([number, labels, meaning, f"{stats.questions[value]:,}"])
    return (
        f"Table 1: images and question-answer pairs\n\n{align(table_1, line=True)}\n\n"
        f"Table 2: CheXpert label values and generated questions\n\n{align(table_2, (2,), line=True)}\n"
    )


def format_section_rules(counts: Mapping[str, int]) -> str:
    """Return a table of the reports per rule of the section splitter (`reports.RULES`).

    It is empty for sources that do not use the section splitter (Open-i, the authors' files).
    """
    rows = [["Section rule", "Reports"], *([rule, f"{counts[rule]:,}"] for rule in RULES if rule in counts)]
    return f"Reports by the rules that found their sections\n\n{align(rows, line=True)}\n" if counts else ""


def plot_distribution(stats: Statistics, path: Path) -> None:
    """Draw Figure 1, questions per category stacked by label value, as a PNG.

    Raises:
        OutputError: `path` cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    figure = Figure(figsize=(10, 5.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    categories = sorted(CATEGORIES, key=lambda category: -sum(stats.distribution[category].values()))
    ends = [0] * len(categories)
    for value, (_, meaning) in TABLE_2_ROWS.items():
        counts = [stats.distribution[category][value] for category in categories]
        style: dict[str, Any] = {"color": COLOURS[value], "edgecolor": "white", "linewidth": 0.5}
        axes.barh(categories, counts, 0.75, ends, label=meaning, **style)
        ends = [end + count for end, count in zip(ends, counts, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, max(*ends, 1) * 1.03)
    axes.set_xlabel("Generated questions")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)
    axes.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    with atomic_file(path) as file:
        figure.savefig(file, format="png")


def write_statistics(stats: Statistics, folder: Path, more: Mapping[str, Any] | None = None) -> None:
    """Write `statistics.json` (with `more`) and `figure1.png` to `folder`. Raises OutputError."""
    write_json(folder / "statistics.json", {**stats.to_json(), **(more or {})}, ensure_ascii=True, end="")
    plot_distribution(stats, folder / "figure1.png")


def _select(batch: pa.Table | pa.RecordBatch) -> pa.Table:
    missing = [name for name in COLUMNS if name not in batch.schema.names]
    if missing:
        raise InputError(f"QA rows do not have the columns {', '.join(missing)}. Build the release again")
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    return table.select(COLUMNS)


def _count_rows(table: pa.Table) -> dict[tuple[str, ...], int]:
    """Rows per (split, category, label value, answer type), checked against the schema."""
    counted = table.group_by(list(_KEYS)).aggregate([([], "count_all")])
    counts = {}
    for row in counted.to_pylist():
        for name, allowed in _KEYS.items():
            if row[name] not in allowed:
                raise InputError(f"QA rows have {name} {row[name]!r}. Allowed: {', '.join(allowed)}")
        counts[tuple(row[name] for name in _KEYS)] = row["count_all"]
    return counts


def _sum(rows: Counter[tuple[str, ...]], **wanted: tuple[str, ...]) -> int:
    """Number of rows whose columns have one of the wanted values."""
    place = {name: index for index, name in enumerate(_KEYS)}
    return sum(n for key, n in rows.items() if all(key[place[name]] in values for name, values in wanted.items()))


def _total_labels(label_counts: LabelCounts) -> dict[str, int]:
    totals = dict.fromkeys(VALUE_NAMES, 0)
    for label, counts in label_counts.items():
        if label not in CHEXPERT_LABELS or not set(counts) <= set(VALUE_NAMES):
            raise InputError(
                f"label counts of {label!r} have {', '.join(counts)}. Expected: the 14 CheXpert labels with "
                f"{', '.join(VALUE_NAMES)}. Run medvqa-hub cxr questions again"
            )
        for value, count in counts.items():
            totals[value] += count
    return totals
