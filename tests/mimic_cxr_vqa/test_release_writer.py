"""Writing a release: what is in it, what is refused, and that the same inputs give the same bytes."""

import hashlib
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builds import build_release, describe_again

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance
from medvqa_core.store import RecordStore
from mimic_cxr_vqa.generation.answer_keys import answer_keys, hex_keys, iterate_requests, request_key
from mimic_cxr_vqa.generation.answers import count_answers
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.release import open_release
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.schema import QA_SCHEMA, STUDY_SCHEMA
from mimic_cxr_vqa.workspace import Workspace


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("built"), studies=16, rows_per_shard=100)


@pytest.fixture
def workspace(built, tmp_path) -> Workspace:
    shutil.copytree(built.workspace.root, tmp_path / "cxr")
    return Workspace(tmp_path / "cxr")


def read_all(workspace: Workspace) -> pa.Table:
    return pa.Table.from_batches(open_release(workspace.root).iterate_all())


def change_records(workspace: Workspace, change) -> None:
    """Append a changed copy of the first records."""
    with RecordStore(workspace.answers, "answers", Governance.OPEN, None, read_only=True) as store:
        records, settings = list(store.records())[:5], store.settings
    with RecordStore(workspace.answers, "answers", Governance.OPEN, settings) as store:
        store.append([change(record) for record in records])


def test_rows_have_the_schema_and_one_answer_per_question(built):
    rows = read_all(built.workspace)
    assert rows.schema.equals(QA_SCHEMA)
    assert len(rows) == built.manifest["counts"]["questions"] == len(set(rows["qa_id"].to_pylist()))
    assert all(rows["answer"].to_pylist())
    provenance = rows["provenance"][0].as_py()
    assert (provenance["engine"], provenance["attempts"], provenance["lint"]) == ("extractive", 1, [])


def test_no_study_is_spread_over_two_shards_and_studies_go_with_their_rows(built):
    release = open_release(built.workspace.root)
    seen: set[int] = set()
    for split, files in release.files.items():
        for qa, studies in zip(files, release.studies[split], strict=True):
            ids = pq.read_table(qa, columns=["study_id"])["study_id"].unique().to_pylist()
            table = pq.read_table(studies)
            assert table["study_id"].to_pylist() == ids and table.schema.equals(STUDY_SCHEMA)
            assert not seen & set(ids)
            seen |= set(ids)
        sizes = [pq.read_metadata(qa).num_rows for qa in files]
        assert all(size >= 100 for size in sizes[:-1])
    assert built.manifest["splits"]["train"]["shards"] > 1


