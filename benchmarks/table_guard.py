"""Recall and precision of `meddqa check --table` on errors injected into tables, by kind.

    python benchmarks/table_guard.py

Tables are the printed cells of varied pages, as a good parser returns them. The boxes are the true ones, with one of 50
names misread by a character and one of 20 pairs of neighbours merged, as OCR does. Every page is checked without errors
and with one error of each kind. A finding is right if it names a changed cell, and false otherwise.
"""

import random
from collections import Counter
from dataclasses import replace

from rjua_meddqa.annotation.table_files import Grid
from rjua_meddqa.annotation.table_guard import DOUBLED, INVENTED, MISSING_TEXT, SHIFTED, check_tables, normalise
from rjua_meddqa.fonts import BUNDLED
from rjua_meddqa.phantom.varied import draw_varied_page
from rjua_meddqa.schema import Box

SEEDS = {"development": 11, "held_out": 12}
PAGES = 90
INVENTED_ITEM = "嗜碱性粒细胞绝对值"
DIGITS = str.maketrans("0123456789", "3456789012")


def read_like_ocr(boxes: list[Box], draw: random.Random) -> list[Box]:
    """Merge and misread some boxes."""
    read: list[Box] = []
    for box in boxes:
        text = box.text
        if len(text) > 4 and not any(c.isdigit() for c in text) and draw.random() < 0.02:
            text = text[:2] + "口" + text[3:]
        last = read[-1] if read else None
        height = box.height
        near = last and abs(last.top - box.top) < 0.3 * height and 0 < box.left - last.right < 2 * height
        if near and draw.random() < 0.05:
            points = (last.points[0], box.points[1], box.points[2], last.points[3])
            read[-1] = Box(points, f"{last.text} {text}")
        else:
            read.append(replace(box, text=text))
    return read


def inject(kind: str, grid: Grid, draw: random.Random) -> set[str]:
    """Change a grid. Returns the normalised texts that a right finding names, empty if the kind does not fit."""
    rows = max(row for row, _ in grid) + 1
    first, second = draw.sample(range(1, rows), 2) if rows > 2 else (0, 0)
    columns = sorted({column for _, column in grid})
    numbers = [column for column in columns if _has_digit(grid.get((first, column), ""))]
    if not second or not numbers:
        return set()
    column = draw.choice(numbers)
    if kind.endswith(" row"):
        return _inject_row(kind, grid, first, rows)
    if kind == "shifted column":
        return _shift_column(grid, column, rows)
    return _inject_cell(kind, grid, (first, column), second, [other for other in numbers if other != column])


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


def _inject_row(kind: str, grid: Grid, chosen: int, rows: int) -> set[str]:
    row = {column: text for (number, column), text in grid.items() if number == chosen}
    if kind == "missing row":
        for column in row:
            del grid[chosen, column]
        return set(row.values())
    if kind == "invented row":
        row = {c: text.translate(DIGITS) + "7" if _has_digit(text) else INVENTED_ITEM for c, text in row.items()}
    grid |= {(rows, column): text for column, text in row.items()}
    return set(row.values())


def _shift_column(grid: Grid, column: int, rows: int) -> set[str]:
    texts = [grid.get((row, column), "") for row in range(1, rows)]
    if len(set(texts)) < len(texts) or "" in texts or rows < 5:
        return set()
    for row, text in enumerate(texts[-1:] + texts[:-1], start=1):
        grid[row, column] = text
    return set(texts)


def _inject_cell(kind: str, grid: Grid, place: tuple[int, int], second: int, others: list[int]) -> set[str]:
    """`place` is the row and column of a number, `second` another row, `others` other columns of numbers."""
    row, column = place
    old, below = grid[place], grid.get((second, column), "")
    if kind == "missing cell":
        del grid[place]
        return {old}
    if kind == "changed digit":
        grid[place] = old.translate(DIGITS)
        return {grid[place], old}
    if kind == "moved to another column":
        if not others:
            return set()
        grid[place], grid[row, others[0]] = grid[row, others[0]], old
        return {old, grid[place]}
    is_missing = (second, column) not in grid if kind == "doubled cell" else not below
    if is_missing or normalise(below) == normalise(old):
        return set()
    grid[second, column] = old
    if kind == "swapped results":
        grid[place] = below
    return {old, below}


KINDS = {
    "none": None,
    "changed digit": INVENTED,
    "invented row": INVENTED,
    "swapped results": SHIFTED,
    "shifted column": SHIFTED,
    "moved to another column": SHIFTED,
    "doubled row": DOUBLED,
    "doubled cell": DOUBLED,
    "missing row": MISSING_TEXT,
    "missing cell": MISSING_TEXT,
}


def measure(seed: int) -> dict[str, Counter]:
    """Counts of errors, errors found, and right and false findings, by kind."""
    found: dict[str, Counter] = {kind: Counter() for kind in KINDS}
    for number in range(1, PAGES + 1):
        page, _ = draw_varied_page(seed, number, [BUNDLED])
        draw = random.Random(f"{seed} {number}")
        boxes = read_like_ocr(page.boxes, draw)
        for kind, expected in KINDS.items():
            grids = [
                {(r, c): text for r, row in enumerate(rows) for c, text in enumerate(row) if text}
                for rows in page.tables
            ]
            changed = inject(kind, draw.choice(grids), draw) if expected else set()
            if expected and not changed:
                continue
            texts = {normalise(text) for text in changed}
            findings = check_tables(grids, boxes)
            right = [f for f in findings if any(normalise(f.text) in t or t in normalise(f.text) for t in texts)]
            found[kind] += Counter(
                errors=bool(expected),
                found=any(f.kind == expected for f in right),
                any=bool(right),
                right=len(right),
                false=len(findings) - len(right),
            )
    return found


def main() -> None:
    for name, seed in SEEDS.items():
        found = measure(seed)
        total = sum(found.values(), Counter())
        print(
            f"\n{name}: {PAGES} pages, recall {total['any'] / total['errors']:.3f} of {total['errors']} errors "
            f"({total['found'] / total['errors']:.3f} by their kind), precision "
            f"{total['right'] / (total['right'] + total['false']):.3f} of {total['right'] + total['false']} findings"
        )
        for kind, counts in found.items():
            print(
                f"  {kind}: found {counts['any']} of {counts['errors']} ({counts['found']} by kind), "
                f"false {counts['false']}"
            )


if __name__ == "__main__":
    main()
