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
    numbers = [c for c in columns if any(ch.isdigit() for ch in grid.get((first, c), ""))]
    if not second or not numbers:
        return set()
    column = draw.choice(numbers)
    old = grid[first, column]
    if kind == "changed digit":
        grid[first, column] = old.translate(DIGITS)
        return {grid[first, column], old}
    if kind == "invented row":
        row = {column: text for (r, column), text in grid.items() if r == first}
        added = {
            c: "嗜碱性粒细胞绝对值" if not any(ch.isdigit() for ch in t) else t.translate(DIGITS) + "7"
            for c, t in row.items()
        }
        grid |= {(rows, c): t for c, t in added.items()}
        return set(added.values())
    if kind == "swapped results":
        other = grid.get((second, column), "")
        if normalise(other) == normalise(old) or not other:
            return set()
        grid[first, column], grid[second, column] = other, old
        return {old, other}
    if kind == "shifted column":
        texts = [grid.get((row, column), "") for row in range(1, rows)]
        if len(set(texts)) < len(texts) or "" in texts or rows < 5:
            return set()
        for row, text in enumerate(texts[-1:] + texts[:-1], start=1):
            grid[row, column] = text
        return set(texts)
    if kind == "moved to another column":
        free = [c for c in columns if c != column and c in numbers]
        if not free:
            return set()
        grid[first, column], grid[first, free[0]] = grid[first, free[0]], old
        return {old, grid[first, column]}
    row = {column: text for (r, column), text in grid.items() if r == first}
    if kind == "doubled row":
        grid |= {(rows, c): text for c, text in row.items()}
        return set(row.values())
    if kind == "doubled cell":
        if (second, column) not in grid or normalise(grid[second, column]) == normalise(old):
            return set()
        lost = grid[second, column]
        grid[second, column] = old
        return {old, lost}
    if kind == "missing row":
        for c in row:
            del grid[first, c]
        return set(row.values())
    del grid[first, column]
    return {old}


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
