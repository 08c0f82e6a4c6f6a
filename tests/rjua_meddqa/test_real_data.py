"""The whole way on the released sample reports: what the figures have to reach, and that they are those of the docs."""

import json
import re

import pytest
from paths import REPOSITORY


@pytest.fixture(scope="module")
def benchmark():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(REPOSITORY / "benchmarks"))
        import meddqa

        yield meddqa


@pytest.fixture(scope="module")
def released(benchmark, real_data, tmp_path_factory):
    """Reading the five images takes some seconds; all tests share it."""
    return benchmark.measure_released(real_data / "rjua_samples", tmp_path_factory.mktemp("released"))


@pytest.mark.slow
def test_every_target_is_reached(released, benchmark):
    assert benchmark.missed(released) == []


@pytest.mark.slow
def test_they_are_figures_of_the_whole_sample(released):
    """52 rows, 26 filled key-values, 133 questions: nothing was left out to reach them."""
    found = released["all"]
    assert (found["reports"], found["rows"], found["key_values"], found["questions"]) == (5, 52, 26, 133)
    assert released["is_normal"]["decided"] >= 40 and released["released_questions"]["total"] == 133
    for name in ("rows", "rows_on_one_line", "rows_found", "key_values_found", "questions"):
        assert found[name] == sum(group[name] for group in released["groups"].values()), name


def test_a_missed_target_is_told(benchmark):
    good = {
        "all": {
            "rows_on_one_line": 49,
            "key_values_found": 23,
            "accuracy": {"entity_qa": 0.55, "table_qa": 0.75, "table_nr_qa": 0.75},
        },
        "is_normal": {"decided": 40, "agreeing": 38},
        "released_questions": {"total": 133, "covered": 133},
    }
    assert benchmark.missed(good) == []
    bad = {
        "all": {
            "rows_on_one_line": 48,
            "key_values_found": 22,
            "accuracy": {"entity_qa": 0.54, "table_qa": 0.7, "table_nr_qa": None},
        },
        "is_normal": {"decided": 40, "agreeing": 37},
        "released_questions": {"total": 133, "covered": 132},
    }
    assert len(benchmark.missed(bad)) == 7


def test_the_documented_figures_are_those_of_the_result_file(benchmark):
    figures = json.loads((REPOSITORY / "benchmarks" / "results" / "meddqa.json").read_text(encoding="utf-8"))
    text = benchmark.TABLES.read_text(encoding="utf-8")
    assert benchmark.make_tables(figures) == text, "run: python benchmarks/meddqa.py"
    assert benchmark.missed(figures["released"]) == figures["missed"] == []
    assert not re.search(r"[\u4e00-\u9fff]", json.dumps(figures, ensure_ascii=False)), "text of a page"
