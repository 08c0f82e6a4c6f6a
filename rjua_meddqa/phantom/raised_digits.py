"""Draws the superscript digits that Noto Sans CJK lacks (10⁹/L) as small raised digits.

The font has ¹, ², ³ and ⁴.
"""

import re
from pathlib import Path

from PIL import ImageDraw

from rjua_meddqa.fonts import load_font

_DIGITS = {"⁰": "0", "⁵": "5", "⁶": "6", "⁷": "7", "⁸": "8", "⁹": "9"}
_TO_PLAIN = str.maketrans("".join(_DIGITS), "".join(_DIGITS.values()))
_RUNS = re.compile(f"([{''.join(_DIGITS)}]+)")
_SIZE = 0.62  # of the other characters


def measure(text: str, font: Path, size: int) -> float:
    """Width of `text` in pixels."""
    return sum(load_font(font, piece_size).getlength(piece) for piece, piece_size in _pieces(text, size))


def draw_text(
    pen: ImageDraw.ImageDraw, x: float, y: float, text: str, font: Path, size: int, fill: int
) -> tuple[float, float, float, float]:
    """Draw `text` at (x, y), its upper left corner. Returns its left, top, right and bottom edge in pixels."""
    edges = []
    for piece, piece_size in _pieces(text, size):
        face = load_font(font, piece_size)
        # Align the upper edges of normal and raised digits.
        dy = 0 if piece_size == size else load_font(font, size).getbbox("0")[1] - face.getbbox("0")[1]
        pen.text((x, y + dy), piece, font=face, fill=fill)
        edges.append(pen.textbbox((x, y + dy), piece, font=face))
        x += face.getlength(piece)
    lefts, tops, rights, bottoms = zip(*edges, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _pieces(text: str, size: int) -> list[tuple[str, int]]:
    """Split `text` into (text, size)."""
    if not _RUNS.search(text):
        return [(text, size)]
    return [
        (piece.translate(_TO_PLAIN), round(size * _SIZE) if piece[0] in _DIGITS else size)
        for piece in _RUNS.split(text)
        if piece
    ]
