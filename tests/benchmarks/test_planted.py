"""Planted errors: each kind is an error, is found on synthetic pages read without fault, and alarms are counted."""

import random

import planted
import pytest
from planted import PLANTS, Tally, measure_planted

from rjua_meddqa.annotation.page_check import page_text
from rjua_meddqa.fonts import find_font
from rjua_meddqa.phantom import page as page_module
from rjua_meddqa.restoration.page_layout import lay_out


@pytest.fixture(scope="module")
def pages():
    """Twenty-six hard pages as they are printed, before any camera: what is found here is not the reader's doing."""
    font = find_font()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "photograph", lambda image, boxes, *_: (image, boxes, "high"))
        return [page_module.draw_page(612, number, [font], True) for number in range(1, 27)]


def test_every_kind_of_planted_error_is_found(pages):
    tallies = measure_planted((page.annotation, page_text(lay_out(page.boxes))) for page in pages)
    assert set(tallies) == set(PLANTS)
    for name, tally in tallies.items():
        # Letters burned into scans, which restoration moves aside, are in the text here.
        assert tally.planted >= 12 and tally.recall >= 0.9 and tally.precision >= 0.8, (name, tally)


def test_a_planted_annotation_differs_in_what_it_says_only_where_it_says_so(pages):
    for page in pages:
        for name, plant in PLANTS.items():
            done = plant(page.annotation, random.Random(name))
            if done is None:
                continue
            annotation, where, _ = done
            values = [n for n, pair in enumerate(annotation.key_values, 1) if pair != page.annotation.key_values[n - 1]]
            assert [f"kv {n}" for n in values] == ([where] if where.startswith("kv") else [])
            if where.startswith("table"):
                assert annotation.table != page.annotation.table, name


def test_a_check_that_says_nothing_or_everything_scores_badly(pages, monkeypatch):
    sheet = [(pages[0].annotation, page_text(lay_out(pages[0].boxes)))]

    class Report:
        findings = ()

    monkeypatch.setattr(planted, "check_annotations", lambda *_: Report())
    assert sum(measure_planted(sheet).values(), Tally()).recall == 0

    class Everything:
        findings = tuple(type("Finding", (), {"where": f"kv {n}", "message": ""})() for n in range(1, 30))

    monkeypatch.setattr(planted, "check_annotations", lambda *_: Everything())
    assert measure_planted(sheet)["wrong date"].precision < 0.1
