"""OCR: the engine interface, the RapidOCR engine, and boxes as JSON.

Any object with `name`, `version`, `settings` and `read` is an engine. RapidOCR (extra `ocr`) runs on the CPU, and its
wheel includes its models. Boxes of other tools are read from JSON in our format (`{"points": [[x, y] x 4], "text": …,
"score": …}`) or in the usual format of such tools (`[points, text, score]`).
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.install_hint import install
from medvqa_core.json_files import read_json, write_json
from rjua_meddqa.restoration.esra import check_box
from rjua_meddqa.restoration.tiles import is_strip, read_strip
from rjua_meddqa.schema import Box

if TYPE_CHECKING:
    from PIL import Image

MIN_SIDE, MAX_RATIO = 32, 6  # pixels; aspect ratio
DECIMALS = 2  # of written coordinates: below the accuracy of any engine


class OcrEngine(Protocol):
    """Interface of OCR engines. The result must depend only on the image, the version and the settings."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def settings(self) -> dict[str, Any]: ...

    def read(self, image: "Image.Image") -> list[Box]:
        """Return the boxes of an RGB image in its pixels, with text from left to right."""
        ...


@dataclass(frozen=True)
class RapidOcrEngine:
    """PP-OCR detection and recognition by RapidOCR on ONNX, without its line-direction classifier.

    The classifier would turn single lines silently. `rectify` decides the direction of the page for all lines.

    Args:
        max_side: pixels. Longer images are read at this size, tall strips in tiles of this height.
        threads: processor cores for one image.
    """

    max_side: int = 2000
    threads: int = 1
    name = "rapidocr"

    @property
    def version(self) -> str:
        try:
            return installed_version("rapidocr")
        except ModuleNotFoundError:
            raise _missing("No module named 'rapidocr'") from None

    @property
    def settings(self) -> dict[str, Any]:
        return {"max_side": self.max_side}

    def read(self, image: "Image.Image") -> list[Box]:
        """Return the boxes of `image` (RGB). Raises ConfigError without the extra, InputError if the engine fails."""
        if is_strip(image.size, self.max_side):
            return read_strip(image, self._read_whole, self.max_side)
        return self._read_whole(image)

    def _read_whole(self, image: "Image.Image") -> list[Box]:
        import numpy as np

        read = _load_rapidocr(self.max_side, self.threads)
        try:
            result = read(np.asarray(_pad(image.convert("RGB")))[:, :, ::-1])  # it expects blue first
        except _engine_failures() as error:
            raise InputError(f"RapidOCR cannot read the image ({image.width} x {image.height}): {error}") from error
        if result.boxes is None:
            return []
        found = zip(result.boxes.tolist(), result.txts, result.scores, strict=True)
        boxes = [
            Box(tuple((float(x), float(y)) for x, y in points), text, float(score)) for points, text, score in found
        ]
        return [box for box in boxes if box.text.strip() and box.width > 0 and box.height > 0]


def _engine_failures() -> tuple[type[Exception], ...]:
    """Return the errors that the engine and its libraries raise. Called only after an error."""
    import cv2
    from rapidocr.inference_engine.onnxruntime import ONNXRuntimeError

    return (cv2.error, ONNXRuntimeError, ArithmeticError, LookupError, MemoryError, RuntimeError, ValueError)


def _pad(image: "Image.Image") -> "Image.Image":
    """Pad an image on the right or below to a moderate aspect ratio, since the detector enlarges the shorter side of a
    strip without bound. Coordinates are unchanged."""
    from PIL import Image

    shortest = max(MIN_SIDE, -(-max(image.size) // MAX_RATIO))
    if min(image.size) >= shortest:
        return image
    padded = Image.new("RGB", (max(image.width, shortest), max(image.height, shortest)), "white")
    padded.paste(image)
    return padded


@cache
def _load_rapidocr(max_side: int, threads: int):
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # ONNX Runtime 1.31 records events in the user's cache
    try:
        from rapidocr import RapidOCR
    except ImportError as error:  # possibly a missing system library
        raise _missing(str(error)) from None
    return RapidOCR(
        params={
            "Global.log_level": "error",
            "Global.use_cls": False,
            "Global.max_side_len": max_side,
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Rec.rec_batch_num": 1,  # in a batch, lines are padded to the longest: slower, and different results
        }
    )


def _missing(reason: str) -> ConfigError:
    return ConfigError(f"RapidOCR cannot be loaded ({reason}): {install('ocr')}")


def boxes_to_json(boxes: Sequence[Box]) -> list[dict[str, Any]]:
    """Return `boxes` as JSON values, with coordinates to a hundredth of a pixel."""
    return [
        {
            "points": [[round(x, DECIMALS), round(y, DECIMALS)] for x, y in box.points],
            "text": box.text,
            "score": round(box.score, 5),
        }
        for box in boxes
    ]


def boxes_from_json(values: Any, where: str) -> list[Box]:
    """Return boxes from parsed JSON: a list of our objects or of `[points, text, score]`.

    Args:
        values: with four points each, or two (top left and bottom right).
        where: the file, for error messages.

    Raises:
        InputError: it is not such a list, a coordinate is not finite, or a box lacks height or width.
    """
    if not isinstance(values, list):
        raise InputError(f"{where}: expected a list of boxes, found {type(values).__name__}")
    return [_box_from_json(value, f"{where}, box {number}") for number, value in enumerate(values)]


def _box_from_json(value: Any, where: str) -> Box:
    try:
        if isinstance(value, dict):
            points, text, score = value["points"], value["text"], value.get("score", 1.0)
        else:
            points, text, *rest = value
            score = rest[0] if rest else 1.0
        corners = tuple((float(x), float(y)) for x, y in points)
        score = float(score)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise InputError(
            f"{where}: {error!r}. Expected {{points, text, score}} or [points, text, score] with four points [x, y]"
        ) from None
    if len(corners) == 2:
        (left, top), (right, bottom) = corners
        corners = ((left, top), (right, top), (right, bottom), (left, bottom))
    if len(corners) != 4 or not isinstance(text, str) or not math.isfinite(score):
        raise InputError(
            f"{where}: {len(corners)} points, text of type {type(text).__name__}, score {score}. Expected four points "
            "(or two: left top, right bottom), a string and a number"
        )
    box = Box(corners, " ".join(text.split("\n")), score)
    check_box(box, where)
    return box


def read_boxes(path: Path) -> list[Box]:
    """Read boxes from a JSON file. Raises InputError if it is missing, not JSON, or rejected by `boxes_from_json`."""
    return boxes_from_json(read_json(path, "check the file"), str(path))


def write_boxes(path: Path, boxes: Sequence[Box]) -> None:
    """Write `boxes` to a JSON file. Raises OutputError if that fails."""
    write_json(path, boxes_to_json(boxes), end="")
