"""Arranges boxes into the lines of a page, for its text and its draft.

ESRA splits a page into printed lines. Two kinds of lines are corrected here: the lines of a wrapped table cell return
to their row, as found by `annotation/draft_tables.py`, and text beside the page (in the margin, on a picture) moves to
the end.
"""

from collections.abc import Collection, Iterable, Sequence

from rjua_meddqa.annotation import report_words as words
from rjua_meddqa.annotation.cells import Cell, make_cells
from rjua_meddqa.annotation.cells import rows as cell_rows
from rjua_meddqa.annotation.draft_tables import read_tables
from rjua_meddqa.restoration.esra import (
    LINE_DISCOUNT,
    SPACE_FACTOR,
    Layout,
    RestoredText,
    check_parameters,
    split_lines,
    write_text,
)
from rjua_meddqa.schema import Box

UPRIGHT = 1.5  # times its width: the height of a box from which its text is vertical


def lay_out(
    boxes: Sequence[Box],
    on_picture: Collection[int] = (),
    *,
    r: float = LINE_DISCOUNT,
    l: float = SPACE_FACTOR,  # noqa: E741 - the paper's name
    layout: Layout = "paper",
    join_wraps: bool | None = None,
) -> RestoredText:
    """Return the lines and the text of a page.

    Args:
        boxes: in pixels of an upright page, in any order.
        on_picture: indices of the boxes on a picture.
        r, l, layout: as in `esra.restore`.
        join_wraps: whether wrapped cells return to their row and text beside the page moves to the end. None: if
            `layout` is "paper". Without it, the result is that of `esra.restore`.

    Raises: like `esra.restore`.
    """
    check_parameters(boxes, r, l, layout)
    if not (layout == "paper" if join_wraps is None else join_wraps):
        lines = split_lines(boxes, r)
        return RestoredText(lines, write_text(lines, l, layout))
    aside = [number for number, box in enumerate(boxes) if number in on_picture or runs_up(box)]
    body = [box for number, box in enumerate(boxes) if number not in aside]
    lines = (*join_rows(split_lines(body, r)), *((boxes[number],) for number in aside))
    return RestoredText(lines, write_text(lines, l, layout, join_wraps=True), beside=len(aside))


def runs_up(box: Box) -> bool:
    """Whether the text of `box` is vertical: several characters in a box that is higher than wide."""
    return len(box.text) > 1 and box.height > UPRIGHT * box.width


def join_rows(lines: Sequence[Sequence[Box]]) -> tuple[tuple[Box, ...], ...]:
    """Return `lines` with each table row on the line of its result, cell by cell. Other lines are unchanged.

    Rows that ESRA joined into one line are separated, unless their tables are side by side.
    """
    boxes = [box for line in lines for box in line]
    line_of = [number for number, line in enumerate(lines) for _ in line]
    rows: dict[int, dict[int, list[list[list[int]]]]] = {}  # line: table: its rows, each a list of boxes per cell
    taken: set[int] = set()
    for table, columns in read_tables(make_cells(boxes), without_header=False).places:
        if words.RESULT in columns:
            own = line_of[columns[words.RESULT][0].box]
            cells = [_unique((cell.box for cell in _in_order(column)), taken) for column in columns.values()]
            rows.setdefault(own, {}).setdefault(table, []).append([cell for cell in cells if cell])
    made: list[tuple[Box, ...]] = []
    for number in range(len(lines)):
        rest = [[n] for n, line in enumerate(line_of) if line == number and n not in taken]
        for cells in _parted(rows.get(number, {}), rest, boxes):
            ordered = sorted(cells, key=lambda cell: min(boxes[n].left for n in cell))
            made.append(tuple(boxes[n] for cell in ordered for n in cell))
    return tuple(made)


def _in_order(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for row in cell_rows(cells) for cell in row]


def _unique(numbers: Iterable[int], taken: set[int]) -> list[int]:
    """Return the `numbers` that are not yet in `taken`, and add them to it."""
    found = [number for number in dict.fromkeys(numbers) if number not in taken]
    taken.update(found)
    return found


def _parted(
    tables: dict[int, list[list[list[int]]]], rest: list[list[int]], boxes: Sequence[Box]
) -> list[list[list[int]]]:
    """Split the cells of one ESRA line into printed lines: the first rows of all its tables, then the second ones."""
    if not tables:
        return [rest] if rest else []
    most = max(map(len, tables.values()))
    made = [[cell for rows in tables.values() if k < len(rows) for cell in rows[k]] for k in range(most)]
    middles = [_middle([number for cell in cells[:1] for number in cell[:1]], boxes) for cells in made]
    for cell in rest:
        nearest = min(range(most), key=lambda k: abs(middles[k] - _middle(cell, boxes)))
        made[nearest].append(cell)
    return made


def _middle(numbers: Sequence[int], boxes: Sequence[Box]) -> float:
    return sum(boxes[n].top + boxes[n].bottom for n in numbers) / (2 * max(len(numbers), 1))
