"""Table 3: percentages, corrected rates and confusion by hand; the paper's digits; what it refuses."""

import csv
import json

import pytest
from builds import build_release

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.json_files import write_json
from medvqa_hub.cli import run
from mimic_cxr_vqa.judging.dimensions import BEST, DIMENSIONS
from mimic_cxr_vqa.judging.review import KeyEntry, open_review
from mimic_cxr_vqa.judging.rule_judge import RuleJudge
from mimic_cxr_vqa.judging.run_judge import judge_sample
from mimic_cxr_vqa.judging.table3 import People, _measure, measure_table3
from mimic_cxr_vqa.judging.table3_text import format_table3
from mimic_cxr_vqa.judging.verdicts import Sample, sampled_verdicts
from mimic_cxr_vqa.release import open_release

WORST = {name: dimension.categories[0] for name, dimension in DIMENSIONS.items()}
CORRECTNESS, COMPLETENESS = DIMENSIONS["correctness"], DIMENSIONS["completeness"]


def people(truths, judged, judge=None, probability=1.0, raters=3):
    """Raters who all say `truths` (item -> verdict)."""
    key = {item: KeyEntry(item, f"q{item}", n, "x", 1.0) for n, item in enumerate(truths)}
    if callable(probability):
        key = {item: KeyEntry(item, f"q{item}", n, "x", probability(item)) for n, item in enumerate(truths)}
    return People({f"rater-{n}": truths for n in range(raters)}, key, judged, judge)


def test_corrected_rates_by_hand():
    """Judge: 90 of 100 correct. People agree with 9 of 10 of those and with 3 of 5 of the others."""
    large = [(n % 20, BEST if n < 90 else WORST) for n in range(100)]
    judged = {f"{n:02}": BEST if n < 10 else WORST for n in range(15)}
    truths = {item: dict(verdict) for item, verdict in judged.items()}
    truths["00"], truths["10"], truths["11"] = dict(WORST), dict(BEST), dict(BEST)
    found = _measure(CORRECTNESS, large, people(truths, judged), resamples=0)
    row = found["large_scale"]["Correct"]
    assert (row["count"], row["share"]) == (90, 0.9) and row["low"] < 0.9 < row["high"]
    assert row["corrected"]["rate"] == pytest.approx(0.9 * 9 / 10 + 0.1 * 2 / 5)
    assert row["corrected"]["low"] < row["corrected"]["rate"] < row["corrected"]["high"]
    wrong = found["large_scale"]["Incorrect"]["corrected"]["rate"]
    assert row["corrected"]["rate"] + wrong == pytest.approx(1)
    against = found["against_people"]
    assert against["confusion"] == {
        "Incorrect": {"Incorrect": 3, "Correct": 1},
        "Correct": {"Incorrect": 2, "Correct": 9},
    }
    assert against["sensitivity"] == 9 / 11 and against["specificity"] == 3 / 4


def test_a_stratified_sample_is_weighted_back():
    """1 of 90 flawless and 1 of 2 flawed answers drawn: shares weigh 90 to 2; kinds keep the strata apart."""
    thin = BEST | {"relevance": "Non-essential but Correct"}  # flawed, but complete
    large = [(n, BEST) for n in range(90)] + [(90, thin), (91, thin)]
    truths, judged = {"a": BEST, "b": WORST}, {"a": BEST, "b": thin}
    sample = people(truths, judged, "rules", probability=lambda item: 1 / 90 if item == "a" else 1 / 2)
    found = _measure(COMPLETENESS, large, sample, resamples=0)
    assert found["people"]["rater-0"]["Complete"] == pytest.approx(90 / 92)
    assert found["large_scale"]["Complete"]["share"] == 1.0  # the judge finds all of them complete
    assert found["large_scale"]["Complete"]["corrected"]["rate"] == pytest.approx(90 / 92)


def test_people_s_truth_is_the_middle_the_worse_of_two():
    ratings = {
        "r1": {"a": BEST, "b": BEST},
        "r2": {"a": WORST, "b": BEST | {"completeness": "Partially Complete"}},
        "r3": {"b": WORST},
    }
    assert People(ratings, {}, {}, None).truth(COMPLETENESS) == {"a": "Incomplete", "b": "Partially Complete"}


def rate_all(review, verdict_of):
    for rater in review.raters:
        review.save_ratings(rater, {item.item: verdict_of(rater, item.item) for item in review.items})


@pytest.fixture
def built(tmp_path):
    build = build_release(tmp_path, studies=12)
    assert run(["cxr", "judge", "--out", str(build.workspace.root)]) == 0
    return build.workspace


