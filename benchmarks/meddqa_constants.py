"""Sensitivity of drafts to every geometric constant: each is scaled by 0.7 and 1.4, one at a time, over all page sets.

    python benchmarks/meddqa_constants.py [NAME=PAGES:ANNOTATIONS.csv …] [--pages 60]

Page sets are varied pages of two seeds, one of them with boxes that are merged, split, shifted and misread as by OCR,
and your own folders of restored pages with their annotations. Writes benchmarks/results/meddqa_constants.json and
docs/meddqa_constants.png.
"""

import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rjua_meddqa.annotation import cells, draft_columns, draft_fields, draft_row_blocks
from rjua_meddqa.annotation.draft_check import DraftCheck, check_draft
from rjua_meddqa.annotation.drafts import draft
from rjua_meddqa.fonts import BUNDLED
from rjua_meddqa.phantom.varied import draw_varied_page
from rjua_meddqa.released import read_annotations
from rjua_meddqa.restoration import page_layout
from rjua_meddqa.restoration.page_layout import lay_out
from rjua_meddqa.restoration.pages import read_pages
from rjua_meddqa.schema import Annotation, Box

CONSTANTS = {
    cells: ("LONG_BOX", "SAME_ROW"),
    draft_columns: ("BELOW_HEADER", "HEADER_LINES"),
    draft_row_blocks: ("LEFT_OUT", "EMPTY", "FREE_GAP", "NEAR", "FULL"),
    draft_fields: ("FARTHEST_VALUE", "FARTHEST_LINE", "TITLE", "CENTRED", "ALIGNED", "SUBHEADING", "SHORT_LINE"),
    page_layout: ("UPRIGHT",),
}
FACTORS = (0.7, 1.4)
MEASURES = {
    "rows": ("rows_found", "rows"),
    "ranges": ("rows_with_range", "rows"),
    "fields": ("key_values_found", "key_values"),
}
RESULTS = Path(__file__).parent / "results" / "meddqa_constants.json"
PLOT = Path(__file__).parents[1] / "docs" / "meddqa_constants.png"
Sheet = tuple[Sequence[Box], Sequence[int], Annotation]


def read_like_ocr(boxes: Sequence[Box], draw: random.Random) -> list[Box]:
    """Shift, misread, merge and split some boxes."""
    read: list[Box] = []
    for box in boxes:
        text, height = box.text, box.height
        if len(text) > 4 and not any(c.isdigit() for c in text) and draw.random() < 0.03:
            text = text[:2] + "口" + text[3:]
        x, y = draw.gauss(0, 0.08) * height, draw.gauss(0, 0.07) * height
        box = replace(box, text=text, points=tuple((px + x, py + y) for px, py in box.points))
        last = read[-1] if read else None
        if (
            last
            and abs(last.top - box.top) < 0.3 * height
            and 0 < box.left - last.right < 2.5 * height
            and draw.random() < 0.15
        ):
            read[-1] = replace(
                last, text=f"{last.text} {text}", points=(last.points[0], *box.points[1:3], last.points[3])
            )
        elif len(text) >= 6 and draw.random() < 0.05:
            cut, (a, b, c, d) = len(text) // 2, box.points
            share = sum(1 + (ord(one) > 255) for one in text[:cut]) / sum(1 + (ord(one) > 255) for one in text)
            upper, lower = ((p[0] + share * (q[0] - p[0]), p[1] + share * (q[1] - p[1])) for p, q in ((a, b), (d, c)))
            read += [replace(box, text=text[:cut], points=(a, upper, lower, d))]
            read += [replace(box, text=text[cut:], points=(upper, b, c, lower))]
        else:
            read.append(box)
    return read


def draw_pages(seed: int, count: int, as_ocr: bool) -> Iterator[Sheet]:
    for number in range(1, count + 1):
        page, _ = draw_varied_page(seed, number, [BUNDLED])
        boxes = read_like_ocr(page.boxes, random.Random(f"{seed} {number}")) if as_ocr else page.boxes
        yield boxes, (), page.annotation


def restored_pages(folder: Path, annotations: Path) -> Iterator[Sheet]:
    known = {Path(annotation.img_path).name: annotation for annotation in read_annotations(annotations)}
    for page in read_pages(folder):
        if page.image in known:
            lines = page.restored.lines[len(page.restored.lines) - page.restored.beside :]
            aside = {id(box) for line in lines for box in line}
            yield page.boxes, [n for n, box in enumerate(page.boxes) if id(box) in aside], known[page.image]


def measure(pages: Sequence[Sheet]) -> dict[str, float]:
    """Percentages of rows, of rows with their range, and of fields."""
    total = DraftCheck()
    for boxes, aside, annotation in pages:
        total += check_draft(draft(lay_out(boxes, aside)), annotation)
    return {
        name: round(100 * getattr(total, found) / getattr(total, all_), 2)
        for name, (found, all_) in MEASURES.items()
        if getattr(total, all_)
    }


def sweep(sets: dict[str, list[Sheet]]) -> dict:
    """The measures of each set, and their changes by constant and factor."""
    base = {name: measure(pages) for name, pages in sets.items()}
    changes: dict[str, dict[str, dict[str, float]]] = {}
    for module, names in CONSTANTS.items():
        for constant in names:
            value = getattr(module, constant)
            for factor in FACTORS:
                setattr(module, constant, value * factor)
                found = {name: measure(pages) for name, pages in sets.items()}
                setattr(module, constant, value)
                changes.setdefault(f"{module.__name__.rpartition('.')[2]}.{constant}", {})[str(factor)] = {
                    f"{name} {one}": round(found[name][one] - was, 2)
                    for name, measures in base.items()
                    for one, was in measures.items()
                }
            print(constant, changes[f"{module.__name__.rpartition('.')[2]}.{constant}"], flush=True)
    return {"base": base, "changes": changes}


def draw_plot(results: dict, path: Path) -> None:
    """One row per constant: the change of every measure on every set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    changes = results["changes"]
    figure, axes = pyplot.subplots(figsize=(7, 0.3 * len(changes) + 1.2))
    for row, by_factor in enumerate(changes.values()):
        for factor, colour, shift in zip(by_factor, ("tab:blue", "tab:orange"), (-0.15, 0.15), strict=True):
            values = list(by_factor[factor].values())
            label = f"× {factor}" if not row else None
            axes.scatter(values, [row + shift] * len(values), s=8, color=colour, label=label)
    axes.set_yticks(range(len(changes)), [name.rpartition(".")[2] for name in changes], fontsize=7)
    axes.axvspan(-3, 3, color="0.92", zorder=0)
    axes.set_xlabel("change in percentage points (rows, ranges and fields, each page set)")
    axes.invert_yaxis()
    axes.legend(loc="lower left", fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str]) -> None:
    count = int(arguments[arguments.index("--pages") + 1]) if "--pages" in arguments else 60
    sets = {"varied": list(draw_pages(101, count, False)), "read like OCR": list(draw_pages(202, count, True))}
    for given in (argument for argument in arguments if "=" in argument):
        name, _, paths = given.partition("=")
        folder, _, annotations = paths.partition(":")
        sets[name] = list(restored_pages(Path(folder), Path(annotations)))
    results = sweep(sets)
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draw_plot(results, PLOT)
    worst = max((abs(v), c) for c, f in results["changes"].items() for by in f.values() for v in by.values())
    print(f"largest change: {worst[0]:.2f} points ({worst[1]})")


if __name__ == "__main__":
    main(sys.argv[1:])
