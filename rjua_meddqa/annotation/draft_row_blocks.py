"""Assigns the lines of a table's column to its rows, by the cheapest assignment over the whole column.

Every row has an anchor, its printed result. The lines of a column are divided in order into blocks, one for each row,
so that blocks are level with their anchors: all at their top, their middle or their bottom. Lines are left out if that
is cheaper, such as titles of panels.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

from rjua_meddqa.annotation import report_words as words
from rjua_meddqa.annotation.cells import Cell, letter_width

LEFT_OUT = 0.6  # of the usual distance of rows: cost of a line without a row
EMPTY = 0.5  # of the same: cost of a row without a line
FREE_GAP = 2.0  # heights between the middles of two lines of one block, without cost
NEAR = 0.1  # of their distance: cost of two lines of one block, so that near lines are preferred
FULL = 1.2  # characters that a full line may lack
MOST_LINES = 10  # of one block
_CONTINUATION = re.compile(r"[\d.,)）]+[^\d~～至到—–－-]{0,12}|[A-Za-zμ%/]{1,8}")  # what cannot begin a range
Line = list[Cell]
References = tuple[Callable[[float, float], float], ...]
_REFERENCES: References = (lambda top, bottom: top, lambda top, bottom: (top + bottom) / 2, lambda top, bottom: bottom)


def usual_pitch(anchors: Sequence[Cell]) -> float:
    """Return the median distance of neighbouring rows."""
    steps = [below.y - above.y for above, below in pairwise(anchors)]
    return median(steps) if steps else 2 * max(cell.height for cell in anchors)


def assign_lines(lines: Sequence[Line], anchors: Sequence[Cell], role: str) -> list[int]:
    """Return the number of the row of each line of a column, -1 for lines that are left out.

    Lines and anchors are sorted from top to bottom. Rows without an item are unusual.
    """
    pitch = usual_pitch(anchors)
    joints = [_joint_cost(one, other, lines, role) for one, other in pairwise(lines)]
    tops = [min(cell.y for cell in line) for line in lines]
    empty = EMPTY * pitch * (2 if role == words.ITEM else 1)
    is_range = role == words.RANGE
    starts = [pitch if is_range and _CONTINUATION.fullmatch(_text(line)) else 0.0 for line in lines]
    found = [_cheapest(tops, starts, joints, anchors, ref, LEFT_OUT * pitch, empty) for ref in _REFERENCES]
    return min(found, key=lambda entry: entry[0])[1]


def _text(line: Line) -> str:
    return "".join(cell.text for cell in line)


def _joint_cost(above: Line, below: Line, lines: Sequence[Line], role: str) -> float:
    """The cost of two consecutive lines in one block: their distance, unless the upper one fills its column."""
    gap = below[0].y - above[0].y
    if role != words.ITEM:
        return NEAR * gap + max(0.0, gap - FREE_GAP * max(above[0].height, below[0].height))
    return NEAR * gap if is_wrapped(above, below, lines) else gap


def is_wrapped(above: Line, below: Line, lines: Sequence[Line]) -> bool:
    """Whether a name continues in the next line: within brackets, or behind a full line without a closing bracket."""
    upper = _text(above).replace("（", "(").replace("）", ")")
    if upper.count("(") > upper.count(")"):
        return True
    if upper.endswith(")") and not _text(below).startswith(("(", "（")):
        return False
    column = max(line[-1].right for line in lines)
    character = 2 * max(letter_width(above[-1]), letter_width(below[0]))
    return above[-1].right + FULL * character > column


def _cheapest(
    ys: Sequence[float],
    starts: Sequence[float],
    joints: Sequence[float],
    anchors: Sequence[Cell],
    reference: Callable[[float, float], float],
    left_out: float,
    empty: float,
) -> tuple[float, list[int]]:
    """Return the smallest cost and the row of each line, by dynamic programming over rows and lines."""
    count = len(ys)
    costs = [[left_out * line for line in range(count + 1)]]  # of the first lines, before any row
    choices: list[
        list[tuple[int, int]]
    ] = []  # first and last (exclusive) line of each row, by its number of lines so far
    for anchor in anchors:
        before, chosen = costs[-1], []
        now: list[float] = []
        for end in range(count + 1):
            best, block = before[end] + empty, (end, end)
            cost = 0.0
            for start in range(end - 1, max(-1, end - 1 - MOST_LINES), -1):
                cost += joints[start] if start < end - 1 else 0.0
                total = before[start] + starts[start] + cost + abs(reference(ys[start], ys[end - 1]) - anchor.y)
                if total < best:
                    best, block = total, (start, end)
            if end and now[end - 1] + left_out < best:
                best, block = now[end - 1] + left_out, (-1, end)
            now.append(best)
            chosen.append(block)
        costs.append(now)
        choices.append(chosen)
    owners, end = [-1] * count, count
    for row in range(len(anchors) - 1, -1, -1):
        while choices[row][end][0] < 0:
            end -= 1
        start, stop = choices[row][end]
        owners[start:stop] = [row] * (stop - start)
        end = start
    return costs[-1][count], owners