def test_the_table_from_the_command_line_into_the_release_and_its_statistics(built, capsys):
    out = str(built.root)
    assert run(["cxr", "table3", "--out", out, "--resamples", "20"]) == 0
    said = capsys.readouterr().out
    assert "rates are not corrected" in said and "NOT INDEPENDENT" in said
    assert run(["cxr", "review", "export", "--out", out, "--items", "30", "--raters", "2"]) == 0
    rate_all(open_review(built.review), lambda rater, item: WORST if item == "item-001" else BEST)
    assert run(["cxr", "table3", "--out", out, "--resamples", "20"]) == 0
    said = capsys.readouterr().out
    assert "corrected" in said and "V2" in said and "kappa" in said and "30 items, simple random" in said
    first = built.table3.read_bytes()
    assert run(["cxr", "table3", "--out", out, "--resamples", "20"]) == 0 and built.table3.read_bytes() == first
    found = json.loads(first)
    assert found["dimensions"]["correctness"]["people"]["rater-1"]["Incorrect"] == pytest.approx(1 / 30)
    assert run(["cxr", "release", "--out", out]) == 0
    assert open_release(built.release).manifest["validation"] == found
    capsys.readouterr()
    assert run(["cxr", "stats", "--data", out]) == 0
    assert "Table 3" in capsys.readouterr().out
    write_json(built.table3, found | {"answers": "of earlier ones"})
    assert run(["cxr", "release", "--out", out]) == 0
    assert "validation" not in open_release(built.release).manifest


def test_what_it_refuses(built, tmp_path):
    out = str(built.root)
    assert run(["cxr", "review", "export", "--out", out, "--items", "20", "--stratify", "rules"]) == 0
    review = open_review(built.review)
    rate_all(review, lambda rater, item: BEST)

    class Other(RuleJudge):
        name = "other"

    judge_sample(built, Other(), Sample(1000, 0))
    with pytest.raises(ConfigError, match="other, rules.*--judge"):
        measure_table3(built)
    with pytest.raises(ConfigError, match="--judge rules"):
        measure_table3(built, "other")
    path = built.review / "items.json"
    path.write_text(path.read_text().replace('"answer": "', '"answer": "Edited. ', 1))
    with pytest.raises(InputError, match="Export a new review sample"):
        measure_table3(built, "rules")
    empty = build_release(tmp_path / "empty", studies=2).workspace
    with pytest.raises(InputError, match="Run: medvqa-hub cxr judge"):
        measure_table3(empty)


def test_the_paper_s_four_verifiers(real_data, built):
    """V1 = human3, V2 = human2, V3 = human1, V4 = llm: the percentages and coefficients that Table 3 prints."""
    assert run(["cxr", "review", "export", "--out", str(built.root), "--items", "100", "--raters", "3"]) == 0
    review = open_review(built.review)
    said = {}
    with (real_data / "agreement" / "ratings.csv").open() as file:
        for row in csv.DictReader(file):
            verdict = {name: row[name].replace("Complete Answer", "Complete") for name in DIMENSIONS}
            said.setdefault(row["rater"], {})[f"item-{int(row['number']):03}"] = verdict
    raters = {"V1": said["human3"], "V2": said["human2"], "V3": said["human1"]}
    sample = People(raters, review.key(), said["llm"], None)
    expected = {  # V1, V2, V3, V4 in percent, and kappa, AC1, AC2
        ("correctness", "Correct"): (92, 98, 96, 99),
        ("consistency", "Fully Consistent"): (90, 91, 71, 92),
        ("consistency", "Partially Consistent"): (8, 7, 27, 7),
        ("completeness", "Complete"): (70, 88, 88, 83),
        ("relevance", "Essential"): (90, 95, 95, 81),
        ("relevance", "Incorrect and Misleading"): (7, 2, 4, 2),
    }
    coefficients = {
        "correctness": (0.2843, 0.9443, 0.9443),
        "consistency": (0.3291, 0.7417, 0.8953),
        "completeness": (0.3720, 0.6851, 0.8586),
        "relevance": (0.3395, 0.8312, 0.8858),
    }
    large = [(pair.request.study_id, verdict) for pair, verdict in sampled_verdicts(built, "rules")]
    for name, dimension in DIMENSIONS.items():
        found = _measure(dimension, large, sample, resamples=0)
        for (of, category), shares in expected.items():
            if of == name:
                columns = [*(found["people"][v][category] for v in raters), found["judge_on_these"][category]]
                assert [round(100 * share, 1) for share in columns] == list(shares)
        measured = found["agreement"]["people_and_judge"]
        published = [measured[one] for one in ("fleiss_kappa", "ac1_published", "ac2_published")]
        assert [round(value, 4) for value in published] == list(coefficients[name])


def test_the_text_of_a_table_without_people_or_without_a_judge():
    large = [(1, BEST), (2, WORST)]
    parts = {name: _measure(dimension, large, None, 0) for name, dimension in DIMENSIONS.items()}
    sample = {"sample_reports": 2, "seed": 0, "pairs": 2}
    text = format_table3({"judge": {"name": "rules"}, "sample": sample, "people": None, "dimensions": parts})
    assert "50.00%" in text and "corrected" not in text.splitlines()[0]
    parts = {
        name: _measure(dimension, [], people({"a": BEST, "b": WORST}, {}), 0) for name, dimension in DIMENSIONS.items()
    }
    info = {"raters": 3, "items": 2, "stratified_by": None}
    text = format_table3({"judge": None, "sample": None, "people": info, "dimensions": parts})
    assert "50.0%" in text and "count" not in text and "kappa 1.0000" in text
