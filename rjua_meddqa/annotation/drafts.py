"""Pre-annotation: drafts of key-values and table rows of a restored page, for people to correct.

The input is ESRA's lines of text with their boxes. Tables are read first (`draft_tables.py`), fields from the remaining
text (`draft_fields.py`). A draft contains printed text only.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rjua_meddqa.annotation.cells import make_cells
from rjua_meddqa.annotation.draft_fields import find_titles, read_fields
from rjua_meddqa.annotation.draft_rows import judge_row, quadruplet
from rjua_meddqa.annotation.draft_tables import read_tables
from rjua_meddqa.annotation.groups import read_patient
from rjua_meddqa.schema import LABORATORY, Annotation, DraftRow, Page, RestoredText, TableRow
from rjua_meddqa.vocabulary import VOCABULARY

OTHER_REPORT = "Clinical"
REASONS = "is_normal_reason"  # column of a drafted file: the reasons of the verdicts of its table, a JSON list


@dataclass(frozen=True, slots=True)
class Draft:
    """The draft of a page, in reading order.

    Attributes:
        table: rows as annotators write them.
        rows: the same rows with separate cells and the reason of each verdict. Empty for drafts without a page.
    """

    key_values: tuple[tuple[str, str], ...]
    table: tuple[TableRow, ...]
    rows: tuple[DraftRow, ...] = ()


def draft(restored: RestoredText) -> Draft:
    """Draft key-values and table rows of a restored page."""
    cells = make_cells([box for line in restored.body for box in line])
    tables = read_tables(cells)
    taken = tables.used | find_titles(cells)
    key_values = tuple(read_fields([cell for cell in cells if cell not in taken]))
    patient = read_patient(key_values)
    rows = tuple(judge_row(row, patient) for row in tables.rows)
    return Draft(key_values, tuple(map(quadruplet, rows)), rows)


def draft_annotation(
    page: Page, idx: str, img_path: str, image_type: str | None = None, drafted: Draft | None = None
) -> Annotation:
    """Return a page's draft as a row of the annotation file.

    Args:
        image_type: pdf | photo | screenshot. None: estimated from the image.
        drafted: a draft made elsewhere. None: drafted by rules.
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
        "high" if page.quality == "high" else "low",  # annotations have no value for unreadable
        extra=reasons,
    )


def _report_type(texts: Sequence[str]) -> str:
    text = " ".join(texts)
    return next(
        (name for name, pattern in VOCABULARY["report_types"].items() if re.search(pattern, text)), OTHER_REPORT
    )
