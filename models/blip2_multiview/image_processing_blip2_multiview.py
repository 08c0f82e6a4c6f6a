"""Radiographs of any kind of image or array -> 8-bit RGB, which the vision tower's image processor takes.

Not here: resizing and normalising (transformers' Pillow backend), reading files, EXIF orientation and DICOM windows.
"""

from typing import Any

import numpy as np
from PIL import Image

SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")
EIGHT_BIT = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")
SHAPES = "(H, W), or 1 or 3 channels before or after (H, W)"


def to_rgb(image: Any, where: str = "an image") -> Image.Image:
    """A Pillow image of mode RGB; 16 bits are scaled by 255 / 65535, an alpha channel is dropped.

    Args:
        image: Pillow image; uint8 or uint16 array (H, W), (H, W, channels) or (channels, H, W), of 1 or 3 channels.
        where: How errors call the image, such as "image 2 of study 0".

    Raises:
        ValueError: The image is empty, of another shape, or of a mode whose pixels have no known range.
        TypeError: It is neither a Pillow image nor an array of these types.
    """
    if isinstance(image, np.ndarray):
        image = _from_array(image, where)
    if not isinstance(image, Image.Image):
        raise TypeError(f"{where} is a {type(image).__name__}; allowed are Pillow images and arrays of uint8 or uint16")
    if 0 in image.size:
        raise ValueError(f"{where} of {image.size[0]} x {image.size[1]} has no pixels")
    if image.mode in SIXTEEN_BIT:
        # Pillow's own conversion clips at 255, which turns a 16-bit radiograph white.
        return Image.fromarray(_to_eight_bit(np.asarray(image))).convert("RGB")
    if image.mode not in EIGHT_BIT:
        raise ValueError(
            f"{where} has mode {image.mode!r}, whose pixels have no known range; convert it to 8 or 16 bits first "
            f"(allowed: {', '.join(EIGHT_BIT + SIXTEEN_BIT)})"
        )
    if image.mode == "La":  # Pillow knows no direct way
        image = image.convert("LA")
    return image.convert("RGB")


def _to_eight_bit(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.float32) * (255 / 65535) + 0.5).astype(np.uint8)


def _from_array(array: np.ndarray, where: str) -> Image.Image:
    shape = array.shape
    if array.dtype not in (np.uint8, np.uint16):
        raise TypeError(
            f"{where} is an array of {array.dtype}; allowed are Pillow images and arrays of uint8 or uint16"
        )
    if array.ndim == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
        raise ValueError(f"{where} is an array of shape {shape}; expected {SHAPES}")
    if array.size == 0:
        raise ValueError(f"{where} of shape {shape} has no pixels")
    return Image.fromarray(np.ascontiguousarray(array if array.dtype == np.uint8 else _to_eight_bit(array)))
