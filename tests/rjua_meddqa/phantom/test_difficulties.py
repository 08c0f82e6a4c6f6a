"""Hard pages: difficulties, exact annotations and true texts."""

import csv
import random
import re
from collections import Counter

import pytest

from medvqa_core.errors import ConfigError
from rjua_meddqa.fonts import find_font, find_fonts
from rjua_meddqa.phantom.difficulties import CLINICAL_ONLY, LABORATORY_ONLY, Difficulty, draw_difficulties
from rjua_meddqa.phantom.folder import write_phantom
from rjua_meddqa.phantom.hard_report import draw_hard_report
from rjua_meddqa.phantom.page import draw_page
from rjua_meddqa.phantom.sheet import Sheet
from rjua_meddqa.schema import HIGH, LABORATORY, LOW, MISSING, NORMAL, UNDECIDED

NUMBERS = r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)"


@pytest.fixture(scope="module")
def font():
    return find_font()


def hard_reports(flag, count=120):
    return [draw_hard_report(random.Random(f"{flag} {number}"), {flag}) for number in range(count)]


def test_every_difficulty_has_its_pages_and_none_two_kinds_of_report():
    drawn = [draw_difficulties(random.Random(number), number) for number in range(130)]
    counts = Counter(flag for flags in drawn for flag in flags)
    assert set(counts) == set(Difficulty) and min(counts.values()) >= 10
    assert all(1 <= len(flags) <= 3 for flags in drawn)
    assert not any(flags & set(LABORATORY_ONLY) and flags & set(CLINICAL_ONLY) for flags in drawn)


def test_a_verdict_by_groups_is_that_of_the_patients_own_group():
    """Recompute the verdict from the printed limits, sex and age."""
    seen = Counter()
    for report in hard_reports(Difficulty.GROUPS):
        header = dict(report.header)
        age = int(header["年龄"].removesuffix("岁"))
        for row in report.table:
            limits = [(float(low), float(high)) for low, high in re.findall(NUMBERS, row.range.replace("0-100岁", ""))]
            if "岁" in row.range:
                border = int((re.search(r"<(\d+)岁", row.range) or re.search(r"(\d+)-100岁", row.range))[1])
                limits = [(float(a), float(b)) for a, b in re.findall(NUMBERS, re.sub(r"\d+-\d+岁", "", row.range))]
                own = limits[:1] if age < border else limits[1:]
            elif "男" in row.range:
                own = limits[:1] if header["性别"] == "男" else limits[1:]
            elif "期" in row.range:
                own = limits
            else:
                continue
            value = float(row.result)
            verdicts = {HIGH if value > high else LOW if value < low else NORMAL for low, high in own}
            expected = verdicts.pop() if len(verdicts) == 1 else UNDECIDED
            assert row.is_normal == expected, (row, header["性别"], age)
            seen[expected] += 1
    assert set(seen) >= {HIGH, LOW, NORMAL} and seen.total() > 200


def test_units_come_in_many_spellings_and_never_touch_the_ranges_last_digit():
    units = Counter()
    for report in hard_reports(Difficulty.UNIT_COLUMN):
        for row, unit in zip(report.table, report.units, strict=True):
            if unit[:1].isdigit():
                assert row.range.endswith(f" {unit}")
            if "L" in unit and "10" in unit:
                units[unit] += 1
    assert len(units) >= 15


def test_keys_without_a_colon_are_printed_without_one(font):
    page = next(p for n in range(1, 60) if Difficulty.NO_COLON in (p := draw_page(3, n, font, True)).difficulties)
    keys = [key for key, _ in page.report.header if key != "姓名"]
    texts = [box.text for box in page.boxes]
    assert all(key in texts for key in keys)


def test_a_wrapped_cell_keeps_its_numbers_whole(font):
    sheet = Sheet(500, font)
    assert sheet.wrap_cell("<18岁 130-175 ≥18岁 143-219", 20, 110) == ["<18岁 130-", "175 ≥18岁", "143-219"]
    assert "".join(sheet.wrap_cell("低密度脂蛋白胆固醇(LDL-C)", 20, 100)) == "低密度脂蛋白胆固醇(LDL-C)"


def test_true_lines_hold_every_printed_piece_once(font):
    for number in range(1, 14):
        page = draw_page(5, number, font, True)
        assert Counter(text for line in page.lines for text in line) == Counter(box.text for box in page.boxes)
        width, height = page.image.size
        for box in page.boxes:
            assert box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= height, (number, box.text)


def test_every_printed_word_of_a_hard_annotation_is_on_the_page(font):
    for number in range(1, 14):
        page = draw_page(6, number, font, True)
        text = "".join("".join(line) for line in page.lines).replace(" ", "")
        apart = Counter("".join(text for line in page.lines for text in line).replace(" ", ""))
        for row in page.annotation.table:
            for value in (row.item, row.result, row.range):
                assert value == MISSING or not Counter(value.replace(" ", "")) - apart, (number, value)
        for _, value in page.annotation.key_values:
            assert value == MISSING or "".join(value.split()) in text, (number, value)
        assert bool(page.annotation.table) == (page.annotation.report_type == LABORATORY)


def test_a_hard_folder_names_its_difficulties_and_holds_the_true_text(font, tmp_path):
    manifest = write_phantom(tmp_path, 4, seed=9, hard=True)
    assert manifest["phantom"]["hard"] and manifest["complete"]
    with open(tmp_path / "difficulties.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    fonts = find_fonts()
    for number, row in enumerate(rows, start=1):
        page = draw_page(9, number, fonts, True)
        assert row == {"img_path": page.annotation.img_path, "difficulties": ";".join(sorted(page.difficulties))}
        stem = page.annotation.img_path.partition(".")[0]
        lines = (tmp_path / "texts" / f"{stem}.txt").read_text(encoding="utf-8").splitlines()
        assert tuple(tuple(line.split("\t")) for line in lines) == page.lines
    with pytest.raises(ConfigError, match="other parameters"):
        write_phantom(tmp_path, 4, seed=9)
