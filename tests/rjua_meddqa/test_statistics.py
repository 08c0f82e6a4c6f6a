"""Tables 2 and 3 and Figure 2: counts by hand, and as text."""

import json
from dataclasses import replace

import pytest
from meddqa_data import ANNOTATIONS, BLOOD, CONTEXT_HEADER, NORMAL, write_contexts, write_folder

from medvqa_core.errors import InputError
from medvqa_hub.cli import run
from rjua_meddqa.data_folder import open_folder
from rjua_meddqa.statistics import (
    ContextCounts,
    ImageCounts,
    summarise,
    summarise_folder,
)


def cells(kind: str, description: str, **more: str) -> dict[str, str]:
    return {"idx": "1", "title": "t", "context_type": kind, "description": description, **more}


def test_table_2_by_hand():
    stats = summarise([*ANNOTATIONS, replace(BLOOD, image_quality="high"), BLOOD])
    assert list(stats.images.items()) == [
        (("photo", "high"), ImageCounts(1, 4, 3)),
        (("photo", "low"), ImageCounts(2, 8, 6)),
        (("pdf", "high"), ImageCounts(1, 1, 2)),
        (("screenshot", "high"), ImageCounts(1, 2, 0)),
    ]
    overall = stats.to_json()["table_2"][-1]
    assert (overall["images"], overall["key_value_pairs"], overall["table_rows"]) == (5, 15, 11)


def test_table_3_by_hand():
    contexts = [
        cells("疾病-建议", "四个字啊", report_type="Laboratory"),
        cells("检查-疾病", " 三个字 ", report_type="Laboratory"),
        cells("检查-疾病", "五个字的话", report_type="Laboratory"),
        cells("检查-疾病", "一", report_type="Clinical"),
    ]
    stats = summarise([BLOOD], contexts)
    assert list(stats.contexts.items()) == [
        (("Laboratory", "检查-疾病"), ContextCounts(2, 4.0)),
        (("Laboratory", "疾病-建议"), ContextCounts(1, 4.0)),
        (("Clinical", "检查-疾病"), ContextCounts(1, 1.0)),
    ]
    overall = stats.to_json()["table_3"][-1]
    assert (overall["contexts"], overall["average_length"]) == (4, 3.25)  # (2 x 4 + 4 + 1) / 4


def test_figure_2_counts_report_types_without_odd_spaces():
    stats = summarise([*ANNOTATIONS, replace(NORMAL, report_type="")])
    assert list(stats.report_types.items()) == [("Laboratory", 2), ("(none)", 1), ("MRI", 1)]


def test_tables_as_text():
    contexts = [cells("检查-疾病", "三个字"), cells("疾病-检查", "字")]
    text = summarise(ANNOTATIONS, contexts, [("entity_qa", "single_entity")]).format()
    lines = [line.split() for line in text.splitlines()]
    assert ["Photo", "Low", "1", "4", "3"] in lines and ["Overall", "3", "7", "5"] in lines
    assert ["-", "Examination-Disease", "1", "3.0"] in lines
    assert ["Clinical", "Disease-Examination", "1", "1.0"] in lines
    assert ["Overall", "2", "2.0"] in lines and ["entity_qa", "single_entity", "1"] in lines
    assert text.isascii()


def test_the_command_prints_and_writes(tmp_path, capsys):
    data = write_folder(tmp_path / "data")
    write_contexts(
        data / "contexts.csv", [("1", "甲", "检查-疾病", "三个字", "Laboratory")], (*CONTEXT_HEADER, "report_type")
    )
    assert run(f"meddqa stats --data {data} --out {tmp_path / 'stats'}".split()) == 0
    printed = capsys.readouterr().out
    assert "Table 2" in printed and "Laboratory   Examination-Disease" in printed
    written = json.loads((tmp_path / "stats" / "statistics.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(summarise_folder(open_folder(data)).to_json()))
    assert written["figure_2"] == {"Laboratory": 2, "MRI": 1}


def test_a_folder_without_annotations_is_an_error(tmp_path):
    with pytest.raises(InputError, match="annotations"):
        summarise_folder(open_folder(tmp_path))


def test_the_released_samples(real_data):
    stats = summarise_folder(open_folder(real_data / "rjua_samples"))
    assert stats.report_types == {"Laboratory": 3, "MRI": 1, "Pathology": 1}
    assert {group: counts.contexts for group, counts in stats.contexts.items()} == {
        ("Laboratory", "检查-疾病"): 15,
        ("Laboratory", "疾病-建议"): 15,
        ("", "检查-疾病"): 3,  # in no question of the sample
        ("Clinical", "疾病-状态"): 1,
        ("Clinical", "疾病-治疗"): 3,
    }
    assert sum(counts.table_rows for counts in stats.images.values()) == 52
    assert stats.questions["entity_qa", "single_entity"] == 46


def test_contexts_without_a_title_are_left_out_and_counted():
    stats = summarise([BLOOD], [cells("检查-疾病", "三个字"), cells("检查-疾病", "很长的一段话") | {"title": " "}])
    assert stats.contexts == {("", "检查-疾病"): ContextCounts(1, 3.0)}
    assert stats.to_json()["untitled_contexts"] == 1
    assert "left out: 1" in stats.format()


def test_the_report_type_of_a_context_is_that_of_the_reports_it_is_used_for():
    contexts = [{**cells(kind, "三个字"), "idx": str(n)} for n, kind in enumerate(("检查-疾病",) * 3 + ("疾病-治疗",))]
    stats = summarise([BLOOD], contexts, used_in={"0": {"Laboratory"}, "1": {"Laboratory", "Clinical"}})
    found = {report for report, _ in stats.contexts}
    assert found == {"Laboratory", "Laboratory and Clinical", "", "Clinical"}
