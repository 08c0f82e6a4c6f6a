"""Counts of a data folder: Tables 2 and 3 of the paper, and the numbers of its Figure 2.

Table 2: images, key-value pairs and table rows by image type and quality. Table 3: contexts and their mean length in
characters by report type and kind. Figure 2: images by report type.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.json_files import write_json
from medvqa_core.text_tables import align
from rjua_meddqa.data_folder import ANNOTATIONS, CONTEXTS, QUESTIONS, REASONING, DataFolder
from rjua_meddqa.generation.contexts import KINDS
from rjua_meddqa.released import read_annotations, read_cells, read_questions, read_reasoning
from rjua_meddqa.schema import ANSWER_SEPARATOR, CONTEXT_COLUMNS, IMAGE_QUALITIES, LABORATORY, Annotation

IMAGE_TYPE_NAMES = {"photo": "Photo", "pdf": "PDF", "screenshot": "Screenshot"}  # in the order of Table 2
UNNAMED = "(none)"  # an empty report type or context kind
CLINICAL = "Clinical"
# Kinds that the paper's Table 3 lists for one report type only.
ONLY_IN = {"检查-状态": LABORATORY, "疾病-建议": LABORATORY, "疾病-检查": CLINICAL, "疾病-治疗": CLINICAL}


@dataclass(frozen=True)
class ImageCounts:
    """One row of Table 2."""

    images: int
    key_value_pairs: int
    table_rows: int


@dataclass(frozen=True)
class ContextCounts:
    """One row of Table 3, with the mean number of characters of a description."""

    contexts: int
    average_length: float


@dataclass(frozen=True)
class Statistics:
    """Counts of a data folder.

    Attributes:
        images: by (image type, quality), in the order of Table 2.
        contexts: by (report type or "", kind), in the order of Table 3.
        report_types: images by report type, most frequent first.
        questions: by (task, answer type).
        untitled_contexts: contexts without a title, which the other counts leave out.
    """

    images: dict[tuple[str, str], ImageCounts]
    contexts: dict[tuple[str, str], ContextCounts]
    report_types: dict[str, int]
    questions: dict[tuple[str, str], int]
    untitled_contexts: int = 0

    def to_json(self) -> dict[str, Any]:
        """The tables as lists of rows, totals included."""
        images, contexts = self._with_totals()
        return {
            "table_2": [{"image_type": kind, "image_quality": quality, **vars(c)} for (kind, quality), c in images],
            "table_3": [{"report_type": report, "context_type": kind, **vars(c)} for (report, kind), c in contexts],
            "figure_2": self.report_types,
            "questions": [
                {"task": task, "answer_type": answer_type, "questions": count}
                for (task, answer_type), count in self.questions.items()
            ],
            "untitled_contexts": self.untitled_contexts,
        }

    def format(self) -> str:
        """Tables 2 and 3 and the questions as plain text."""
        images, contexts = self._with_totals()
        rows: list[list[str]] = [
            [IMAGE_TYPE_NAMES.get(kind, kind.title()), quality.title(), *(f"{value:,}" for value in vars(c).values())]
            for (kind, quality), c in images
        ]
        names = ["Image Type", "Quality", "# Images", "# Key-value pairs", "# Table rows"]
        text = f"Table 2: images by type\n\n{align([names, *rows], (0, 1), line=True)}\n"
        if self.contexts:
            rows = [
                [
                    "Overall" if report == "overall" else _escape(report) or "-",
                    KINDS[kind][0] if kind in KINDS else _escape(kind),
                    f"{c.contexts:,}",
                    f"{c.average_length:.1f}",
                ]
                for (report, kind), c in contexts
            ]
            names = ["Report Type", "Context Type", "# Contexts", "Average Context Length"]
            text += f"\nTable 3: contexts\n\n{align([names, *rows], (0, 1), line=True)}\n"
        if self.untitled_contexts:
            text += f"\ncontexts without a title, left out: {self.untitled_contexts:,}\n"
        if self.questions:
            rows = [[task, kind, f"{count:,}"] for (task, kind), count in self.questions.items()]
            rows.append(["Overall", "", f"{sum(self.questions.values()):,}"])
            text += f"\nQuestions\n\n{align([['Task', 'Answer Type', '# Questions'], *rows], (0, 1), line=True)}\n"
        return text

    def _with_totals(self) -> tuple[list, list]:
        sums = (sum(vars(c)[name] for c in self.images.values()) for name in ImageCounts.__annotations__)
        count = sum(c.contexts for c in self.contexts.values())
        length = sum(c.average_length * c.contexts for c in self.contexts.values())
        total = ContextCounts(count, length / count if count else 0.0)
        return (
            [*self.images.items(), (("overall", ""), ImageCounts(*sums))],
            [*self.contexts.items(), (("overall", ""), total)],
        )


def summarise(
    annotations: Iterable[Annotation],
    contexts: Iterable[Mapping[str, str]] = (),
    questions: Iterable[tuple[str, str]] = (),
    used_in: Mapping[str, set[str]] | None = None,
) -> Statistics:
    """Count annotations, contexts and questions.

    The report type of a context is its column `report_type`, else `used_in`, else ONLY_IN.

    Args:
        contexts: rows of the context file.
        questions: (task, answer type) of each question.
        used_in: idx of a context -> report types (Laboratory, Clinical) of the questions that use it.
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
        report = cells.get("report_type", "").strip()
        if not report:
            used = sorted((used_in or {}).get(cells["idx"].strip(), ()), reverse=True)
            report = " and ".join(used) or ONLY_IN.get(kind, "")
        lengths.setdefault((report, kind), []).append(len(cells["description"].strip()))
    reports = Counter(a.report_type.strip() or UNNAMED for members in images.values() for a in members)
    groups = [(kind, quality) for kind in IMAGE_TYPE_NAMES for quality in IMAGE_QUALITIES]
    return Statistics(
        images={group: _count_images(images[group]) for group in groups if group in images},
        contexts={group: ContextCounts(len(n), sum(n) / len(n)) for group, n in sorted(lengths.items(), key=_place)},
        report_types=dict(sorted(reports.items(), key=lambda entry: (-entry[1], entry[0]))),
        questions=dict(Counter(questions)),
        untitled_contexts=untitled,
    )


