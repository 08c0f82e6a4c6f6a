"""Keystrokes that annotators need per page: without a draft, with drafts from plain OCR, and from restored pages.

    python benchmarks/annotation_effort.py [FOLDER ...]     (default: 10 synthetic reports; needs the extra `ocr`)

A folder has images/ and annotations, such as the released samples. "plain OCR" drafts from the boxes on the original
image, "restored" from those of the rectified page (ESRA). Correcting a value costs its edit distance, a missing entry
all its characters, a surplus entry and a wrong verdict one keystroke. Accuracy is the share of annotated values and
table cells that need no edit.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from rjua_meddqa.annotation.drafts import Draft, draft
from rjua_meddqa.annotation.report_words import fold, similarity
from rjua_meddqa.answers import is_missing
from rjua_meddqa.data_folder import ANNOTATIONS, IMAGES, open_folder
from rjua_meddqa.phantom.folder import write_phantom
from rjua_meddqa.released import read_annotations
from rjua_meddqa.restoration.ocr import RapidOcrEngine
from rjua_meddqa.restoration.pages import read_pages, restore_folder
from rjua_meddqa.schema import Annotation, RestoredText

REPORTS, SEED = 10, 77
ALIKE = 0.6  # of a drafted and an annotated key or item


def edit_distance(one: str, other: str) -> int:
    """Insertions, deletions and replacements between two texts."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        before, row = row, [i]
        for j, b in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b)))
    return row[-1]


def count_edits(drafted: Draft, annotation: Annotation) -> Counter[str]:
    """Keystrokes, and the numbers of fields and of fields without an edit."""
    counts: Counter[str] = Counter()
    wanted = [(key, (value,), "") for key, value in annotation.key_values if not is_missing(value)]
    made = [(key, (value,), "") for key, value in drafted.key_values if not is_missing(value)]
    _compare(wanted, made, counts)
    wanted = [(row.item, (row.result, row.range), row.is_normal) for row in annotation.table]
    made = [(row.item, (row.result, row.range), row.is_normal) for row in drafted.table]
    _compare(wanted, made, counts)
    return counts


def _compare(wanted: list, made: list, counts: Counter[str]) -> None:
    made = list(made)
    for name, values, verdict in wanted:
        best = max(made, key=lambda entry: similarity(fold(entry[0]), fold(name)), default=None)
        if best is None or similarity(fold(best[0]), fold(name)) < ALIKE:
            best = ("", ("",) * len(values), "" if not verdict else None)
        else:
            made.remove(best)
        edits = [edit_distance(one, other) for one, other in zip(best[1], values, strict=True)]
        counts["keystrokes"] += sum(edits) + edit_distance(best[0], name) + (best[2] != verdict)
        counts["fields"] += len(values)
        counts["right"] += sum(edit == 0 for edit in edits)
    counts["keystrokes"] += len(made)


def measure(folder: Path) -> dict[str, Counter[str]]:
    """Sums over the pages of a folder, by condition."""
    data = open_folder(folder)
    annotations = {Path(a.img_path).name: a for a in read_annotations(data.file(ANNOTATIONS))}
    found: dict[str, Counter[str]] = {name: Counter() for name in ("no draft", "plain OCR", "restored")}
    with tempfile.TemporaryDirectory() as scratch:
        restore_folder(folder / IMAGES, Path(scratch), RapidOcrEngine(), governance=data.governance)
        for page in read_pages(Path(scratch)):
            annotation = annotations.get(page.image)
            if annotation is None:
                continue
            plain = RestoredText(tuple((box,) for box in page.original_boxes), "")
            drafts = {"no draft": Draft((), ()), "plain OCR": draft(plain), "restored": draft(page.restored)}
            for name, drafted in drafts.items():
                found[name] += count_edits(drafted, annotation) + Counter(pages=1)
    return found


def main(folders: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        if not folders:
            write_phantom(Path(scratch, "synthetic"), REPORTS, SEED)
            folders = [Path(scratch, "synthetic")]
        print("| pages | draft | keystrokes per page | values without an edit |\n|---|---|---|---|")
        for folder in folders:
            for name, counts in measure(folder).items():
                share = f"{counts['right'] / counts['fields']:.3f} of {counts['fields']}"
                effort = counts["keystrokes"] / counts["pages"]
                print(f"| {folder.name} ({counts['pages']}) | {name} | {effort:.0f} | {share} |")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
