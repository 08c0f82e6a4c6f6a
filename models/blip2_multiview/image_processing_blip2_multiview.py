"""Conversion of images and arrays to 8-bit RGB. EXIF orientation and DICOM windows are not applied."""

from typing import Any

import numpy as np
from PIL import Image

SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")
EIGHT_BIT = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")


def to_rgb(image: Any, where: str = "an image") -> Image.Image:
    """Convert an image to mode RGB. Transparency is ignored, and 16 bits are scaled by 255 / 65535.

    Args:
        image: Pillow image, or uint8 or uint16 array (H, W), (H, W, channels) or (channels, H, W) with 1 or 3 channels.
        where: name of the image in errors, such as "image 2 of study 0".

    Raises:
        ValueError: the image is empty, or of another shape or mode.
        TypeError: not an image.
    """
    if isinstance(image, np.ndarray):
        image = _from_array(image, where)
    if isinstance(image, str):
        raise TypeError(
            f"{where} is the path {image!r}. Expected an image. Open it with Image.open, or load the dataset with "
            "image_root=FOLDER."
        )
    if not isinstance(image, Image.Image):
        raise TypeError(f"{where} is a {type(image).__name__}. Expected a Pillow image or an array.")
    if 0 in image.size:
        raise ValueError(f"{where} is {image.size[0]} x {image.size[1]} pixels. It must have at least one pixel.")
    if image.mode in SIXTEEN_BIT:
        # Pillow's own conversion clips at 255.
        return Image.fromarray(_to_eight_bit(np.asarray(image))).convert("RGB")
    if image.mode not in EIGHT_BIT:
        raise ValueError(f"{where} has mode {image.mode!r} of unknown range. Convert it to 8 or 16 bits first.")
    if image.mode == "La":  # Pillow cannot convert it to RGB directly
        image = image.convert("LA")
    return image.convert("RGB")


def _to_eight_bit(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.float32) * (255 / 65535) + 0.5).astype(np.uint8)


def _from_array(array: np.ndarray, where: str) -> Image.Image:
    shape = array.shape
    if array.dtype not in (np.uint8, np.uint16):
        raise TypeError(f"{where} is an array of {array.dtype}. Expected uint8 (0 to 255) or uint16 (0 to 65535).")
    if array.ndim == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
        raise ValueError(f"{where} has shape {shape}. Expected (H, W), or 1 or 3 channels before or after (H, W).")
    if array.size == 0:
        raise ValueError(f"{where} has shape {shape}. It must have at least one pixel.")
    return Image.fromarray(np.ascontiguousarray(array if array.dtype == np.uint8 else _to_eight_bit(array)))
