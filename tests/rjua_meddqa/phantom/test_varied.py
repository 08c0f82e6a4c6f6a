"""Varied pages: levels cover their ranges, annotations stay exact, and bad drafts get bad scores."""

import csv
from collections import Counter, defaultdict
from dataclasses import asdict, replace

import pytest

from rjua_meddqa.annotation.draft_check import check_draft
from rjua_meddqa.annotation.drafts import Draft
from rjua_meddqa.fonts import BUNDLED
from rjua_meddqa.phantom.folder import write_phantom
from rjua_meddqa.phantom.varied import ALL, DIFFICULTIES, RANGES, Variation, draw_varied_page
from rjua_meddqa.schema import MISSING

PAGES = 27


@pytest.fixture(scope="module")
def pages():
    return [draw_varied_page(3, number, [BUNDLED]) for number in range(1, PAGES + 1)]


def test_each_difficulty_has_its_pages_and_stays_in_its_range(pages):
    assert Counter(levels["difficulty"] for _, levels in pages) == dict.fromkeys(DIFFICULTIES, 3)
    neutral, seen = asdict(Variation()), defaultdict(set)
    for _, levels in pages:
        for name, value in neutral.items():
            low, high = RANGES[name]
            assert levels[name] == value or low <= levels[name] <= high
            seen[name].add(levels[name])
            if levels["difficulty"] not in (ALL, name) and name != "wrapping":
                assert levels[name] == value
    assert all(len(values) > 1 for values in seen.values())


def test_every_annotated_text_is_printed_inside_the_image(pages):
    for page, levels in pages:
        printed = Counter("".join(box.text for box in page.boxes).replace(" ", ""))
        values = [cell for row in page.annotation.table for cell in (row.item, row.result, row.range)]
        values += [value for _, value in page.annotation.key_values]
        text = "".join(value for value in values if value != MISSING).replace(" ", "")
        missing = Counter(text) - printed
        assert not missing, (levels, missing)
        width, height = page.image.size
        assert all(box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= height for box in page.boxes)
        assert len(page.boxes) == sum(map(len, page.lines))


def test_pages_depend_on_seed_and_number_only(pages):
    again, levels = draw_varied_page(3, 9, [BUNDLED])
    assert (again.boxes, levels) == (pages[8][0].boxes, pages[8][1])
    assert draw_varied_page(4, 9, [BUNDLED])[1] != levels


def test_shifted_rows_are_not_right(pages):
    """A draft with the results of the next row fails, and the annotation itself passes."""
    for page, _ in pages:
        rows = page.annotation.table
        pairs = list(zip(rows, rows[1:] + rows[:1], strict=True))
        shifted = tuple(replace(row, result=other.result) for row, other in pairs)
        equal = sum(row.result == other.result for row, other in pairs)
        assert check_draft(Draft((), rows), page.annotation).rows_with_range == len(rows)
        assert check_draft(Draft((), shifted), page.annotation).rows_with_range <= equal


def test_a_folder_records_the_levels(tmp_path):
    assert write_phantom(tmp_path, 3, seed=3, fonts=BUNDLED, varied=True)["complete"]
    with open(tmp_path / "difficulties.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["difficulty"] for row in rows] == list(DIFFICULTIES[1:4])
