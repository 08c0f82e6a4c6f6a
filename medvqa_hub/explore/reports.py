"""Report pages: boxes over the image, restored text, annotation or draft, and findings of the checks.

The page shows the saved correction, else the annotation of the folder, else a draft that is made from the page.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance, strictest
from medvqa_hub.explore.corrections import Corrections, read_correction, read_reasons
from medvqa_hub.explore.pictures import MEDIA_TYPES, Picture
from medvqa_hub.explore.report_pages import PageSource
from rjua_meddqa.annotation.checking import KINDS, check_annotations
from rjua_meddqa.annotation.drafts import draft_annotation
from rjua_meddqa.annotation.labelstudio import REPORT_TYPES
from rjua_meddqa.annotation.page_check import PageText, page_text
from rjua_meddqa.data_folder import DataFolder, find_image
from rjua_meddqa.restoration.images import open_report
from rjua_meddqa.restoration.pages import Page
from rjua_meddqa.schema import IMAGE_QUALITIES, IMAGE_TYPES, IS_NORMAL_VALUES, Annotation, RestoredText

LARGEST_SIDE = 2400  # pixels
PER_PAGE = 200
SAVED, ANNOTATED, DRAFTED, EMPTY = "saved", "annotated", "draft", "none"  # origin of an annotation


class ReportView:
    """Reports of a data folder, of restored pages, or of both. Thread-safe.

    Args:
        annotations: annotations of the folder by `img_path`. May be empty.
        roots: folders that image paths are relative to.
        corrections: the folder of corrections. None if nothing can be saved.
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
    ) -> None:
        self._given = given
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
            "kinds": KINDS,
        }

    def page(self, text: str = "", status: str = "", at: int = 0) -> dict[str, Any]:
        """A page of the list: reports whose path contains `text`, and that are SAVED or not."""
        found = [path for path in self._paths if text.casefold() in path.casefold()]
        if status:
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
        page = self._page(path)
        annotation, source = self._annotation(path, page)
        return {
            "path": path,
            "status": source,
            "page": _page_json(page) if page is not None else None,
            "annotation": _annotation_json(annotation) if annotation is not None else None,
            "findings": self._check(annotation, page) if annotation is not None else [],
        }

    def save(self, path: str, given: dict[str, Any]) -> dict[str, Any]:
        """Save a corrected annotation. Returns the report.

        Raises:
            InputError: there is no folder of corrections, or `given` is not a valid annotation.
            OutputError: the folder cannot be written.
        """
        if self._corrections is None:
            raise InputError("corrections cannot be saved. Start the explorer with --corrections FOLDER.")
        page = self._page(path)
        before, _ = self._annotation(path, page)
        if before is None:
            number = self._paths.index(path) + 1
            before = Annotation(str(number), path, (), (), "", IMAGE_TYPES[0], IMAGE_QUALITIES[0])
        self._corrections.save(read_correction(given, before))
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

    def _line(self, path: str) -> dict[str, Any]:
        annotation = self._saved(path) or self._annotations.get(path)
        return {
            "path": path,
            "status": SAVED if self._saved(path) else self._given if path in self._annotations else EMPTY,
            "type": annotation.report_type if annotation else "",
            "quality": annotation.image_quality if annotation else "",
            "values": len(annotation.key_values) + len(annotation.table) if annotation else None,
        }

    def _page(self, path: str) -> Page | None:
        file = self.file(path)
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