def summarise_folder(folder: DataFolder, annotations: Iterable[Annotation] | None = None) -> Statistics:
    """The statistics of a folder, with contexts and questions if there are any.

    Args:
        annotations: by default, those in the folder.

    Raises:
        InputError: annotations are missing, or a file cannot be read.
    """
    contexts, questions = [], []
    if CONTEXTS in folder.files:
        contexts = [cells for _, cells in read_cells(folder.file(CONTEXTS), CONTEXT_COLUMNS)]
    if QUESTIONS in folder.files:
        questions += [(row.task, row.answer_type) for row in read_questions(folder.file(QUESTIONS))]
    annotations = list(read_annotations(folder.file(ANNOTATIONS)) if annotations is None else annotations)
    used_in: dict[str, set[str]] = {}
    if REASONING in folder.files:
        types = {a.img_path: LABORATORY if a.report_type.strip() == LABORATORY else CLINICAL for a in annotations}
        for row in read_reasoning(folder.file(REASONING)):
            questions.append((row.task, row.answer_type))
            for idx in filter(None, map(str.strip, row.context_id.split(ANSWER_SEPARATOR))):
                used_in.setdefault(idx, set()).update({types[row.img_path]} if row.img_path in types else ())
    return summarise(annotations, contexts, questions, used_in)


def write_statistics(stats: Statistics, folder: Path) -> None:
    """Write `statistics.json` to `folder`. Raises OutputError."""
    write_json(folder / "statistics.json", stats.to_json(), end="")


def _count_images(annotations: list[Annotation]) -> ImageCounts:
    pairs = sum(len(annotation.key_values) for annotation in annotations)
    return ImageCounts(len(annotations), pairs, sum(len(annotation.table) for annotation in annotations))


def _place(entry: tuple[tuple[str, str], Any]) -> tuple:
    """Sort key of a row of Table 3: laboratory reports first, kinds in the paper's order."""
    (report, kind), _ = entry
    kinds = list(KINDS)
    return report != LABORATORY, report, kinds.index(kind) if kind in kinds else len(kinds), kind


def _escape(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode("ascii")
