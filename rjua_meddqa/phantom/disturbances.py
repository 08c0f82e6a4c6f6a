"""Extras of hard pages: a scan with letters burned in, a stamp, rotated text in the margin."""

import random

from PIL import Image, ImageDraw, ImageFilter

from rjua_meddqa.fonts import load_font
from rjua_meddqa.phantom.sheet import MARGIN, Sheet

_BURNED_IN = (("L", "DR 12:30", "10cm"), ("R", "FR 45Hz", "MI 0.8"), ("LK", "D1 21.3mm", "TIs 0.4"))
_STAMPS = ("检验专用章", "诊断专用章", "报告专用章")
_MARGIN_TEXTS = ("第1页 共1页", "本报告仅对该标本负责", "NO.20230417-0853")


def put_scan(sheet: Sheet, width: int, size: int, draw: random.Random) -> list[tuple[float, float, str, int]]:
    """Put a dark picture to the right of the following text. Returns its letters as (x, y, word, size)."""
    height = round(width * draw.uniform(0.65, 0.9))
    noise = Image.frombytes("L", (width // 4, height // 4), draw.randbytes((width // 4) * (height // 4)))
    picture = noise.filter(ImageFilter.GaussianBlur(3)).resize((width, height)).point(lambda grey: grey * 2 // 3)
    left, top = sheet.width - MARGIN - width, sheet.y + size // 2
    sheet.picture(left, top, picture)
    words = draw.choice(_BURNED_IN)
    places = ((0.05, 0.06), (0.55, 0.45), (0.1, 0.8))
    return [(left + x * width, top + y * height, word, size - 2) for (x, y), word in zip(places, words, strict=True)]


def put_margin_text(sheet: Sheet, size: int, draw: random.Random) -> None:
    """Put a line that reads upwards into the left or the right margin."""
    text = draw.choice(_MARGIN_TEXTS)
    x = draw.choice((MARGIN // 4, sheet.width - MARGIN + MARGIN // 4))
    length = sheet.measure(text, size)
    sheet.vertical(x, max(MARGIN, draw.uniform(0.2, 0.7) * max(sheet.y - length, 0)), text, size)


def put_stamp(sheet: Sheet, top: int, size: int, draw: random.Random) -> None:
    """Put a round stamp over the lower half of the page, as pale as red ink in a grey image."""
    side = size * 7
    stamp = Image.new("L", (side, side), 255)
    pen = ImageDraw.Draw(stamp)
    pen.ellipse((4, 4, side - 5, side - 5), outline=0, width=5)
    pen.text((side / 2, side / 2), draw.choice(_STAMPS), font=load_font(sheet.font, size), fill=0, anchor="mm")
    stamp = stamp.rotate(draw.uniform(-25, 25), fillcolor=255, resample=Image.Resampling.BICUBIC)
    x = draw.uniform(0.3, 0.7) * sheet.width
    sheet.overlay(
        x, max(top, sheet.y - side * draw.uniform(0.9, 1.4)), stamp.point(lambda grey: 150 + grey * 105 // 255)
    )
