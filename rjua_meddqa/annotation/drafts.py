"""Pre-annotation: key-values and quadruplets that a restored page seems to hold, for people to correct.

Input is ESRA's output: lines of text with their boxes. Tables go first (`draft_tables.py`), fields get what is left
(`draft_fields.py`). A draft says what is printed; what is not found is not invented.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rjua_meddqa.annotation.cells import make_cells
from rjua_meddqa.annotation.draft_fields import find_titles, read_fields
from rjua_meddqa.annotation.draft_rows import judge_row, quadruplet
from rjua_meddqa.annotation.draft_spacing import merge_spaced_words
from rjua_meddqa.annotation.draft_tables import read_tables
from rjua_meddqa.annotation.groups import read_patient
from rjua_meddqa.schema import LABORATORY, Annotation, DraftRow, RestoredText, TableRow

if TYPE_CHECKING:
    from rjua_meddqa.restoration.pages import Page

# What a clinical report is called, by words on its page; the first that occurs wins.
_REPORT_TYPES = (
    ("Pathology", r"病理|免疫组化|肉眼所见|镜下"),
    ("MRI", r"磁共振|核磁|\bMRI?\b|T[12]WI"),
    ("CT", r"CT"),
    ("Ultrasound", r"超声|彩超|B超|回声"),
    ("Endoscopy", r"内镜|膀胱镜|胃镜|肠镜"),
    ("X-ray", r"X线|DR|平片|造影"),
)
OTHER_REPORT = "Clinical"
REASONS = "is_normal_reason"  # column of a drafted file: why each row of its table has its verdict, a JSON list


@dataclass(frozen=True, slots=True)
class Draft:
    """What a page seems to hold, each in reading order.

    Attributes:
        table: rows as the annotators write them.
        rows: the same rows, each cell apart, with the reason of its verdict; empty for what was no page.
    """

    key_values: tuple[tuple[str, str], ...]
    table: tuple[TableRow, ...]
    rows: tuple[DraftRow, ...] = ()


def draft(restored: "RestoredText") -> Draft:
    """Key-values and quadruplets of a restored page."""
    cells = merge_spaced_words(make_cells([box for line in restored.body for box in line]))
    tables = read_tables(cells)
    taken = tables.used | find_titles(cells)
    key_values = tuple(read_fields([cell for cell in cells if cell not in taken]))
    patient = read_patient(key_values)
    rows = tuple(judge_row(row, patient) for row in tables.rows)
    return Draft(key_values, tuple(map(quadruplet, rows)), rows)


def draft_annotation(
    page: "Page", idx: str, img_path: str, image_type: str | None = None, drafted: Draft | None = None
) -> Annotation:
    """A page's draft as a row of the annotation file.

    Args:
        image_type: pdf | photo | screenshot; None: what the image looks like.
        drafted: made by whatever else drafts; None: by rule.
    """
    drafted = drafted or draft(page.restored)
    report_type = LABORATORY if drafted.table else _report_type([box.text for box in page.boxes])
    reasons = {REASONS: json.dumps([row.is_normal_reason for row in drafted.rows], ensure_ascii=False)}
    return Annotation(
        idx,
        img_path,
        drafted.key_values,
        drafted.table,
        report_type,
        image_type or page.image_type,
        "high" if page.quality == "high" else "low",  # annotators know no unreadable
        extra=reasons,
    )


def _report_type(texts: Sequence[str]) -> str:
    text = " ".join(texts)
    return next((name for name, pattern in _REPORT_TYPES if re.search(pattern, text)), OTHER_REPORT)
