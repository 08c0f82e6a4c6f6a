"""The table of sources: a new source is a file and a line, and is credentialed until its class is written down."""

import sys
import types

import pyarrow as pa
import pytest

from medvqa_core import minimum_class
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance
from medvqa_core.registry import load_entry
from medvqa_hub.cli import run
from mimic_cxr_vqa.schema import STUDY_SCHEMA
from mimic_cxr_vqa.sources import registry
from mimic_cxr_vqa.sources.registry import SOURCES, SourceOptions, read_source
from mimic_cxr_vqa.sources.study_set import StudySet
from mimic_cxr_vqa.workspace import Workspace


def read_toy(root, options):
    """Two studies of one text file: a line each."""
    lines = (root / "reports.txt").read_text(encoding=options.encoding).splitlines()
    rows = [
        {
            "subject_id": 90_000_000 + n, "study_id": 95_000_000 + n, "split": "train", "findings": line,
            "impression": None, "indication": None, "labels": {"Edema": 1}, "images": [],
        }
        for n, line in enumerate(lines)
    ]  # fmt: skip
    governance = minimum_class.minimum_class_for_source("toy")
    return StudySet("toy", governance, pa.Table.from_pylist(rows, schema=STUDY_SCHEMA))


@pytest.fixture
def toy(monkeypatch):
    module = types.ModuleType("toy_source")
    module.read = read_toy
    monkeypatch.setitem(sys.modules, "toy_source", module)
    monkeypatch.setitem(registry.SOURCES, "toy", "toy_source:read")


@pytest.mark.parametrize("stated, found", [(None, Governance.CREDENTIALED), (Governance.OPEN, Governance.OPEN)])
def test_a_new_source_is_a_file_and_a_line(tmp_path, monkeypatch, toy, stated, found):
    from mimic_cxr_vqa.generation.answers import answer_questions
    from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
    from mimic_cxr_vqa.generation.question_writer import write_questions

    if stated:
        monkeypatch.setitem(minimum_class.SOURCES, "toy", stated)
    (tmp_path / "reports.txt").write_text("There is mild edema.\nNo edema is seen. The heart is normal.\n")
    workspace = Workspace(tmp_path / "out")
    manifest = write_questions(read_source("toy", tmp_path, SourceOptions()), workspace, seed=0)
    assert manifest["governance"] == found and manifest["counts"]["questions"] > 12
    assert answer_questions(workspace, ExtractiveEngine())["failed"] == 0


def test_a_list_of_studies_restricts_a_source_of_ones_own(tmp_path, toy):
    (tmp_path / "reports.txt").write_text("Mild edema.\nNo edema.\nA normal heart.\n")
    chosen = tmp_path / "ids.txt"
    chosen.write_text("95000002\ns95000000\n")
    found = read_source("toy", tmp_path, SourceOptions(studies=chosen))
    assert found.studies["study_id"].to_pylist() == [95_000_000, 95_000_002]
    chosen.write_text("95000000\n95000003\n")
    with pytest.raises(InputError, match="ids.txt: study 95000003 is not in the source 'toy'"):
        read_source("toy", tmp_path, SourceOptions(studies=chosen))


def test_every_source_of_the_table_has_its_class_and_its_reader():
    for name, place in SOURCES.items():
        assert callable(load_entry(place))
        assert name in minimum_class.SOURCES


def test_an_unknown_source_is_refused_by_name(tmp_path, capsys):
    with pytest.raises(ConfigError, match="physionet, phantom, openi"):
        read_source("padchest", tmp_path, SourceOptions())
    assert run(["cxr", "questions", "--source", "padchest", "--root", "x", "--out", str(tmp_path)]) != 0
