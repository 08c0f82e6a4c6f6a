"""Image preprocessing of SwinVED without torchvision.

For evaluation the shorter side is resized to 416 and the central 384 x 384 cut out, as in the release. Pixels are
scaled to 0..1 and normalised. EXIF orientation and DICOM windows are not applied.
"""

from typing import Any

import numpy as np
import torch
from PIL import Image

GREY_MODES = ("1", "L", "LA", "La", "I;16", "I;16L", "I;16B", "I;16N")
COLOR_MODES = ("RGB", "RGBA", "RGBX", "RGBa", "P", "PA", "CMYK", "YCbCr", "HSV", "LAB")
RANGE = "{where} is an array of {dtype}. Expected uint8 (0 to 255) or uint16 (0 to 65535)."


def to_eight_bit(image: Any, where: str) -> Image.Image:
    """Convert an image to mode L or RGB. Transparency is ignored, and 16 bits are scaled by 255 / 65535.

    Args:
        image: PIL image; uint8 or uint16 NumPy array or torch tensor (H, W), (H, W, channels) or (channels, H, W) with
            1 or 3 channels.
        where: name of the image in errors, such as "image 2 of study 0".

    Raises:
        TypeError: not an image.
        ValueError: no pixels, or pixels of unknown range.
        OSError: the image's file is damaged.
    """
    if isinstance(image, torch.Tensor):
        if image.dtype not in (torch.uint8, torch.uint16):
            raise ValueError(RANGE.format(where=where, dtype=image.dtype))
        image = image.detach().cpu().numpy()
    if isinstance(image, np.ndarray):
        image = _from_array(image, where)
    if isinstance(image, str):
        raise TypeError(
            f"{where} is the path {image!r}. Expected an image. Open it with Image.open, or load the dataset with "
            "image_root=FOLDER."
        )
    if not isinstance(image, Image.Image):
        raise TypeError(f"{where} is a {type(image).__name__}. Expected a PIL image, a NumPy array or a torch tensor.")
    if 0 in image.size:
        raise ValueError(f"{where} is {image.width} x {image.height} pixels. It must have at least one pixel.")
    try:
        image.load()  # reads the file
    except (OSError, SyntaxError, EOFError) as error:  # PIL raises SyntaxError for a broken PNG
        raise OSError(f"{where} cannot be read: its file is damaged or closed ({error}).") from error
    if image.mode.startswith("I;16"):
        values = np.asarray(image).astype(np.float32)
        return Image.fromarray((values * (255 / 65535) + 0.5).astype(np.uint8))
    if image.mode == "La":
        image = image.convert("LA")  # PIL cannot convert it to L directly
    if image.mode in GREY_MODES:
        return image.convert("L")
    if image.mode in COLOR_MODES:
        return image.convert("RGB")
    raise ValueError(f"{where} has mode {image.mode!r} of unknown range. Convert it to 8 or 16 bits first.")


def resize_and_crop(image: Image.Image, resize_size: int, image_size: int) -> Image.Image:
    """Resize the shorter side to `resize_size` and cut out the central square of `image_size`.

    The pixels are those of torchvision's Resize and CenterCrop on a PIL image, which the release uses.
    """
    width, height = image.size
    shorter = min(width, height)
    new_width, new_height = (int(resize_size * side / shorter) for side in (width, height))
    left, top = round((new_width - image_size) / 2), round((new_height - image_size) / 2)
    whole = image.resize((new_width, new_height), Image.Resampling.BILINEAR)
    return whole.crop((left, top, left + image_size, top + image_size))


def normalize(image: Image.Image, mean: list[float], std: list[float]) -> torch.Tensor:
    """Scale to 0..1 and normalise each channel. Returns (3, H, W) float32."""
    pixels = torch.from_numpy(np.array(image)).float() / 255
    pixels = pixels.expand(3, *pixels.shape) if pixels.ndim == 2 else pixels.permute(2, 0, 1)
    return (pixels - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]


def _from_array(array: np.ndarray, where: str) -> Image.Image:
    shape = array.shape
    if array.ndim == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
        raise ValueError(f"{where} has shape {shape}. Expected (H, W), or 1 or 3 channels before or after (H, W).")
    if array.size == 0:
        raise ValueError(f"{where} has shape {shape}. It must have at least one pixel.")
    if array.dtype.newbyteorder("=") == np.uint16:
        array = (array.astype(np.float32) * (255 / 65535) + 0.5).astype(np.uint8)
    if array.dtype != np.uint8:
        raise ValueError(RANGE.format(where=where, dtype=array.dtype))
    return Image.fromarray(np.ascontiguousarray(array))
