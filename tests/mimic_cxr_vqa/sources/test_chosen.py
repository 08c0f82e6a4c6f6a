"""MIMIC's own file of sections and a list of studies: what they settle, and every bad line."""

from pathlib import Path

import pytest
from physionet_tree import FIRST, SECOND, write_tree

from medvqa_core.errors import InputError
from medvqa_hub.cli import run
from mimic_cxr_vqa.sources.chosen import read_sections, read_study_list
from mimic_cxr_vqa.sources.physionet import read_studies
from mimic_cxr_vqa.sources.registry import SourceOptions
from mimic_cxr_vqa.workspace import Workspace

HEADER = "study,impression,findings,last_paragraph,comparison\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_official_sections_are_taken_and_a_study_without_a_row_has_none(tmp_path):
    tree = write_tree(tmp_path / "tree")
    file = write(tmp_path / "sectioned.csv", f'{HEADER}s{SECOND},,"Theirs,\n as it is.",,none\n')
    study_set = read_studies(tree, SourceOptions(sections=file))
    first, second = study_set.studies.to_pylist()
    assert (first["findings"], first["impression"], first["indication"]) == (None, None, "Cough.")
    assert (second["findings"], second["impression"]) == ("Theirs, as it is.", None)
    assert study_set.section_rules == {"official sections": 1, "no findings": 1}


def test_a_list_of_studies_leaves_the_others_out(tmp_path):
    tree = write_tree(tmp_path / "tree")
    studies = read_studies(tree, SourceOptions(studies=write(tmp_path / "ids.txt", f"\ns{FIRST}\n{FIRST}\n"))).studies
    assert studies["study_id"].to_pylist() == [FIRST]
    with pytest.raises(InputError, match="ids.txt: study 5 .*metadata.csv.gz"):
        read_studies(tree, SourceOptions(studies=write(tmp_path / "ids.txt", f"s{FIRST}\ns5\n")))


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "ids.txt has no study id"), ("s1\nx2\n", "line 2: 'x2'"), ("s1,s2", "line 1")],
)
def test_bad_lists_are_named(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_study_list(write(tmp_path / "ids.txt", text))
    with pytest.raises(InputError, match=r"absent\.txt"):
        read_study_list(tmp_path / "absent.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "s1,,a,,\ns1,,b,,\n", "study s1 occurs 2 times"),
        (HEADER + "one,,a,,\n", "row 2: 'one'"),
        ("study,impression\ns1,a\n", "no column 'findings'"),
    ],
)
def test_bad_section_files_are_named(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_sections(write(tmp_path / "sectioned.csv", text))


def test_stats_say_how_many_reports_each_rule_touched(tmp_path, capsys):
    tree, out = write_tree(tmp_path / "tree"), tmp_path / "out"
    assert run(["cxr", "questions", "--root", str(tree), "--out", str(out)]) == 0
    assert Workspace(out).manifest()["section_rules"] == {"findings heading": 1, "no findings": 1}
    for step in ("answer", "release"):
        assert run(["cxr", step, "--out", str(out)]) == 0
    capsys.readouterr()
    assert run(["cxr", "stats", "--data", str(out)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines.count("findings heading 1") == 1 and lines.count("no findings 1") == 1
