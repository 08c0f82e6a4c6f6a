"""The workspace's first step and its files: counts, same bytes from the same input, and damaged files named."""

import stat

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows import study, study_table

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.parquet_files import iterate_parquet, read_table
from mimic_cxr_vqa.sources.study_set import StudySet
from mimic_cxr_vqa.workspace import Workspace

STUDIES = study_table(
    study(0, {"Edema": 1}),
    study(1, {"Edema": 0}, split="test"),
    study(2, findings=None),
    study(3, findings=" "),
)


def study_set(studies: pa.Table = STUDIES, governance=Governance.OPEN) -> StudySet:
    return StudySet("test", governance, studies, notes={"unmapped_terms": 7})


def test_the_manifest_counts_and_carries_on(tmp_path):
    manifest = write_questions(study_set(), Workspace(tmp_path), seed=5)
    assert manifest == Workspace(tmp_path).manifest()
    assert manifest["counts"] == {
        "studies": 4,
        "studies_without_findings": 2,
        "studies_without_a_stated_label": 0,
        "studies_with_questions": 2,
        "questions": 16,
        "unmapped_terms": 7,
    }
    assert manifest["questions_per_split"] == {"train": 10, "test": 6}
    assert (manifest["source"], manifest["governance"], manifest["seed"]) == ("test", "open", 5)
    assert read_table(tmp_path / "questions/studies.parquet").equals(STUDIES)
    assert len(read_table(tmp_path / "questions/questions.parquet")) == 16


def test_credentialed_questions_are_the_owner_s_alone(tmp_path):
    write_questions(study_set(governance=Governance.CREDENTIALED), Workspace(tmp_path), seed=0)
    assert stat.S_IMODE((tmp_path / "questions").stat().st_mode) == 0o700


def test_no_findings_at_all_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="test: .*2 studies"):
        write_questions(study_set(STUDIES.slice(2)), Workspace(tmp_path), seed=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([study(0), study(0)], "test: study 95000001 occurs 2 times"),
        ([study(0), study(1, subject_id=90_000_001, split="test")], "test: patient 90000001 is in the splits test and"),
        ([study(0, split="dev")], "test: .*'dev'"),
        ([study(0, split=None)], "test: .*None"),
    ],
)
def test_a_set_of_studies_is_checked_when_it_is_made(rows, message):
    with pytest.raises(InputError, match=message):
        study_set(study_table(*rows))


# --- damaged files


@pytest.mark.parametrize("read", [read_table, lambda path: list(iterate_parquet(path))])
@pytest.mark.parametrize("kept", [None, 0, 3, 100, -1, "middle"])
def test_a_damaged_table_is_an_error(tmp_path, read, kept):
    path = tmp_path / "studies.parquet"
    pq.write_table(study_table(*[study(n) for n in range(200)]), path)
    data = bytearray(path.read_bytes())
    if kept is None:
        path.unlink()
    elif kept == "middle":
        data[4:400] = bytes(396)
        path.write_bytes(data)
    else:
        path.write_bytes(data[:kept])
    with pytest.raises(InputError, match=r"(?s)studies\.parquet"):
        read(path)