def test_manifest_describes_every_file(built):
    folder = built.workspace.release
    files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert files == {*built.manifest["files"], "manifest.json"}
    for name, described in built.manifest["files"].items():
        data = (folder / name).read_bytes()
        assert described == {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_same_inputs_give_the_same_bytes(built, workspace):
    write_release(workspace, rows_per_shard=100)
    for path in built.workspace.release.rglob("*"):
        if path.is_file():
            assert (workspace.release / path.relative_to(built.workspace.release)).read_bytes() == path.read_bytes(), (
                path
            )


def same_bytes(one: Workspace, other: Workspace) -> bool:
    files = [path.relative_to(one.release) for path in one.release.rglob("*") if path.is_file()]
    return all((one.release / name).read_bytes() == (other.release / name).read_bytes() for name in files)


def test_a_release_finds_its_answers_without_reading_the_reports_again(built, workspace, monkeypatch):
    def refuse(*_):
        raise AssertionError("the keys are there already")

    monkeypatch.setattr("mimic_cxr_vqa.generation.answer_keys.request_key", refuse)
    write_release(workspace, rows_per_shard=100)
    assert same_bytes(built.workspace, workspace)


@pytest.mark.parametrize("kept", [None, b"", b"PAR1 cut off"])
def test_keys_that_are_absent_or_damaged_are_made_anew(built, workspace, kept):
    workspace.answer_keys.unlink() if kept is None else workspace.answer_keys.write_bytes(kept)
    write_release(workspace, rows_per_shard=100)
    assert same_bytes(built.workspace, workspace)
    assert workspace.answer_keys.read_bytes() == built.workspace.answer_keys.read_bytes()
    assert workspace.answer_keys.stat().st_mode & 0o077 == 0


def test_keys_that_an_earlier_way_of_making_them_left_are_not_used(workspace, monkeypatch):
    monkeypatch.setattr("mimic_cxr_vqa.generation.answer_keys._KEY_VERSION", 2)
    monkeypatch.setattr("mimic_cxr_vqa.generation.answer_keys.request_key", lambda request, settings: "0" * 32)
    assert set(hex_keys(answer_keys(workspace, ExtractiveEngine().settings, save=False))) == {"0" * 32}


def test_keys_of_other_settings_are_not_used(workspace):
    settings = {**ExtractiveEngine().settings, "seed": 1}
    other, kept = answer_keys(workspace, settings), workspace.answer_keys.read_bytes()
    first = answer_keys(workspace, ExtractiveEngine().settings, save=False)
    assert not set(hex_keys(first)) & set(hex_keys(other)) and len(first) == len(other)
    assert workspace.answer_keys.read_bytes() == kept


def test_errors_are_left_out_and_counted(workspace):
    change_records(workspace, lambda record: {**record, "answer": None, "error": "time out"})
    manifest = write_release(workspace)
    assert manifest["counts"]["failed"] == 5
    assert len(read_all(workspace)) == manifest["counts"]["rows"] == manifest["counts"]["questions"] - 5


@pytest.mark.parametrize(("flagged", "lost"), [("keep", 0), ("drop", 5)])
def test_flagged_answers_are_kept_with_their_rule_or_dropped(workspace, flagged, lost):
    change_records(workspace, lambda record: {**record, "answer": "Stable.", "lint": ["prohibited:stable"]})
    manifest = write_release(workspace, flagged=flagged)
    rows = read_all(workspace)
    assert len(rows) == manifest["counts"]["questions"] - lost
    flags = [flag for row in rows["provenance"].to_pylist() for flag in row["lint"]]
    assert [flag for flag in flags if not flag.startswith("relative:")] == ["prohibited:stable"] * (5 - lost)
    assert (manifest["counts"]["flagged"], manifest["counts"]["flagged_dropped"]) == (5 - lost, lost)


def test_unanswered_questions_are_named_and_can_be_allowed(workspace):
    settings = ExtractiveEngine().settings
    keys = [request_key(request, settings) for study in iterate_requests(workspace) for request in study][:7]
    lines = workspace.answers.read_text().splitlines(keepends=True)
    workspace.answers.write_text("".join(line for line in lines if not any(key in line for key in keys)))
    with pytest.raises(InputError, match=r"7 of \d+ .*medvqa-hub cxr answer"):
        write_release(workspace)
    assert write_release(workspace, allow_missing=True)["counts"]["missing"] == 7


def test_answers_of_an_earlier_report_text_are_not_released(workspace):
    path = workspace.questions / "studies.parquet"
    studies = pq.read_table(path)
    changed = pa.array(["Small effusion.", *studies["findings"].to_pylist()[1:]], pa.string())
    pq.write_table(studies.set_column(studies.schema.get_field_index("findings"), "findings", changed), path)
    describe_again(workspace.questions)
    with pytest.raises(InputError, match="questions are not answered"):
        write_release(workspace)


def test_steps_that_have_not_run_are_named(tmp_path):
    with pytest.raises(InputError, match="run: medvqa-hub cxr questions"):
        write_release(Workspace(tmp_path))


def test_questions_drawn_anew_meanwhile_are_noticed(workspace, monkeypatch):
    from mimic_cxr_vqa import release_writer

    write_shards = release_writer._write_shards

    def write_and_draw(*arguments):
        path = workspace.questions / "questions.parquet"
        rows = write_shards(*arguments)
        pq.write_table(pq.read_table(path).slice(1), path)
        return rows

    monkeypatch.setattr(release_writer, "_write_shards", write_and_draw)
    before = open_release(workspace.root).fingerprint
    with pytest.raises(InputError, match="changed during the release"):
        write_release(workspace)
    assert open_release(workspace.root).fingerprint == before


@pytest.mark.parametrize("field", ["error", "answer", "lint", "attempts"])
def test_a_record_that_lacks_a_field_is_named(workspace, field):
    lines = workspace.answers.read_text().splitlines(keepends=True)
    record = json.loads(lines[3])
    del record[field]
    workspace.answers.write_text("".join([*lines[:3], json.dumps(record) + "\n", *lines[4:]]))
    for step in (write_release, count_answers):
        with pytest.raises(InputError, match="(?i)remove its line"):
            step(workspace)


def test_a_store_of_something_else_is_named(workspace):
    lines = workspace.answers.read_text().splitlines(keepends=True)
    header = json.loads(lines[0])
    header["settings"] = {"colour": "red"}
    workspace.answers.write_text("".join([json.dumps(header) + "\n", *lines[1:]]))
    with pytest.raises(InputError, match="line 1: .*colour.*engine, model"):
        write_release(workspace)


def test_options_are_checked(workspace):
    with pytest.raises(ConfigError, match="flagged='hide'"):
        write_release(workspace, flagged="hide")
    with pytest.raises(ConfigError, match="rows_per_shard=0"):
        write_release(workspace, rows_per_shard=0)


def test_questions_of_studies_that_are_not_there_or_in_another_order_are_an_error(workspace):
    path = workspace.questions / "studies.parquet"
    pq.write_table(pq.read_table(path).take([1, 0]), path)
    with pytest.raises(InputError, match="is not in studies.parquet, or in another place"):
        list(iterate_requests(workspace))
