"""What the page shows of report images: boxes over the image, restored text, annotation or draft, what the check finds.

The annotation shown is the first that there is: saved here, in the folder, or drafted from the page now.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance, strictest
from medvqa_hub.explore.corrections import Corrections, read_correction, reasons_of
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

LARGEST_SIDE = 2400  # pixels of an image that is sent
PER_PAGE = 200
SAVED, ANNOTATED, DRAFTED, EMPTY = "saved", "annotated", "draft", "none"  # where an annotation comes from


class ReportView:
    """Reports of a data folder, of restored pages, or of both; used by several threads.

    Args:
        annotations: of the folder, by `img_path`; may be empty.
        roots: folders that image paths start from.
        corrections: where what people correct is saved; None: nothing is saved.
        given: what the folder's annotations are, ANNOTATED, or DRAFTED where nobody has corrected them.
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
            raise InputError(f"{name}: no annotation and no restored page there")

    def describe(self) -> dict[str, Any]:
        """What there is, and what can be chosen."""
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
        """A page of the list: reports whose path holds `text`, of a status (SAVED or not)."""
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
        """A report with all that is known of it. Raises InputError where there is none of that path."""
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
        """Save a corrected annotation; returns the report as it is now.

        Raises:
            InputError: nothing can be saved here, or `given` is not an annotation.
            OutputError: the folder cannot be written.
        """
        if self._corrections is None:
            raise InputError("nothing is saved here: start the explorer with --corrections FOLDER")
        page = self._page(path)
        before, _ = self._annotation(path, page)
        if before is None:
            number = self._paths.index(path) + 1
            before = Annotation(str(number), path, (), (), "", IMAGE_TYPES[0], IMAGE_QUALITIES[0])
        self._corrections.save(read_correction(given, before))
        return self.report(path)

    def picture(self, path: str, side: int = LARGEST_SIDE) -> Picture:
        """The image as a browser shows it: upright, no side above `side` pixels. Raises InputError where it is none."""
        file = self.file(path)
        if file is None:
            raise InputError(f"image {path}: not found; name the folder of the report images with --report-images")
        image = open_report(file).pixels
        image.thumbnail((side, side))
        made = io.BytesIO()
        image.save(made, "JPEG", quality=90)
        return Picture(made.getvalue(), MEDIA_TYPES["JPEG"])

    def file(self, path: str) -> Path | None:
        """The image file of a report; None where it is not there. Raises InputError for what is no report here."""
        self._know(path)
        return find_image(self._roots, path, f"image {path}") if self._roots else None

    def restored(self, path: str) -> Page | None:
        """The restored page of a report, where there is one."""
        self._know(path)
        return self._page(path)

    def _know(self, path: str) -> None:
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
    """Annotations by image. Raises InputError where an image has two."""
    found: dict[str, Annotation] = {}
    for row in rows:
        if row.img_path in found:
            raise InputError(f"{folder.root}: image {row.img_path!r} has two annotations; keep one of them")
        found[row.img_path] = row
    return found


def _annotation_json(annotation: Annotation) -> dict[str, Any]:
    return {
        "key_values": [list(pair) for pair in annotation.key_values],
        "table": [[row.item, row.result, row.range, row.is_normal] for row in annotation.table],
        "reasons": reasons_of(annotation),
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
    """The restored text cut into pieces, each with the number of its box, or None for the space between boxes."""
    texts = restored.text.split("\n")
    linked = []
    for number, line in enumerate(restored.lines):
        rest = texts[number] if number < len(texts) else ""
        pieces: list[tuple[str, int | None]] = []
        for box in line:
            before, found, after = rest.partition(box.text)
            if not found:  # written otherwise than read
                before, after = "", rest
            pieces += [(before, None)] if before else []
            pieces.append((box.text, numbers[id(box)]))
            rest = after
        linked.append([*pieces, *([(rest, None)] if rest.strip() else [])])
    return linked
