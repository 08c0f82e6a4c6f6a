"""Report pages: boxes over the image, restored text, annotation or draft, and findings of the checks.

The page shows the saved correction, else the annotation of the folder, else a draft that is made from the page. A save
states the version that it was based on, and is refused if someone else has saved another one.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance, strictest
from medvqa_hub.explore.corrections import read_correction, read_reasons
from medvqa_hub.explore.pictures import MEDIA_TYPES, Picture
from medvqa_hub.explore.report_pages import PageSource, page_from_boxes
from rjua_meddqa.annotation.annotator_agreement import compare_annotators, find_differences
from rjua_meddqa.annotation.checking import KINDS, check_annotations
from rjua_meddqa.annotation.drafts import draft_annotation
from rjua_meddqa.annotation.labelstudio import REPORT_TYPES
from rjua_meddqa.annotation.page_check import PageText, page_text
from rjua_meddqa.corrections import MARK, MARKS, Corrections, to_state
from rjua_meddqa.data_folder import DataFolder, find_image
from rjua_meddqa.restoration.images import open_report
from rjua_meddqa.restoration.ocr import boxes_from_json, boxes_to_json
from rjua_meddqa.restoration.pages import Page
from rjua_meddqa.schema import IMAGE_QUALITIES, IMAGE_TYPES, IS_NORMAL_VALUES, Annotation, Box, RestoredText

LARGEST_SIDE = 2400  # pixels
PER_PAGE = 200
DIFFER = ("differ", "agree")  # of two annotators
SAVED, ANNOTATED, DRAFTED, EMPTY = "saved", "annotated", "draft", "none"  # origin of an annotation


class ReportView:
    """Reports of a data folder, of restored pages, or of both. Thread-safe.

    Args:
        annotations: annotations of the folder by `img_path`. May be empty.
        roots: folders that image paths are relative to.
        corrections: the folder of corrections. None if nothing can be saved.
        compared: corrections of two annotators, to be adjudicated. Empty without.
        given: ANNOTATED, or DRAFTED if nobody has corrected the annotations of the folder.
    """

    def __init__(
        self,
        name: str,
        governance: Governance,
        annotations: dict[str, Annotation],
        pages: Sequence[PageSource],
        roots: tuple[Path, ...],
        corrections: Corrections | None = None,
        given: str = ANNOTATED,
        compared: tuple[Corrections, ...] = (),
    ) -> None:
        self._given, self._compared = given, compared
        self._name, self._annotations, self._pages = name, annotations, tuple(pages)
        self._roots, self._corrections = roots, corrections
        self.governance = strictest([governance, *(source.governance for source in pages)])
        known = {Path(path).name for path in annotations}
        others = [name for source in pages for name in source.names if name not in known]
        self._paths = [*annotations, *dict.fromkeys(others)]
        if not self._paths:
            raise InputError(f"{name} has no annotations and no restored pages")

    def describe(self) -> dict[str, Any]:
        """The size of the folder and the allowed values of fields."""
        types = sorted({a.report_type for a in self._annotations.values()} | set(REPORT_TYPES))
        return {
            "folder": self._name,
            "reports": len(self._paths),
            "saves": str(self._corrections.folder.name) if self._corrections is not None else None,
            "choices": {"report_type": types, "image_type": IMAGE_TYPES, "image_quality": IMAGE_QUALITIES},
            "verdicts": IS_NORMAL_VALUES,
            "marks": MARKS,
            "compared": self._compare(),
            "kinds": KINDS,
        }

    def page(self, text: str = "", status: str = "", at: int = 0) -> dict[str, Any]:
        """A page of the list: reports whose path contains `text`, and that are SAVED or not, or have a mark."""
        found = [path for path in self._paths if text.casefold() in path.casefold()]
        if self._corrections is not None:
            self._corrections.refresh()
        if status in DIFFER:
            found = [path for path in found if self._differs(path) == status]
        elif status in MARKS[1:]:
            found = [path for path in found if self._mark(path) == status]
        elif status:
            found = [path for path in found if (self._saved(path) is not None) == (status == SAVED)]
        shown = found[max(0, at) : max(0, at) + PER_PAGE]
        return {
            "reports": [self._line(path) for path in shown],
            "total": len(found),
            "next": at + PER_PAGE if at + PER_PAGE < len(found) else None,
            "previous": max(0, at - PER_PAGE) if at > 0 else None,
        }

    def report(self, path: str) -> dict[str, Any]:
        """A report with its page, annotation and findings. Raises InputError if the path is unknown."""
        version = 0
        if self._corrections is not None:
            self._corrections.refresh()
            version = self._corrections.version(path)  # first: an edit in between then makes the next save a conflict
        page = self._page(path)
        annotation, source = self._annotation(path, page)
        return {
            "path": path,
            "status": source,
            "version": version,
            MARK: self._mark(path),
            "compared": [
                {"name": f"{one.folder.name} ({history[-1][0].author})", "annotation": _annotation_json(found)}
                for one in self._compared
                if (history := one.history(path)) and (found := history[-1][1]) is not None
            ],
            "page": _page_json(page) if page is not None else None,
            "annotation": _annotation_json(annotation) if annotation is not None else None,
            "findings": self._check(annotation, page) if annotation is not None else [],
        }

    def history(self, path: str) -> list[dict[str, Any]]:
        """The edits of a report, oldest first, each with the annotation after it."""
        self._check_path(path)
        found = self._corrections.history(path) if self._corrections is not None else []
        given = self._annotations.get(path)
        first = to_state(given) if given is not None else {}  # the first edit records all fields
        return [
            {
                **{name: getattr(edit, name) for name in ("version", "author", "time", "base")},
                "changed": [
                    name
                    for name, value in edit.change.items()
                    if name not in ("idx", "extra", "raw") and (edit.base or value != first.get(name))
                ],
                "annotation": _annotation_json(annotation) if annotation is not None else None,
            }
            for edit, annotation in found
        ]

    def save(self, path: str, given: dict[str, Any]) -> dict[str, Any]:
        """Save an edit. Returns the report.

        Args:
            given: author, base (the version that was shown), and what was changed: annotation, mark, or boxes (four
                corners of each box of the page).

        Raises:
            EditConflictError: someone else has saved the report since `base`.
            InputError: the folder of corrections is missing, or `given` is not valid.
            OutputError: the folder cannot be written.
        """
        if self._corrections is None:
            raise InputError("corrections cannot be saved. Start the explorer with --corrections FOLDER.")
        page = self._page(path)
        author, base, mark = (given.get(name) for name in ("author", "base", MARK))
        if not isinstance(author, str) or not isinstance(base, int) or not isinstance(mark, str | None):
            raise InputError(f"{path}: expected an author, the version (base) that was edited, and a mark as text")
        annotation, boxes = None, None
        if given.get("annotation") is not None:
            before, _ = self._annotation(path, page)
            if before is None:
                number = self._paths.index(path) + 1
                before = Annotation(str(number), path, (), (), "", IMAGE_TYPES[0], IMAGE_QUALITIES[0])
            annotation = read_correction(given["annotation"], before)
        if given.get("boxes") is not None:
            file = self.file(path)
            if page is None or file is None:
                raise InputError(f"{path} has no image with boxes, so that none can be moved")
            boxes = _move_boxes(page.original_boxes, given["boxes"], path)
            page_from_boxes(boxes, file)  # raises if the page could not be shown again
        self._corrections.save(path, annotation, author, base, mark, boxes)
        return self.report(path)

    def picture(self, path: str, side: int = LARGEST_SIDE) -> Picture:
        """The image, upright and with sides of at most `side` pixels. Raises InputError if it cannot be read."""
        file = self.file(path)
        if file is None:
            raise InputError(f"image {path} was not found. Pass the folder of the images with --report-images.")
        image = open_report(file).pixels
        image.thumbnail((side, side))
        made = io.BytesIO()
        image.save(made, "JPEG", quality=90)
        return Picture(made.getvalue(), MEDIA_TYPES["JPEG"])

    def file(self, path: str) -> Path | None:
        """The image file of a report, or None. Raises InputError if the path is unknown."""
        self._check_path(path)
        return find_image(self._roots, path, f"image {path}") if self._roots else None

    def restored(self, path: str) -> Page | None:
        """The restored page of a report, or None."""
        self._check_path(path)
        return self._page(path)

    def _check_path(self, path: str) -> None:
        if path not in self._paths:
            raise InputError(f"report {path!r} is not in {self._name}")

    def _saved(self, path: str) -> Annotation | None:
        return self._corrections.find(path) if self._corrections is not None else None

    def _compare(self) -> dict[str, Any] | None:
        """The agreement of the two annotators, or None."""
        if not self._compared:
            return None
        rows = [{path: row for path in one.paths() if (row := one.find(path))} for one in self._compared]
        names = [one.folder.name for one in self._compared]
        return {"names": names, **compare_annotators(rows[0], rows[1])}

    def _differs(self, path: str) -> str | None:
        """One of DIFFER, or None if not both annotators have corrected the report."""
        found = [row for one in self._compared if (row := one.find(path)) is not None]
        return None if len(found) < 2 else DIFFER[0 if find_differences(*found) else 1]

    def _mark(self, path: str) -> str:
        return self._corrections.mark(path) if self._corrections is not None else ""

    def _line(self, path: str) -> dict[str, Any]:
        annotation = self._saved(path) or self._annotations.get(path)
        return {
            "path": path,
            "status": SAVED if self._saved(path) else self._given if path in self._annotations else EMPTY,
            MARK: self._mark(path) or ("differ" if self._differs(path) == "differ" else ""),
            "type": annotation.report_type if annotation else "",
            "quality": annotation.image_quality if annotation else "",
            "values": len(annotation.key_values) + len(annotation.table) if annotation else None,
        }

    def _page(self, path: str) -> Page | None:
        file = self.file(path)
        if file is not None and self._corrections is not None and (moved := self._corrections.boxes(path)) is not None:
            return page_from_boxes(moved, file)
        found = (source.find(Path(path).name, file) for source in self._pages)
        return next((page for page in found if page is not None), None)

    def _annotation(self, path: str, page: Page | None) -> tuple[Annotation | None, str]:
        if (saved := self._saved(path)) is not None:
            return saved, SAVED
        if path in self._annotations:
            return self._annotations[path], self._given
        if page is not None:
            return draft_annotation(page, str(self._paths.index(path) + 1), path), DRAFTED
        return None, EMPTY

    def _check(self, annotation: Annotation, page: Page | None) -> list[dict[str, str]]:
        text: PageText | None = page_text(page.restored) if page is not None else None
        found = check_annotations([annotation], lambda _: text).findings
        return [{"kind": finding.kind, "where": finding.where, "message": finding.message} for finding in found]


def annotations_by_path(folder: DataFolder, rows: Sequence[Annotation]) -> dict[str, Annotation]:
    """Annotations by image. Raises InputError if an image has two."""
    found: dict[str, Annotation] = {}
    for row in rows:
        if row.img_path in found:
            raise InputError(f"{folder.root}: image {row.img_path!r} has two annotations. Delete one of them.")
        found[row.img_path] = row
    return found


def _annotation_json(annotation: Annotation) -> dict[str, Any]:
    return {
        "key_values": [list(pair) for pair in annotation.key_values],
        "table": [[row.item, row.result, row.range, row.is_normal] for row in annotation.table],
        "reasons": read_reasons(annotation),
        **{name: getattr(annotation, name) for name in ("report_type", "image_type", "image_quality")},
    }


def _move_boxes(boxes: Sequence[Box], points: Any, where: str) -> list[Box]:
    """The boxes with new corners. Raises InputError if `points` do not fit them."""
    if not isinstance(points, list) or len(points) != len(boxes):
        raise InputError(f"{where}: expected the corners of {len(boxes)} boxes")
    moved = [{"points": one, "text": box.text, "score": box.score} for box, one in zip(boxes, points, strict=True)]
    return boxes_from_json(boxes_to_json(boxes_from_json(moved, where)), where)  # as they are read again


def _page_json(page: Page) -> dict[str, Any]:
    numbers = {id(box): number for number, box in enumerate(page.boxes)}
    return {
        **{name: getattr(page, name) for name in ("width", "height", "quality", "quality_reason", "image_type")},
        "boxes": [
            {"points": [[round(x, 1), round(y, 1)] for x, y in box.points], "text": box.text, "score": box.score}
            for box in page.original_boxes
        ],
        "lines": linked_lines(page.restored, numbers),
    }


def linked_lines(restored: RestoredText, numbers: dict[int, int]) -> list[list[tuple[str, int | None]]]:
    """The restored text in pieces with the number of their box, or None for the space between boxes."""
    texts = restored.text.split("\n")
    linked = []
    for number, line in enumerate(restored.lines):
        rest = texts[number] if number < len(texts) else ""
        pieces: list[tuple[str, int | None]] = []
        for box in line:
            before, found, after = rest.partition(box.text)
            if not found:  # the restored text differs from the text of the box
                before, after = "", rest
            pieces += [(before, None)] if before else []
            pieces.append((box.text, numbers[id(box)]))
            rest = after
        linked.append([*pieces, *([(rest, None)] if rest.strip() else [])])
    return linked
