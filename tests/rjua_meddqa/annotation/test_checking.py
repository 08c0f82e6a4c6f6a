"""The quality check: every kind of finding, none where there is nothing to find, exit codes."""

import json

import pytest

from medvqa_hub.cli import run
from rjua_meddqa.annotation.checking import KINDS, check_annotations, check_file
from rjua_meddqa.schema import Annotation, TableRow

HEADER = "idx,img_path,kv,table,report_type,image_type,image_quality\n"
GOOD = "1,a.png,\"{'性别': '男', '备注': '无'}\",\"[('尿酸', '300', '155-428', '是')]\",Laboratory,pdf,high\n"


def lab(kv="{}", table="[('尿酸', '300', '155-428', '是')]", rest="Laboratory,pdf,high"):
    return f'1,a.png,"{kv}","{table}",{rest}\n'


def row(result="300", reference="155-428", is_normal="是", item="尿酸"):
    return lab(table=f"[('{item}', '{result}', '{reference}', '{is_normal}')]")


@pytest.fixture
def check(tmp_path):
    def check_rows(*rows, **options):
        path = tmp_path / "annotations.csv"
        path.write_text(HEADER + "".join(rows), encoding="utf-8")
        return check_file(path, **options)

    return check_rows


def kinds(report):
    return [finding.kind for finding in report.findings]


def test_nothing_to_find(check):
    report = check(GOOD)
    assert report.findings == () and (report.annotations, report.key_values, report.table_rows) == (1, 2, 1)
    assert (report.decided, report.agreeing) == (1, 1)


@pytest.mark.parametrize(
    ("content", "kind", "where", "text"),
    [
        (lab(kv="{'': '男'}"), "missing_key", "kv 1", "the key is empty"),
        (lab(kv="{'性别': '男', '年龄': ' '}"), "missing_value", "kv 2", "'年龄' has no value"),
        (lab(kv="{'性别': '男', '性别': '男'}"), "duplicate_key", "kv", "2 times, with the same value"),
        (lab(kv="{'性别': '男', '性别': '女'}"), "duplicate_key", "kv", "2 different values"),
        (lab(kv="{'性别': open('x')}"), "not_a_literal", "kv", "Call"),
        (row(item=""), "missing_key", "table row 1", "no name"),
        (row(result=""), "missing_value", "table row 1", "result is empty"),
        (row(result="无", is_normal="无法判断"), "missing_value", "table row 1", "result is empty"),
        (row(reference="", is_normal="无法判断"), "missing_value", "table row 1", "range is empty"),
        (row(is_normal=""), "missing_value", "table row 1", "is_normal is empty"),
        (row(is_normal="是)"), "unknown_value", "table row 1", "是 is meant"),
        (row(is_normal="正常"), "unknown_value", "table row 1", "Allowed: 是 否(偏高)"),
        (row(result="500"), "contradiction", "table row 1", "否(偏高) (500 is above 155-428)"),
        (row(result="100", is_normal="否(偏高)"), "contradiction", "table row 1", "否(偏低)"),
        (row(is_normal="无法判断"), "undecidable", "table row 1", "verdict is 是"),
        (row(reference="无"), "undecidable", "table row 1", "no range to judge by"),
        (row(reference="155-42８"), None, "", ""),
        (row(reference="155,5-428"), "slip", "table row 1", "a comma for a decimal point"),
        (row(result="500", is_normal="否"), None, "", ""),  # without a direction it is still right
        (row(result="18", reference="男:0-15 女:0-20", is_normal="是"), None, "", ""),  # nobody can tell
        (lab(table="[('尿酸', '300', '155-428')]"), "row_length", "table row 1", "3 fields"),
        (lab(table="[('尿酸', '300')"), "not_a_literal", "table", "not a Python literal"),
        (lab(table=""), "count_mismatch", "table", "0 rows"),
        (lab(rest="MRI,pdf,high"), "count_mismatch", "table", "'MRI', 1 rows"),
        (lab(rest="Laboratory,fax,high"), "unknown_value", "image_type", "Allowed: pdf, photo, screenshot"),
        (lab(rest=" Laboratory,pdf,high"), "unknown_value", "report_type", "white space"),
        (lab(rest="Laboratory,pdf,"), "missing_value", "image_quality", "empty"),
        (lab(table="[('A', '1', '0-2', '是'), ('a', '1', '0-2', '是')]"), "duplicate_key", "table", "'A' and 'a'"),
    ],
)
def test_each_finding(check, content, kind, where, text):
    found = [finding for finding in check(content).findings if finding.kind == kind]
    if kind is None:
        assert not check(content).findings
    else:
        assert [finding.where for finding in found] == [where] and text in found[0].message
        assert kind in KINDS


def test_idx_images_and_pages(check, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    (images / "a.png").write_bytes(b"x")
    outside = GOOD.replace("1,a.png", "2,../a.png")
    report = check(GOOD, GOOD, outside, GOOD.replace("1,a.png", "3,b.png"), images=images)
    assert kinds(report).count("image") == 2 and kinds(report).count("duplicate_key") == 2


def test_annotations_in_memory():
    annotation = Annotation("1", "a.png", (("", "x"),), (TableRow("a", "9", "0-5", "是"),), "Laboratory", "pdf", "high")
    assert sorted(kinds(check_annotations([annotation]))) == ["contradiction", "missing_key"]


def test_command_writes_json_and_is_strict_only_when_asked(tmp_path, capsys):
    path, out = tmp_path / "annotations.csv", tmp_path / "check.json"
    path.write_text(HEADER + row(result="500"), encoding="utf-8")
    assert run(["meddqa", "check", "--data", str(tmp_path), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "findings: 1 (contradiction: 1)" in printed and "0 of 1 " in printed
    record = json.loads(out.read_text(encoding="utf-8"))
    assert record["counts"] == {"contradiction": 1} and record["governance"] == "share-alike"
    assert record["findings"][0]["where"] == "table row 1"
    assert run(["meddqa", "check", "--data", str(path), "--strict"]) == 1
    path.write_text(HEADER + GOOD, encoding="utf-8")
    assert run(["meddqa", "check", "--data", str(path), "--strict"]) == 0
    assert run(["meddqa", "check", "--data", str(tmp_path / "none")]) == 1


def test_released_sample(real_data):
    folder = real_data / "rjua_samples"
    report = check_file(folder / "sampled_image_content_kv_table_annotation.csv", folder / "images")
    assert report.counts() == {"slip": 3, "unknown_value": 2, "duplicate_key": 2}
    assert (report.decided, report.agreeing) == (47, 47)


def test_a_verdict_by_groups_is_checked_for_the_pages_patient(check):
    by_sex = "男:208-428;女:155-357"
    wrong = lab(kv="{'性别': '女', '年龄': '40岁'}", table=f"[('尿酸', '400', '{by_sex}', '是')]")
    right = lab(kv="{'性别': '男', '年龄': '40岁'}", table=f"[('尿酸', '400', '{by_sex}', '是')]")
    open_ = lab(kv="{'年龄': '40岁'}", table=f"[('尿酸', '400', '{by_sex}', '无法判断')]")
    assert kinds(check(wrong)) == ["contradiction"]
    assert kinds(check(right)) == kinds(check(open_)) == []
