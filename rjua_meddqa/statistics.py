"""The numbers of an annotation set: Tables 2 and 3 of the paper and the counts and picture of its Figure 2.

Table 2: images and key-value pairs by image type and quality; table rows are added. Table 3: contexts and their mean
length in characters by report type and kind. The report type is what a column `report_type` of the context file says,
which the released one has not; else that of the reports whose questions come with the context; else, for a kind that
the paper has for one type alone, that one. Figure 2: images by report type. Questions are counted by task and type.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.files import atomic_file
from medvqa_core.json_files import write_json
from rjua_meddqa.data_folder import ANNOTATIONS, CONTEXTS, QUESTIONS, REASONING, DataFolder
from rjua_meddqa.generation.contexts import KINDS
from rjua_meddqa.generation.reasoning_file import read_reasoning
from rjua_meddqa.released import read_annotations, read_cells, read_questions
from rjua_meddqa.schema import ANSWER_SEPARATOR, CONTEXT_COLUMNS, IMAGE_QUALITIES, IMAGE_TYPES, LABORATORY, Annotation

IMAGE_TYPE_NAMES = {"photo": "Photo", "pdf": "PDF", "screenshot": "Screenshot"}  # in the order of Table 2
UNNAMED = "(none)"  # a report type or a context kind that is empty
CJK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "AR PL UMing CN",
    "Microsoft YaHei",
    "SimHei",
    "PingFang SC",
    "Heiti SC",
)
CLINICAL = "Clinical"
# Kinds that the paper's Table 3 has for one report type alone.
ONLY_IN = {"检查-状态": LABORATORY, "疾病-建议": LABORATORY, "疾病-检查": CLINICAL, "疾病-治疗": CLINICAL}
BAR_COLOUR = "#0072B2"


@dataclass(frozen=True)
class ImageCounts:
    """One row of Table 2."""

    images: int
    key_value_pairs: int
    table_rows: int


@dataclass(frozen=True)
class ContextCounts:
    """One row of Table 3; the length is the mean number of characters of a description."""

    contexts: int
    average_length: float


@dataclass(frozen=True)
class Statistics:
    """Counts of a data folder; see the module's docstring.

    Attributes:
        images: by (image type, quality), every combination that occurs, in the order of Table 2.
        contexts: by (report type or "", kind), in the order of Table 3.
        report_types: images by report type, most frequent first.
        questions: by (task, answer type).
        untitled_contexts: contexts without a title; they are in none of the other counts.
    """

    images: dict[tuple[str, str], ImageCounts]
    contexts: dict[tuple[str, str], ContextCounts]
    report_types: dict[str, int]
    questions: dict[tuple[str, str], int]
    untitled_contexts: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers, by the table or figure that they belong to; totals included."""
        return {
            "table_2": [
                {"image_type": kind, "image_quality": quality, **vars(counts)}
                for (kind, quality), counts in self.images.items()
            ]
            + [{"image_type": "overall", "image_quality": "", **vars(_add_images(self.images.values()))}],
            "table_3": [
                {"report_type": report, "context_type": kind, **vars(counts)}
                for (report, kind), counts in self.contexts.items()
            ]
            + [{"report_type": "overall", "context_type": "", **vars(_add_contexts(self.contexts.values()))}],
            "figure_2": self.report_types,
            "questions": [
                {"task": task, "answer_type": answer_type, "questions": count}
                for (task, answer_type), count in self.questions.items()
            ],
            "untitled_contexts": self.untitled_contexts,
        }


