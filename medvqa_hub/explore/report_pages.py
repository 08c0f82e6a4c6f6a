"""Restored pages, read one at a time from `pages.jsonl` or made from the boxes beside the images of a folder."""

import json
from collections.abc import Mapping, Sequence
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
from rjua_meddqa.schema import Box

PAGES_KEPT = 32
BOXES = "boxes"  # folder that `meddqa ocr` and `meddqa phantom` write


class PageSource(Protocol):
    """Pages by the name of their image."""

    governance: Governance

    @property
    def names(self) -> tuple[str, ...]: ...

    def find(self, image: str, file: Path | None) -> Page | None:
        """The page of an image, or None. `file` is the image, if it is known."""
        ...


class RestoredPages:
    """The pages that `meddqa esra --out` wrote.

    Raises:
        InputError: the folder lacks pages, or has two with the same name.
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
                        raise InputError(f"{self._path} has two pages of {name!r}. Rename one of the images.")
                    self._places[name] = place
                    place += len(line)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._path} cannot be read ({error}). Run medvqa-hub meddqa esra again.") from None
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
    """Pages restored from `boxes/NAME.json`, rotated by the angle of their text."""

    def __init__(self, folder: Path, governance: Governance) -> None:
        self.governance = governance
        self._files: Mapping[str, Path] = {path.stem: path for path in sorted((folder / BOXES).glob("*.json"))}
        self.find = lru_cache(maxsize=PAGES_KEPT)(self._find)

    @property
    def names(self) -> tuple[str, ...]:
        return ()  # the files only have the stems of the images' names

    def _find(self, image: str, file: Path | None) -> Page | None:
        path = self._files.get(Path(image).stem) or self._files.get(image)
        return page_from_boxes(read_boxes(path), file) if path is not None and file is not None else None


def page_from_boxes(originals: Sequence[Box], image: Path) -> Page:
    """Restore the page of an image from its boxes. Raises InputError if the image cannot be read."""
    opened = open_report(image)
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
        "quality_reason": "not rated: boxes from a file",
        "image_type": "photo" if abs(angle) > 0.5 else "screenshot",
    }
    return make_page(image.name, reading)
