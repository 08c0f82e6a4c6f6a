"""Checks a table of any document parser against the boxes of its page.

Every cell is placed on the boxes that hold its text. A cell without a place is invented, or doubled if its text is
printed less often than the table has it. A placed cell is shifted if it is not in the row or the column of its
neighbours. Printed text between the placed cells that no cell holds is missing.
"""

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median

import numpy as np
from scipy.optimize import linear_sum_assignment

from rjua_meddqa.annotation.table_files import Grid
from rjua_meddqa.schema import Box

INVENTED, SHIFTED, DOUBLED, MISSING_TEXT = KINDS = ("invented", "shifted", "doubled", "missing")
LINES = 6  # of a cell at most
FAR = 1e6
Key = tuple[int, int, int]  # table, row, column
ALIGNED = 0.6  # largest distance from the row, in heights of its boxes


@dataclass(frozen=True, slots=True)
class TableFinding:
    """A deviation of a table from its page. `row` and `column` count from 1, and are 0 for missing text."""

    kind: str
    text: str
    table: int = 1
    row: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = f"table {self.table}, row {self.row}, column {self.column}: " if self.row else ""
        return f"{place}{self.text!r} [{self.kind}]"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a text is printed. `parts` are (box, start, end) in characters of normalised box texts."""

    left: float
    right: float
    y: float
    height: float
    parts: tuple[tuple[int, int, int], ...]

    misread: bool = False

    @property
    def x(self) -> float:
        return (self.left + self.right) / 2


def check_tables(grids: Sequence[Grid], boxes: Sequence[Box]) -> list[TableFinding]:
    """Return invented, shifted, doubled and missing cells, in reading order of the tables."""
    page = _Printed(boxes)
    cells: dict[Key, str] = {
        (number, *place): normal
        for number, grid in enumerate(grids)
        for place, text in grid.items()
        if (normal := normalise(text))
    }
    candidates = {text: page.find(text) for text in set(cells.values())}
    placed = _assign(cells, candidates)
    for _ in range(2):  # places of repeated texts follow the rows and columns of the others
        placed = _assign(cells, candidates, placed)
    shifted = _find_shifted(placed)
    findings = []
    for key in sorted(cells):
        table, row, column = key
        text = grids[table][row, column]
        kind = SHIFTED if key in shifted else None
        if key not in placed:
            kind = DOUBLED if candidates[cells[key]] else INVENTED
        if kind:
            findings.append(TableFinding(kind, text, table + 1, row + 1, column + 1))
    missing = page.unused(placed)
    return findings + [TableFinding(MISSING_TEXT, text) for text in missing]


def normalise(text: str) -> str:
    """NFKC without white space, in lower case, with one form of dashes and multiplication signs."""
    folded = "".join(unicodedata.normalize("NFKC", text).split()).casefold()
    return folded.translate(str.maketrans("—–−~～×*", "-----xx"))


class _Printed:
    """The boxes of a page, turned upright, and their normalised texts.

    `breaks` are the places of white space in the texts.
    """

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.boxes = _turn_upright([box for box in boxes if normalise(box.text)])
        self.texts = [normalise(box.text) for box in self.boxes]
        words = [[len(normalise(word)) for word in box.text.split()] for box in self.boxes]
        self.breaks = [set(accumulate(lengths)) for lengths in words]

    def find(self, text: str) -> list[_Place]:
        """All places of a text: a box, a part of a box, or several boxes below or beside each other."""
        places = [self._place(((n, at, at + len(text)),)) for n, at in self._inside(text)]
        for n, printed in enumerate(self.texts):
            if len(printed) <= len(text) and text != printed and _is_alike(text[: len(printed)], printed):
                chains = self._continue(text, len(printed), ((n, 0, len(printed)),))
                places += [self._place(chain, text) for chain in chains]
        return places

    def _inside(self, text: str) -> Iterator[tuple[int, int]]:
        for n, printed in enumerate(self.texts):
            start = printed.find(text)
            while start >= 0:
                before, after = printed[:start][-1:], printed[start + len(text) :][:1]
                end = start + len(text)
                cut_before = start not in self.breaks[n] and _joins(before, text[:1])
                cut_after = end not in self.breaks[n] and _joins(text[-1:], after)
                if not cut_before and not cut_after:
                    yield n, start
                start = printed.find(text, start + 1)

    def _continue(self, text: str, done: int, parts: tuple) -> Iterator[tuple]:
        """Chains of boxes that spell `text` after its first `done` characters."""
        if done == len(text):
            yield parts
            return
        if len(parts) == LINES:
            return
        last, first = self.boxes[parts[-1][0]], self.boxes[parts[0][0]]
        used = {n for n, _, _ in parts}
        for n, printed in enumerate(self.texts):
            if n in used or not _is_alike(text[done : done + len(printed)], printed):
                continue
            box = self.boxes[n]
            height = max(last.height, box.height)
            below = 0.3 * height < box.top - last.top < 2.6 * height and (
                box.left < first.right and first.left < box.right
            )
            beside = abs(box.top - last.top) < 0.6 * height and -0.5 * height < box.left - last.right < 2 * height
            if below or beside:
                yield from self._continue(text, done + len(printed), (*parts, (n, 0, len(printed))))

    def _place(self, parts: tuple, text: str | None = None) -> _Place:
        lefts, rights = [], []
        for n, start, end in parts:
            box, length = self.boxes[n], len(self.texts[n])
            lefts.append(box.left + box.width * start / length)
            rights.append(box.left + box.width * end / length)
        boxes = [self.boxes[n] for n, _, _ in parts]
        misread = text is not None and "".join(self.texts[n][a:b] for n, a, b in parts) != text
        top, bottom = min(box.top for box in boxes), max(box.bottom for box in boxes)
        height = max(box.height for box in boxes)
        return _Place(min(lefts), max(rights), (top + bottom) / 2, max(height, bottom - top), parts, misread)

    def unused(self, placed: dict[Key, _Place]) -> list[str]:
        """Texts between the placed cells of a table that no cell holds."""
        covered: dict[int, set[int]] = defaultdict(set)
        tables: dict[int, list[_Place]] = defaultdict(list)
        for key, place in placed.items():
            tables[key[0]].append(place)
            for n, start, end in place.parts:
                covered[n] |= set(range(start, end))
        regions = [self._region(places) for places in tables.values()]
        texts = []
        for n, (box, printed) in enumerate(zip(self.boxes, self.texts, strict=True)):
            x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
            inside = n in covered or any(a <= x <= b and c <= y <= d for a, b, c, d in regions)
            rest = "".join(c for place, c in enumerate(printed) if place not in covered[n])
            if inside and any(c.isalnum() or c in "↑↓" for c in rest):
                texts.append(rest)
        return texts

    def _region(self, placed: Sequence[_Place]) -> tuple[float, float, float, float]:
        """The region of the table, with further lines that are aligned with at least two of its columns."""
        left, right = min(place.left for place in placed), max(place.right for place in placed)
        tops, bottoms = [p.y - p.height / 2 for p in placed], [p.y + p.height / 2 for p in placed]
        top, bottom = min(tops), max(bottoms)
        height = median(place.height for place in placed)
        reach = 1.4 * _row_distance(placed, height)
        starts = Counter(round(place.left / height) for place in placed)
        columns = {start for start, count in starts.items() if count >= 2}
        grown = True
        while grown:
            grown = False
            for low, high in ((top - reach, top), (bottom, bottom + reach)):
                line = self._find_line(low, high)
                aligned = {round(box.left / height) for box in line}
                if len({c for c in columns if aligned & {c - 1, c, c + 1}}) >= 2:
                    top, bottom = min(top, *(b.top for b in line)), max(bottom, *(b.bottom for b in line))
                    grown = True
        return left, right, top, bottom

    def _find_line(self, low: float, high: float) -> list[Box]:
        """Boxes without a colon whose centre is between two heights of the page."""
        return [
            box
            for box, text in zip(self.boxes, self.texts, strict=True)
            if low < (box.top + box.bottom) / 2 < high and ":" not in text
        ]


def _row_distance(placed: Sequence[_Place], height: float) -> float:
    """The median distance between rows, and at least `height`."""
    ys = sorted(place.y for place in placed)
    steps = [b - a for a, b in zip(ys, ys[1:], strict=False) if b - a > 0.6 * height]
    return max(median(steps) if steps else 0, height)


def _is_alike(text: str, printed: str) -> bool:
    """Whether `printed` is `text`, or a word in which OCR misread one character. Numbers must be equal."""
    if text == printed:
        return True
    if len(text) != len(printed) or len(text) < 3 or any(c.isdigit() for c in text):
        return False
    return sum(one != other for one, other in zip(text, printed, strict=True)) == 1


def _turn_upright(boxes: list[Box]) -> list[Box]:
    """Turn the boxes of a tilted page by the median angle of their upper edges."""
    edges = [(box.points[0], box.points[1]) for box in boxes if box.width > 2 * box.height]
    if not edges:
        return boxes
    angle = median(math.atan2(y1 - y0, x1 - x0) for (x0, y0), (x1, y1) in edges)
    cosine, sine = math.cos(-angle), math.sin(-angle)
    return [
        replace(box, points=tuple((x * cosine - y * sine, x * sine + y * cosine) for x, y in box.points))
        for box in boxes
    ]


def _joins(one: str, other: str) -> bool:
    """Whether two characters belong to one number or Latin word."""
    if not one or not other:
        return False
    ascii_word = one.isascii() and one.isalnum() and other.isascii() and other.isalnum()
    return (
        (ascii_word and one.isdigit() == other.isdigit())
        or (one == "." and other.isdigit())
        or (one.isdigit() and other == ".")
    )


def _assign(
    cells: dict[Key, str], candidates: dict[str, list[_Place]], before: dict[Key, _Place] | None = None
) -> dict[Key, _Place]:
    """Assign each cell to one place, near its row and column, so that no printed character is used twice."""
    ys = _centres(before or {}, by_row=True)
    xs = _centres(before or {}, by_row=False)
    pieces = sorted({place.parts for text in cells.values() for place in candidates[text]})
    columns = {parts: number for number, parts in enumerate(pieces)}
    keys = list(cells)
    cost = np.full((len(keys), len(pieces)), FAR)
    choice: dict[tuple[int, int], _Place] = {}
    for row, key in enumerate(keys):
        for place in candidates[cells[key]]:
            y, x = ys.get((key[0], key[1])), xs.get((key[0], key[2]))
            value = min(_distance(place, y), 50) if y else 1.0
            value += min(_distance(place, x), 50) * 0.2 if x else 1.0
            value += 0.3 * len(place.parts) + 5.0 * place.misread
            cost[row, columns[place.parts]] = value
            choice[row, columns[place.parts]] = place
    found: dict[Key, _Place] = {}
    taken: set[tuple[int, int]] = set()
    pairs = [(row, column) for row, column in zip(*linear_sum_assignment(cost), strict=True) if cost[row, column] < FAR]
    for row, column in sorted(pairs, key=lambda pair: cost[pair]):
        place = choice[row, column]
        characters = {(n, at) for n, start, end in place.parts for at in range(start, end)}
        if not characters & taken:
            taken |= characters
            found[keys[row]] = place
    return found


def _centres(placed: dict[Key, _Place], by_row: bool) -> dict[tuple[int, int], tuple[float, ...]]:
    """The median y of each row, or the median left edge, centre and right edge of each column."""
    groups: dict[tuple[int, int], list[tuple[float, ...]]] = defaultdict(list)
    for (table, row, column), place in placed.items():
        values = (place.y,) if by_row else (place.left, place.x, place.right)
        groups[table, row if by_row else column].append(values)
    return {key: tuple(map(median, zip(*values, strict=True))) for key, values in groups.items()}


def _distance(place: _Place, centre: tuple[float, ...]) -> float:
    """The distance from a row, or from the nearest edge of a column, in heights of the place."""
    values = (place.y,) if len(centre) == 1 else (place.left, place.x, place.right)
    return min(abs(value - other) for value, other in zip(values, centre, strict=True)) / place.height


def _find_shifted(placed: dict[Key, _Place]) -> set[Key]:
    """Cells that are printed in another row or column than most cells of theirs."""
    shifted = set()
    rows, columns = _centres(placed, by_row=True), _centres(placed, by_row=False)
    for key, place in placed.items():
        table, row, column = key
        for centres, index in ((rows, row), (columns, column)):
            own = _distance(place, centres[table, index])
            others = [_distance(place, c) for (t, other), c in centres.items() if t == table and other != index]
            if others and min(others) < own and own > ALIGNED:
                shifted.add(key)
    return shifted