def summarise(
    annotations: Iterable[Annotation],
    contexts: Iterable[Mapping[str, str]] = (),
    questions: Iterable[tuple[str, str]] = (),
    used_in: Mapping[str, set[str]] | None = None,
) -> Statistics:
    """Count annotations, contexts and questions.

    Args:
        contexts: cells of the context file by column; `report_type` is read where it is there.
        questions: (task, answer type) of each question.
        used_in: Laboratory and Clinical by the idx of a context that questions about such reports come with.
    """
    images: dict[tuple[str, str], list[Annotation]] = {}
    for annotation in annotations:
        images.setdefault((annotation.image_type, annotation.image_quality), []).append(annotation)
    lengths: dict[tuple[str, str], list[int]] = {}
    untitled = 0
    for cells in contexts:
        if not cells["title"].strip():
            untitled += 1
            continue
        kind = cells["context_type"].strip() or UNNAMED
        report = cells.get("report_type", "").strip() or _report_type(kind, (used_in or {}).get(cells["idx"].strip()))
        lengths.setdefault((report, kind), []).append(len(cells["description"].strip()))
    reports = Counter(a.report_type.strip() or UNNAMED for members in images.values() for a in members)
    return Statistics(
        images={
            (kind, quality): _count_images(images[kind, quality])
            for kind in sorted(IMAGE_TYPES, key=list(IMAGE_TYPE_NAMES).index)
            for quality in IMAGE_QUALITIES
            if (kind, quality) in images
        },
        contexts={
            group: ContextCounts(len(found), sum(found) / len(found))
            for group, found in sorted(lengths.items(), key=lambda entry: _place(*entry[0]))
        },
        report_types=dict(sorted(reports.items(), key=lambda entry: (-entry[1], entry[0]))),
        questions=dict(Counter(questions)),
        untitled_contexts=untitled,
    )


def summarise_folder(folder: DataFolder, annotations: Iterable[Annotation] | None = None) -> Statistics:
    """The statistics of a folder; contexts and questions count where it has them.

    Args:
        annotations: of the images; default: those in the folder.

    Raises:
        InputError: there are no annotations, or a file cannot be read.
    """
    contexts, questions = [], []
    if CONTEXTS in folder.files:
        contexts = [cells for _, cells in read_cells(folder.file(CONTEXTS), CONTEXT_COLUMNS)]
    if QUESTIONS in folder.files:
        questions += [(row.task, row.answer_type) for row in read_questions(folder.file(QUESTIONS))]
    annotations = list(read_annotations(folder.file(ANNOTATIONS)) if annotations is None else annotations)
    used_in: dict[str, set[str]] = {}
    if REASONING in folder.files:
        asked = read_reasoning(folder.file(REASONING))
        questions += [(row.task, row.answer_type) for row in asked]
        types = {a.img_path: LABORATORY if a.report_type.strip() == LABORATORY else CLINICAL for a in annotations}
        for row in asked:
            for idx in filter(None, map(str.strip, row.context_id.split(ANSWER_SEPARATOR))):
                used_in.setdefault(idx, set()).update({types[row.img_path]} if row.img_path in types else ())
    return summarise(annotations, contexts, questions, used_in)


def format_tables(stats: Statistics) -> str:
    """Tables 2 and 3 and the questions as plain text; kinds of contexts in the paper's English."""
    table_2 = [["Image Type", "Quality", "# Images", "# Key-value pairs", "# Table rows"]]
    for (kind, quality), counts in stats.images.items():
        table_2.append([IMAGE_TYPE_NAMES[kind], quality.title(), *(f"{value:,}" for value in vars(counts).values())])
    table_2.append(["Overall", "", *(f"{value:,}" for value in vars(_add_images(stats.images.values())).values())])
    text = f"Table 2: images by type\n\n{_align(table_2, left=2)}\n"
    if stats.contexts:
        table_3 = [["Report Type", "Context Type", "# Contexts", "Average Context Length"]]
        for (report, kind), counts in stats.contexts.items():
            name = KINDS[kind][0] if kind in KINDS else _escape(kind)
            table_3.append([_escape(report) or "-", name, f"{counts.contexts:,}", f"{counts.average_length:.1f}"])
        total = _add_contexts(stats.contexts.values())
        table_3.append(["Overall", "", f"{total.contexts:,}", f"{total.average_length:.1f}"])
        text += f"\nTable 3: contexts\n\n{_align(table_3, left=2)}\n"
    if stats.untitled_contexts:
        text += f"\ncontexts without a title, left out: {stats.untitled_contexts:,}\n"
    if stats.questions:
        rows = [[task, kind, f"{count:,}"] for (task, kind), count in stats.questions.items()]
        rows.append(["Overall", "", f"{sum(stats.questions.values()):,}"])
        text += f"\nQuestions\n\n{_align([['Task', 'Answer Type', '# Questions'], *rows], left=2)}\n"
    return text


