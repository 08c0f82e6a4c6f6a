"""Training augmentation of the released SwinVED, with PIL and NumPy in place of albumentations.

Each step has probability 1/2: (1) shift by up to 0.0625 of the side, scale by 0.8 to 1.1 and rotate by up to 10
degrees, (2) a perspective warp whose corners move inwards by about 0.1 of the side, (3) after resizing to 416 and a
random crop of 384, change contrast and brightness by up to 0.2. Images are not mirrored, because answers name left and
right.

Uncovered corners are filled with 105 of 255. The release filled 8-bit images with the value 105/256, which is black.
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image

PROBABILITY = 0.5
SHIFT, SCALE, DEGREES, PERSPECTIVE, CONTRAST = 0.0625, (-0.2, 0.1), 10.0, 0.1, 0.2
FILL = 105


def augment(image: Image.Image, resize_size: int, image_size: int, rng: np.random.Generator) -> Image.Image:
    """Augment one L or RGB image.

    Args:
        image: image of any size.
        resize_size: side of the square that the warped image is resized to.
        image_size: side of the random crop.
        rng: source of all random choices.
    """
    if rng.random() < PROBABILITY:
        image = shift_scale_rotate(
            image,
            shift=rng.uniform(-SHIFT, SHIFT, 2).tolist(),
            scale=1 + rng.uniform(*SCALE),
            degrees=rng.uniform(-DEGREES, DEGREES),
        )
    if rng.random() < PROBABILITY:
        spread = rng.uniform(0, PERSPECTIVE)
        image = warp_perspective(image, np.minimum(np.abs(rng.normal(0, spread, (4, 2))), 0.4))
    image = image.resize((resize_size, resize_size), Image.Resampling.BILINEAR)
    left, top = rng.integers(0, resize_size - image_size + 1, 2)
    image = image.crop((left, top, left + image_size, top + image_size))
    if rng.random() < PROBABILITY:
        contrast, brightness = rng.uniform(-CONTRAST, CONTRAST, 2)
        pixels = np.asarray(image, dtype=np.float32) * (1 + contrast) + 255 * brightness
        image = Image.fromarray(np.clip(pixels + 0.5, 0, 255).astype(np.uint8))
    return image


def shift_scale_rotate(image: Image.Image, shift: Sequence[float], scale: float, degrees: float) -> Image.Image:
    """Turn counter-clockwise and scale about the centre, then move by fractions (right, down) of the sides."""
    width, height = image.size
    cos, sin = np.cos(np.deg2rad(degrees)) / scale, np.sin(np.deg2rad(degrees)) / scale
    # PIL takes the inverse map, from a pixel of the result to its source.
    x, y = width / 2 + shift[0] * width, height / 2 + shift[1] * height
    back = (cos, -sin, width / 2 - cos * x + sin * y, sin, cos, height / 2 - sin * x - cos * y)
    return _transform(image, Image.Transform.AFFINE, back)


def warp_perspective(image: Image.Image, insets: np.ndarray) -> Image.Image:
    """Stretch the quadrilateral whose corners lie `insets` inside the image's to the whole image.

    Args:
        insets: (4, 2) fractions (of width, of height) inwards: top left, top right, bottom right, bottom left.
    """
    width, height = image.size
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], float)
    inwards = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)])
    sources = corners + inwards * insets * (width, height)
    # Eight equations for the coefficients of x' = (ax + by + c) / (gx + hy + 1), y' = (dx + ey + f) / (gx + hy + 1).
    rows, values = [], []
    for (x, y), (u, v) in zip(corners, sources, strict=True):
        rows += [(x, y, 1, 0, 0, 0, -u * x, -u * y), (0, 0, 0, x, y, 1, -v * x, -v * y)]
        values += [u, v]
    return _transform(image, Image.Transform.PERSPECTIVE, tuple(np.linalg.solve(np.array(rows), np.array(values))))


def _transform(image: Image.Image, method: Image.Transform, back: tuple[float, ...]) -> Image.Image:
    fill = FILL if image.mode == "L" else (FILL, FILL, FILL)
    return image.transform(image.size, method, back, Image.Resampling.BILINEAR, fillcolor=fill)
