"""Agreement: the paper's Table 3, coefficients by hand, missing ratings, rating sheets of both shapes, the command."""

import json
import random
from itertools import permutations

import numpy as np
import pytest

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics.agreement import COEFFICIENTS, measure_agreement
from medvqa_core.metrics.agreement_table import format_agreement, measure_sheet
from medvqa_core.metrics.ratings import KNOWN_ORDERS, parse_order, read_ratings
from medvqa_hub.cli import run

# fleiss_kappa, ac1, ac2, ac1_published, ac2_published
TABLE_3 = {
    "correctness": (0.2843, 0.9443, 0.9443, 0.9443, 0.9443),
    "consistency": (0.3291, 0.7778, 0.9255, 0.7417, 0.8953),
    "completeness": (0.3720, 0.7410, 0.8962, 0.6851, 0.8586),
    "relevance": (0.3395, 0.8479, 0.9227, 0.8312, 0.8858),
}


def table(*items: str) -> dict:
    """`table("abb", "a.b")`: one string an item, one letter a rater, "." for a missing rating."""
    return {(rater, item): c for item, row in enumerate(items) for rater, c in enumerate(row) if c != "."}


def test_reproduces_every_figure_of_table_3(real_data):
    measured = measure_sheet(read_ratings(real_data / "agreement" / "ratings.csv"), resamples=0)
    assert list(measured) == list(TABLE_3)
    for dimension, expected in TABLE_3.items():
        found = measured[dimension]
        assert tuple(round(getattr(found, name), 4) for name in COEFFICIENTS) == expected, dimension
        assert (found.items, found.raters, found.ratings, found.items_rated_twice) == (100, 4, 400, 100)


def test_three_ordered_categories_by_hand():
    # weights 1, 3/4, 0; pairs: aa 1, ab 3/4, ac 0; p = 4/6, 1/6, 1/6
    found = measure_agreement(table("aa", "ab", "ac"), "abc")
    po, p = (1 + 3 / 4 + 0) / 3, np.array([4, 1, 1]) / 6
    w = np.array([[1, 3 / 4, 0], [3 / 4, 1, 3 / 4], [0, 3 / 4, 1]])
    spread = (p * (1 - p)).sum()
    assert found.weighted_agreement == pytest.approx(po) and found.raw_agreement == pytest.approx(1 / 3)
    chance = {
        "fleiss_kappa": p @ w @ p,
        "ac2": w.sum() / 6 * spread,
        "ac2_published": (p @ w @ (1 - p)) / 2,
    }
    for name, pe in chance.items():
        assert getattr(found, name) == pytest.approx((po - pe) / (1 - pe)), name
    assert found.ac1 == pytest.approx((1 / 3 - spread / 2) / (1 - spread / 2))
    assert found.ac1_published == pytest.approx((1 / 3 - spread) / (1 - spread))


def test_missing_ratings_follow_gwet():
    # item 3 has one rating: it counts for the shares of categories, not for the agreement
    found = measure_agreement(table("aab", "a.a", "bbb", ".b."), "ab")
    po = (1 / 3 + 1 + 1) / 3
    share = (2 / 3 + 1 + 0 + 0) / 4
    spread = 2 * share * (1 - share)
    assert (found.items, found.items_rated_twice, found.raters, found.ratings) == (4, 3, 3, 9)
    assert found.raw_agreement == pytest.approx(po)
    assert found.ac1 == pytest.approx((po - spread) / (1 - spread))
    assert found.fleiss_kappa == pytest.approx((po - (1 - spread)) / spread)


def agree_by_counting_pairs(ratings: dict, order: str, weight) -> dict[str, float]:
    """Gwet's definitions, pair by pair; `weight` of two codes."""
    codes, items = range(len(order)), {}
    for (_, item), category in ratings.items():
        items.setdefault(item, []).append(order.index(category))
    share = [sum(given.count(k) / len(given) for given in items.values()) / len(items) for k in codes]

    def observe(weight) -> float:
        of_items = [[weight(*pair) for pair in permutations(given, 2)] for given in items.values() if len(given) > 1]
        return sum(sum(pairs) / len(pairs) for pairs in of_items) / len(of_items)

    q, spread = len(order), sum(p * (1 - p) for p in share)
    all_weights = sum(weight(k, m) for k in codes for m in codes)
    raw, weighted = observe(lambda k, m: float(k == m)), observe(weight)
    chance = {
        "fleiss_kappa": (weighted, sum(weight(k, m) * share[k] * share[m] for k in codes for m in codes)),
        "ac1": (raw, spread / (q - 1)),
        "ac2": (weighted, all_weights * spread / (q * (q - 1))),
    }
    return {name: (po - pe) / (1 - pe) for name, (po, pe) in chance.items() if pe < 1 - 1e-12}


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        ("quadratic", lambda k, m: 1 - (k - m) ** 2 / 9),
        ("linear", lambda k, m: 1 - abs(k - m) / 3),
        ("identity", lambda k, m: float(k == m)),
    ],
)
def test_equals_counting_pairs_with_many_missing_ratings(name, weight):
    draw = random.Random(6)
    for _ in range(100):
        ratings = {(r, i): draw.choice("abcd") for r in range(5) for i in range(7) if draw.random() < 0.5}
        found = measure_agreement(ratings, "abcd", name, resamples=0)
        expected = agree_by_counting_pairs(ratings, "abcd", weight)
        assert {key: getattr(found, key) for key in expected} == pytest.approx(expected)


