"""Tall strips read in tiles: every line of text once, whole, in its place, whatever the borders of the tiles cut."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meddqa_words import SIZE, WORDS, WordEngine, draw_words
from PIL import Image, ImageDraw, ImageFont

from rjua_meddqa.restoration.esra import restore
from rjua_meddqa.restoration.ocr import RapidOcrEngine
from rjua_meddqa.restoration.rectify import rectify
from rjua_meddqa.restoration.tiles import OVERLAP, find_cut, is_strip, join, read_strip, tile_rows
from rjua_meddqa.schema import Box


def box(text, left, top, right, bottom):
    return Box(((left, top), (right, top), (right, bottom), (left, bottom)), text)


@given(st.integers(300, 3000), st.integers(1, 40_000))
def test_tiles_cover_the_strip_and_overlap(tile, more):
    height = tile + more
    rows = tile_rows(height, tile)
    assert rows[0][0] == 0 and rows[-1][1] == height
    assert all(bottom - top == tile for top, bottom in rows)
    assert all(before[1] - after[0] >= tile // OVERLAP - 1 for before, after in zip(rows, rows[1:], strict=False))
    assert len(rows) <= 2 + height / (tile - tile // OVERLAP)


@pytest.mark.parametrize(
    ("size", "strip"),
    [((1080, 12_000), True), ((1080, 2400), False), ((500, 1800), False), ((12_000, 1080), False), ((600, 2001), True)],
)
def test_what_a_strip_is(size, strip):
    assert is_strip(size, 2000) is strip


def test_the_cut_runs_between_lines_nearest_to_the_middle():
    lines = [box("a", 0, 80, 9, 110), box("b", 0, 120, 9, 160), box("c", 0, 164, 9, 190), box("d", 0, 195, 9, 230)]
    assert find_cut(lines, 100, 200) == 162
    assert find_cut([], 100, 200) == 150
    assert find_cut([box("tall", 0, 0, 9, 300), *lines], 100, 200) == 162


def test_a_text_that_both_tiles_show_is_taken_once():
    # No level cut is free: the columns are shifted. Rows 100 to 200 are in both tiles.
    upper = [
        box("a", 0, 90, 50, 130),
        box("b", 0, 135, 50, 175),
        box("c", 60, 110, 90, 150),
        box("?", 60, 180, 90, 200),
    ]
    lower = [
        box("?", 0, 100, 50, 130),
        box("b", 0, 136, 50, 174),
        box("c", 60, 111, 90, 151),
        box("d", 60, 160, 90, 205),
    ]
    joined = join(upper, lower, 100, 200)
    assert sorted(found.text for found in joined) == ["a", "b", "c", "d"]
    assert upper[0] in joined and lower[3] in joined  # whole, not cut


class LineEngine:
    """Knows the lines of a strip by their pixels' number; text that the tile's border cuts becomes a question mark."""

    def __init__(self, lines):
        self.lines = lines

    def read(self, image: Image.Image) -> list[Box]:
        top = image.getpixel((0, 0))
        found = []
        for line in self.lines:
            start, end = max(line.top - top, 0), min(line.bottom - top, image.height)
            if end - start >= 4:
                text = line.text if end - start == line.height else "?"
                found.append(box(text, line.left, start, line.right, end))
        return found


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(8, 40), st.integers(0, 3)), min_size=1, max_size=120))
def test_every_line_is_read_once_and_whole(gaps):
    lines, y = [], 5
    for number, (gap, height, column) in enumerate(gaps):
        y += gap
        lines.append(box(f"line{number}", 10 + 20 * column, y, 80, y + height))
        y += height
    strip = Image.new("I", (100, max(y + 5, 401)))
    for row in range(strip.height):
        strip.putpixel((0, row), row)  # a tile can tell where it begins
    found = read_strip(strip, LineEngine(lines).read, 400)
    assert sorted(found, key=lambda line: line.top) == lines


def test_a_stitched_page_of_words():
    strip = Image.new("RGB", (SIZE[0], 5 * SIZE[1]), "white")
    for number in range(5):
        strip.paste(draw_words(), (0, number * SIZE[1]))

    class Tiled(WordEngine):
        def read(self, image):
            return read_strip(image, super().read, 700) if is_strip(image.size, 700) else super().read(image)

    page = rectify(strip, Tiled())
    assert Counter(found.text for found in page.boxes) == Counter(WORDS * 5)
    assert restore(page.boxes).text.split() == WORDS * 5
    whole = {(found.text, round(found.top)): found for found in WordEngine().read(strip)}
    for found in page.original_boxes:
        expected = whole[found.text, round(found.top)]
        assert sum(found.points, ()) == pytest.approx(sum(expected.points, ()))


@pytest.mark.slow
def test_rapidocr_reads_a_long_screenshot():
    strip = Image.new("RGB", (400, 2500), "white")
    draw, font = ImageDraw.Draw(strip), ImageFont.load_default(size=24)
    lines = [f"Line {1000 + 37 * number}" for number in range(41)]
    for number, line in enumerate(lines):
        draw.text((30 + 150 * (number % 2), 20 + 60 * number), line, fill="black", font=font)
    found = restore(RapidOcrEngine(max_side=800).read(strip)).text.split("\n")
    assert [line.replace(" ", "") for line in found] == [line.replace(" ", "") for line in lines]