def find_font(text: str) -> str | None:
    """An installed font that has every character of `text`: matplotlib's own, or a Chinese one; None without any."""
    from matplotlib import font_manager

    by_name = {entry.name: entry.fname for entry in font_manager.fontManager.ttflist}
    for name in ("DejaVu Sans", *CJK_FONTS):
        if name in by_name:
            font = font_manager.get_font(by_name[name])
            if all(font.get_char_index(ord(character)) for character in text):
                return name
    return None


def plot_report_types(stats: Statistics, path: Path) -> None:
    """Draw Figure 2, images by report type, as a PNG at `path`.

    Report types in Chinese need a font with their characters; without one they are written as code points.

    Raises:
        OutputError: `path` cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names, counts = list(stats.report_types), list(stats.report_types.values())
    font = find_font("".join(names))
    labels = names if font else [_escape(name) for name in names]
    figure = Figure(figsize=(8, max(2.0, 0.9 + 0.32 * len(names))), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    bars = axes.barh(range(len(names)), counts, 0.7, color=BAR_COLOUR)
    total = max(sum(counts), 1)
    axes.bar_label(bars, [f"{count:,} ({count / total:.1%})" for count in counts], padding=3)
    axes.set_yticks(
        range(len(names)), [label.replace("$", r"\$") for label in labels], fontfamily=font or "DejaVu Sans"
    )
    axes.invert_yaxis()
    axes.set_xlim(0, max(*counts, 1) * 1.2 if counts else 1)
    axes.set_xlabel("Images")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    with atomic_file(path) as file:
        figure.savefig(file, format="png")


def write_statistics(stats: Statistics, folder: Path) -> None:
    """Write `statistics.json` and `figure2.png` to `folder`. Raises OutputError where that is not possible."""
    write_json(folder / "statistics.json", stats.to_json(), end="")
    plot_report_types(stats, folder / "figure2.png")


def _count_images(annotations: list[Annotation]) -> ImageCounts:
    pairs = sum(len(annotation.key_values) for annotation in annotations)
    return ImageCounts(len(annotations), pairs, sum(len(annotation.table) for annotation in annotations))


def _report_type(kind: str, used_in: set[str] | None) -> str:
    """The one report type that a context belongs to; "" where it serves both, or nothing says."""
    if used_in:
        return " and ".join(sorted(used_in, reverse=True))
    return ONLY_IN.get(kind, "")


def _add_images(rows: Iterable[ImageCounts]) -> ImageCounts:
    rows = list(rows)
    return ImageCounts(
        sum(row.images for row in rows),
        sum(row.key_value_pairs for row in rows),
        sum(row.table_rows for row in rows),
    )


def _add_contexts(rows: Iterable[ContextCounts]) -> ContextCounts:
    rows = list(rows)
    count = sum(row.contexts for row in rows)
    length = sum(row.average_length * row.contexts for row in rows)
    return ContextCounts(count, length / count if count else 0.0)


def _place(report: str, kind: str) -> tuple[int, str, int, str]:
    """Sort key of a row of Table 3: laboratory before others, kinds in the paper's order."""
    kinds = list(KINDS)
    return (report != "Laboratory", report, kinds.index(kind) if kind in kinds else len(kinds), kind)


def _escape(text: str) -> str:
    """`text` in ASCII: what has no glyph or no width in a terminal as code points."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _align(rows: list[list[str]], left: int) -> str:
    """Columns under each other, the first `left` of them to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)
