"""The authors' CSV files in the explorer: the rows of the release they were written from, and nothing left behind."""

import gc
import os
import signal
import stat
import subprocess
import sys

import pytest
from authors_files import CANONICAL, HEADER, save

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_hub.explore.opening import ExploreOptions, open_folders
from medvqa_hub.explore.row_filters import RowFilter
from mimic_cxr_vqa.release import export_authors_csv, open_release
from mimic_cxr_vqa.workspace import SAMPLE_DIR


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    out = tmp_path_factory.mktemp("authors") / "csv"
    export_authors_csv(open_release(SAMPLE_DIR), out)
    return out


def everything(view):
    """All that the page shows of all studies."""
    found, at = {}, 0
    while at is not None:
        page = view.page(RowFilter(), at)
        found |= {line["study_id"]: view.study(line["study_id"], RowFilter()) for line in page["studies"]}
        at = page["next"]
    return found


def test_a_folder_shows_the_rows_of_the_release_it_was_written_from(exported):
    opened = open_folders([exported], ExploreOptions(image_root=SAMPLE_DIR))
    ours, theirs = everything(open_folders([SAMPLE_DIR]).studies), everything(opened.studies)
    assert list(ours) == list(theirs) and opened.governance is Governance.OPEN
    for study, shown in theirs.items():
        wanted = ours[study]
        assert shown["images"] == wanted["images"] and shown["findings"] is None
        for name in ("split", "subject_id", "indication"):
            assert shown[name] == wanted[name]
        for name in ("qa_id", "question", "answer", "category", "label"):
            assert [row[name] for row in shown["questions"]] == [row[name] for row in wanted["questions"]]
        assert opened.studies.images.file(opened.studies.image_path(study, 0)).is_file()


def test_a_file_alone_is_opened_as_its_split(tmp_path):
    save(tmp_path / "test.csv.gz", CANONICAL)
    save(tmp_path / "train.csv", HEADER)
    opened = open_folders([tmp_path / "test.csv.gz"])
    assert opened.governance is Governance.CREDENTIALED  # nothing says otherwise
    described = opened.studies.describe()
    assert described["splits"] == ["test"] and described["rows"] == 5
    assert [flag["name"] for flag in described["flags"]] == ["failed_reply"]
    shown = everything(opened.studies)[95000001]
    assert [image["view"] for image in shown["images"]] == ["PA"]
    assert shown["questions"][1]["answer"] == 'No, "large".'


@pytest.mark.parametrize("name", ["rows.csv", "train.txt", "train.parquet"])
def test_another_file_says_what_is_wanted(tmp_path, name):
    save(tmp_path / name, CANONICAL)
    with pytest.raises(InputError, match=r"train\*\.csv, val\*\.csv and test\*\.csv"):
        open_folders([tmp_path / name])


def test_rows_that_do_not_lie_together_are_named(tmp_path):
    header, *rows = CANONICAL.splitlines(keepends=True)
    first = "9,p90000001,s95000001,Is Edema present?,Yes,Edema,1.0,cough,p90/a.jpg,PA\n"
    save(tmp_path / "train.csv", header + "".join(rows) + first)
    with pytest.raises(InputError, match=f"{tmp_path}.*study 95000001 are not adjacent"):
        open_folders([tmp_path])


def test_what_was_laid_out_is_its_owner_s_and_goes_with_the_page(exported):
    studies = open_folders([exported]).studies
    folder = studies.index.groups[0].file.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not list(exported.glob("*.parquet"))
    del studies
    gc.collect()
    assert not folder.exists()


@pytest.mark.slow
def test_an_explorer_that_is_ended_leaves_nothing(exported, tmp_path):
    pytest.importorskip("gradio")
    command = [sys.executable, "-m", "medvqa_hub.cli", "explore", str(exported)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as started:
        assert any(line.startswith("open http") for line in started.stdout)
        assert list(tmp_path.glob("medvqa-explore-*/*.parquet"))
        started.terminate()
        assert started.wait(60) == 128 + signal.SIGTERM
    assert not list(tmp_path.glob("medvqa-*"))
