"""Radiograph JPEG (2544 x 3056, grey, quality 95) to a shorter side of 384 pixels: `read_film` against Pillow alone.

Pillow alone: open, convert to RGB, resize with the default filter. The time of entropy decoding grows with the size of
the file, so two films are measured: one of the size of an average MIMIC-CXR-JPG file (557.6 GB / 377,110 files =
1.5 MB), for which the target is set, and a noisy one of 3 MB.

Run: python benchmarks/images.py
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from timing import time_in_turn, write_result

from mimic_cxr_vqa.images import read_film

WIDTH, HEIGHT, SIZE, QUALITY = 2544, 3056, 384, 95
NOISE = {"average_film": 2.0, "noisy_film": 6.0}  # standard deviation in grey levels
TARGET = 3.0


def draw_film(noise: float, seed: int = 0) -> np.ndarray:
    """A chest-like film, uint8 (HEIGHT, WIDTH): dark lungs, bright heart and spine, ribs, and white noise."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    y, x = y / HEIGHT, x / WIDTH

    def blob(cx: float, cy: float, rx: float, ry: float) -> np.ndarray:
        return np.exp(-(((x - cx) / rx) ** 2) - ((y - cy) / ry) ** 2)

    film = 150 - 90 * (blob(0.3, 0.45, 0.15, 0.28) + blob(0.7, 0.45, 0.15, 0.28))
    film += 50 * blob(0.55, 0.6, 0.15, 0.15) + 40 * blob(0.5, 0.5, 0.06, 0.6)
    for rib in range(10):
        film += 8 * np.exp(-(((y - 0.15 - 0.07 * rib - 0.25 * (x - 0.5) ** 2) / 0.008) ** 2))
    film += np.random.default_rng(seed).normal(0, noise, film.shape)
    return film.clip(0, 255).astype(np.uint8)


def read_plainly(path: Path) -> np.ndarray:
    """The baseline: uint8 (461, SIZE, 3)."""
    with Image.open(path) as image:
        return np.array(image.convert("RGB").resize((SIZE, round(SIZE * HEIGHT / WIDTH))))


def compare(path: Path) -> dict[str, float]:
    """Times, ratios and pixel differences for one file."""
    seconds = time_in_turn(
        {
            "plain": lambda: read_plainly(path),
            "fast": lambda: np.array(read_film(path, SIZE)),
        },
        rounds=15,
    )
    plain = read_plainly(path)[..., 0].astype(int)
    figures = {f"{way}_ms": round(1000 * value, 1) for way, value in seconds.items()}
    difference = np.abs(np.array(read_film(path, SIZE)) - plain)
    figures["fast_ratio"] = round(seconds["plain"] / seconds["fast"], 2)
    figures["fast_max_difference"] = int(difference.max())
    figures["fast_mean_difference"] = round(float(difference.mean()), 3)
    return {"file_mb": round(path.stat().st_size / 1e6, 2), **figures}


def main() -> None:
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, noise in NOISE.items():
            path = Path(folder, f"{name}.jpg")
            Image.fromarray(draw_film(noise)).save(path, quality=QUALITY)
            film = figures[name] = compare(path)
            print(
                f"{name} ({film['file_mb']} MB): plain {film['plain_ms']} ms, fast {film['fast_ms']} ms = "
                f"{film['fast_ratio']}x (differs by at most {film['fast_max_difference']}, on average "
                f"{film['fast_mean_difference']} grey levels)"
            )
    ratio = figures["average_film"]["fast_ratio"]
    print(f"ratio {ratio}x, target {TARGET}x: {'reached' if ratio >= TARGET else 'MISSED'}")
    write_result("images", {"films": figures, "ratio": ratio, "target": TARGET})


if __name__ == "__main__":
    main()
