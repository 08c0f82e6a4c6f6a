"""Draws the raised digits that Noto Sans CJK lacks (10⁹/L) as smaller digits, raised; other text is drawn as it is.

Unicode has ¹ ² ³ in another block than the rest, and the font has those three and ⁴.
"""

import re
from pathlib import Path

from PIL import ImageDraw

from rjua_meddqa.fonts import load_font

_DIGITS = {"⁰": "0", "⁵": "5", "⁶": "6", "⁷": "7", "⁸": "8", "⁹": "9"}
_RUNS = re.compile(f"([{''.join(_DIGITS)}]+)")
_SIZE = 0.62  # of the other characters


def measure(text: str, font: Path, size: int) -> float:
    """Width of `text` in pixels."""
    return sum(load_font(font, piece_size).getlength(piece) for piece, piece_size in _pieces(text, size))


def draw_text(
    pen: ImageDraw.ImageDraw, x: float, y: float, text: str, font: Path, size: int, fill: int
) -> tuple[float, float, float, float]:
    """Draw `text` with its upper left corner at (x, y); returns its edges: left, top, right, bottom in pixels."""
    edges = []
    for piece, piece_size in _pieces(text, size):
        face = load_font(font, piece_size)
        # The upper edges of a figure and of the raised one beside it are level.
        dy = 0 if piece_size == size else load_font(font, size).getbbox("0")[1] - face.getbbox("0")[1]
        pen.text((x, y + dy), piece, font=face, fill=fill)
        edges.append(pen.textbbox((x, y + dy), piece, font=face))
        x += face.getlength(piece)
    lefts, tops, rights, bottoms = zip(*edges, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _pieces(text: str, size: int) -> list[tuple[str, int]]:
    """`text` in pieces of one size each."""
    if not _RUNS.search(text):
        return [(text, size)]
    return [
        (piece.translate(str.maketrans(_DIGITS)), round(size * _SIZE) if piece[0] in _DIGITS else size)
        for piece in _RUNS.split(text)
        if piece
    ]
