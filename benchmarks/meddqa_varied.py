"""Accuracy of table drafts as a function of each difficulty of varied pages, from their true boxes.

    python benchmarks/meddqa_varied.py [PAGES]      (default: 270 pages per seed)

Rules are developed on the first seed only. The last column is the held-out seed. A row is right if its item, result
and range are those of the annotation. Surplus rows are drafted rows that match no annotated row.
"""

import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from rjua_meddqa.annotation.draft_check import DraftCheck, check_draft
from rjua_meddqa.annotation.drafts import draft
from rjua_meddqa.fonts import BUNDLED
from rjua_meddqa.phantom.varied import ALL, DIFFICULTIES, RANGES, draw_varied_page
from rjua_meddqa.restoration.page_layout import lay_out

SEEDS = {"development": 101, "held_out": 202}
PAGES = 270
BINS = 3


def measure_page(seed: int, number: int) -> tuple[str, str, DraftCheck]:
    """The difficulty of a page, the range of its level, and the check of its draft."""
    page, levels = draw_varied_page(seed, number, [BUNDLED])
    name = str(levels["difficulty"])
    checked = check_draft(draft(lay_out(page.boxes)), page.annotation)
    if name == ALL:
        return name, "", checked
    low, high = RANGES[name]
    if isinstance(low, int) and high - low < BINS:
        return name, f"{levels[name]:g}", checked
    step = (high - low) / BINS
    start = low + step * min(int((levels[name] - low) / step), BINS - 1)
    return name, f"{start:.2g} to {start + step:.2g}", checked


def measure(seed: int, pages: int = PAGES) -> dict[tuple[str, str], DraftCheck]:
    """Sums of the checks by (difficulty, level), and ("total", "")."""
    found: dict[tuple[str, str], DraftCheck] = defaultdict(DraftCheck)
    with ProcessPoolExecutor(2) as pool:
        for name, level, checked in pool.map(measure_page, repeat(seed), range(1, pages + 1), chunksize=9):
            found[name, level] += checked
            found["total", ""] += checked
    return found


def format_check(found: DraftCheck) -> str:
    surplus = found.drafted_rows - found.rows_found
    return f"{found.rows_with_range / max(found.rows, 1):.3f} of {found.rows:,}, {surplus} surplus"


def main(pages: int) -> None:
    results = {name: measure(seed, pages) for name, seed in SEEDS.items()}
    print(f"| difficulty | level | {' | '.join(results)} |\n|---|---|{'---|' * len(results)}")
    order = [*DIFFICULTIES, "total"]
    for name, level in sorted(results["development"], key=lambda key: (order.index(key[0]), key[1])):
        cells = (format_check(found[name, level]) for found in results.values())
        print(f"| {name} | {level} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAGES)
