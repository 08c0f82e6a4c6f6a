"""Rectifying a photographed page (thin version)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rjua_meddqa.restoration.ocr import OcrEngine
from rjua_meddqa.restoration.transform import Transform
from rjua_meddqa.schema import Box

if TYPE_CHECKING:
    from PIL import Image

RECTIFY_VERSION = "0"


@dataclass(frozen=True)
class RectifiedPage:
    boxes: tuple[Box, ...]
    original_boxes: tuple[Box, ...]
    transform: Transform
    direction: int
    angle: float


def rectify(image: "Image.Image", engine: OcrEngine) -> RectifiedPage:
    boxes = tuple(engine.read(image))
    return RectifiedPage(boxes, boxes, Transform.identity(*image.size), 0, 0.0)
