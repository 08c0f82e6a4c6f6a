"""Restored pages of a folder, read one at a time: from `pages.jsonl`, or from the boxes beside a folder's images."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance, parse
from medvqa_core.json_files import read_manifest
from rjua_meddqa.restoration.images import open_report
from rjua_meddqa.restoration.ocr import boxes_to_json, read_boxes
from rjua_meddqa.restoration.pages import KIND, PAGES, Page, from_json, make_page
from rjua_meddqa.restoration.rectify import rotation, text_angle

PAGES_KEPT = 32
BOXES = "boxes"  # folder of `meddqa ocr` and of drawn reports


class PageSource(Protocol):
    """Pages by the name of their image."""

    governance: Governance

    @property
    def names(self) -> tuple[str, ...]: ...

    def find(self, image: str, file: Path | None) -> Page | None:
        """The page of an image; None where there is none. `file` is the image, where it is known."""
        ...


class RestoredPages:
    """The pages of `meddqa esra --out`.

    Raises:
        InputError: there are none, or two of one name.
    """

    def __init__(self, folder: Path) -> None:
        manifest = read_manifest(folder, f"run: medvqa-hub meddqa esra --images … --out {folder}", KIND)
        self.governance = parse(manifest["governance"], str(folder))
        self._path = folder / PAGES
        self._places: dict[str, int] = {}
        try:
            with open(self._path, "rb") as file:
                place = 0
                for line in file:
                    name = json.loads(line)["image"]
                    if name in self._places:
                        raise InputError(f"{self._path}: two pages of {name!r}; give the images different names")
                    self._places[name] = place
                    place += len(line)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._path}: cannot be read ({error}); make it again: medvqa-hub meddqa esra") from None
        self.find = lru_cache(maxsize=PAGES_KEPT)(self._find)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._places)

    def _find(self, image: str, file: Path | None = None) -> Page | None:
        if image not in self._places:
            return None
        with open(self._path, "rb") as lines:
            lines.seek(self._places[image])
            return from_json(json.loads(lines.readline()), f"{self._path}, {image}")


class BoxPages:
    """Pages restored from `boxes/NAME.json`: what was drawn, or read before, levelled by the angle of its text."""

    def __init__(self, folder: Path, governance: Governance) -> None:
        self.governance = governance
        self._files: Mapping[str, Path] = {path.stem: path for path in sorted((folder / BOXES).glob("*.json"))}
        self.find = lru_cache(maxsize=PAGES_KEPT)(self._find)

    @property
    def names(self) -> tuple[str, ...]:
        return ()  # they know no file names but their stems; the annotations name the images

    def _find(self, image: str, file: Path | None) -> Page | None:
        path = self._files.get(Path(image).stem) or self._files.get(image)
        return page_of_boxes(path, file) if path is not None and file is not None else None


def page_of_boxes(boxes: Path, image: Path) -> Page:
    """The page of an image from a file of its boxes. Raises InputError where one of the two cannot be read."""
    originals, opened = read_boxes(boxes), open_report(image)
    angle = text_angle(originals) if originals else 0.0
    level = [rotation(-angle, opened.width, opened.height).move(box) for box in originals]
    reading = {
        "boxes": boxes_to_json(level),
        "original_boxes": boxes_to_json(originals),
        "on_picture": [],
        "width": opened.width,
        "height": opened.height,
        "direction": 0,
        "angle": angle,
        "quality": "high",
        "quality_reason": "boxes from a file: not judged",
        "image_type": "photo" if abs(angle) > 0.5 else "screenshot",
    }
    return make_page(image.name, reading)