def test_where_all_ratings_are_equal_kappa_is_undefined_and_ac1_is_one():
    found = measure_agreement(table("aaa", "aaa"), "ab", resamples=50)
    assert found.fleiss_kappa is None and found.ac1 == 1 and found.ac2 == 1
    assert found.intervals["fleiss_kappa"] is None and found.intervals["ac1"] == (1.0, 1.0)
    assert "undefined" in format_agreement({"x": found})


def test_intervals_hold_the_value_and_are_seeded():
    draw = random.Random(5)
    ratings = {(r, i): "a" if draw.random() < 0.7 + 0.2 * (i % 2) else "b" for r in range(3) for i in range(60)}
    found, again = (measure_agreement(ratings, "ab", resamples=400) for _ in range(2))
    assert found == again
    for name in COEFFICIENTS:
        low, high = found.intervals[name]
        assert low < getattr(found, name) < high < low + 0.8
    assert measure_agreement(ratings, "ab", resamples=0).intervals == {}


@pytest.mark.parametrize(
    ("ratings", "order", "error", "message"),
    [
        ({}, "ab", InputError, "quality: .*two ratings"),
        (table("a.", ".b"), "ab", InputError, "two ratings"),
        (table("ac"), "ab", InputError, "rater 1, item 0: category 'c'.*a, b"),
        (table("aa"), "aa", ConfigError, "twice"),
        (table("aa"), "a", ConfigError, "needs at least 2"),
    ],
)
def test_bad_ratings(ratings, order, error, message):
    with pytest.raises(error, match=message):
        measure_agreement(ratings, order, dimension="quality")


WIDE = """rater,number,correctness,completeness,comment
h1,1,Correct,Complete Answer,fine
h2,1, correct ,Partially Complete,
h1,2,Incorrect,,
h2,2,Correct,Complete,ok
"""
LONG = """Dimension,rater,item,Rating
correctness,h1,1,Correct
correctness,h2,1,Correct
correctness,h1,2,Incorrect
correctness,h2,2,Correct
completeness,h1,1,Complete
completeness,h2,1,Partially Complete
completeness,h2,2,Complete Answer
style,h2,2,good
"""


def test_wide_and_long_sheets_say_the_same(tmp_path):
    wide_text = WIDE.replace(",ok\n", ",ok,,\n")  # empty cells beyond the last column, as spreadsheets write them
    (tmp_path / "wide.csv").write_text("\ufeff" + wide_text, encoding="utf-8")
    (tmp_path / "long.csv").write_text(LONG)
    wide, long = (read_ratings(tmp_path / name) for name in ("wide.csv", "long.csv"))
    assert wide.ratings == long.ratings and wide.orders == long.orders
    assert wide.ratings["completeness"]["h1", "1"] == "Complete" and ("h1", "2") not in wide.ratings["completeness"]
    assert (wide.ignored, long.ignored) == (["comment"], ["style"])
    assert wide.orders["correctness"] == KNOWN_ORDERS["correctness"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "columns rater and item"),
        ("rater,correctness\nh,Correct\n", "columns rater and item"),
        ("rater,item,correctness\n", "no column is a rating dimension"),
        ("rater,item,style\nh,1,good\n", "--order .* for style"),
        (
            "rater,item,correctness\nh,1,Maybe\n",
            r"line 2, correctness: .*'Maybe'.*Incorrect",
        ),
        (
            "rater,item,correctness\nh,1,Correct\nh,1,Correct\n",
            "line 3: rater 'h'.*item '1'",
        ),
        ("rater,item,correctness\n,1,Correct\n", "line 2: rater or item is empty"),
        ("rater,item,correctness\nh,1,\n", "no column is a rating dimension"),
        ("rater,item,correctness, Correctness\nh,1,Correct,Incorrect\n", "'correctness'"),
        ("rater,item,comment,correctness\nh,1,fine, I think,Correct\n", "line 2: more cells than columns"),
    ],
)
def test_bad_sheets(text, message, tmp_path):
    (tmp_path / "ratings.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_ratings(tmp_path / "ratings.csv")


def test_orders():
    assert parse_order("Quality= poor, fair ,good") == ("quality", ("poor", "fair", "good"))
    for text in ("quality", "quality=good", "=a,b", "quality=a,,b"):
        with pytest.raises(ConfigError, match="worst"):
            parse_order(text)


def test_the_command_prints_four_decimals_and_writes_json(tmp_path, capsys):
    (tmp_path / "ratings.csv").write_text(WIDE)
    out = tmp_path / "out" / "agreement.json"
    arguments = ["cxr", "agreement", str(tmp_path / "ratings.csv"), "--resamples", "0"]
    assert run([*arguments, "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    row = next(line.split() for line in printed.splitlines() if line.startswith("correctness"))
    record = json.loads(out.read_text())["dimensions"]["correctness"]
    assert row == ["correctness", "2", "2", "0.5000", *(f"{record[name]:.4f}" for name in COEFFICIENTS)]
    assert "ignored" in printed and "comment" in printed
    assert (
        run([*arguments, "--order", "comment=fine,ok", "--weights", "identity"]) == 1
    )  # its items have one rating each
    assert "comment: no item has two ratings" in capsys.readouterr().err
    assert run([*arguments, "--order", "comment"]) == 1
    assert "worst" in capsys.readouterr().err
    assert run(["cxr", "agreement", str(tmp_path / "none.csv")]) == 1
    assert "No such file" in capsys.readouterr().err
