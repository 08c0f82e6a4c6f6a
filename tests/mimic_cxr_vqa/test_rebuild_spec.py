"""A rebuild spec holds nothing that may not be shared, and recreates the same bytes from a copy of the source."""

import json
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_server import ChatServerDouble, completion

from medvqa_core.digests import digest, digest_file
from medvqa_core.errors import InputError
from medvqa_core.json_files import read_object, write_json
from medvqa_hub.cli import run
from mimic_cxr_vqa.rebuild_spec import _render_card
from mimic_cxr_vqa.rebuild_spec_check import SCHEMA, read_rebuild_spec
from mimic_cxr_vqa.workspace import Workspace

LEAK = "There is mild edema."


def run_cxr(*lines):
    for line in lines:
        assert run(["cxr", *line.split()]) == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A synthetic tree, a release of it in small shards, and its rebuild spec."""
    folder = tmp_path_factory.mktemp("spec")
    run_cxr(
        f"phantom --out {folder}/tree --studies 12 --size 64",
        f"questions --source phantom --root {folder}/tree --out {folder}/cxr --seed 3",
        f"answer --out {folder}/cxr",
        f"release --out {folder}/cxr --flagged drop --rows-per-shard 200",
        f"rebuild-spec --out {folder}/cxr --to {folder}/spec",
    )
    return folder


@pytest.fixture
def spec(made, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(made / "spec", tmp_path / "spec")


def rebuild(spec, made, out, *options):
    return run(["cxr", "rebuild", str(spec), "--root", str(made / "tree"), "--out", str(out), *options])


def edit(spec, **fields):
    write_json(spec / "manifest.json", read_object(spec / "manifest.json", "") | fields)


def edit_entry(spec, field, **values):
    edit(spec, **{field: read_object(spec / "manifest.json", "")[field] | values})


def describe(spec, path):
    """Make the manifest describe a file as it is now."""
    entry = {"bytes": path.stat().st_size, "sha256": digest_file(path)}
    edit_entry(spec, "files", **{str(path.relative_to(spec)): entry})


def edit_tree(made, tmp_path, change):
    """A copy of the source with one report changed."""
    tree = shutil.copytree(made / "tree", tmp_path / "tree")
    report = sorted(tree.rglob("s*.txt"))[0]
    report.write_text(change(report.read_text()))
    return tmp_path


def test_rebuild_writes_the_same_bytes(made, tmp_path, capsys):
    assert rebuild(made / "spec", made, tmp_path / "out") == 0
    assert "every file has the spec's sha256" in capsys.readouterr().out
    for path in sorted((made / "cxr" / "release").rglob("*.*")):
        again = tmp_path / "out" / "release" / path.relative_to(made / "cxr" / "release")
        assert again.read_bytes() == path.read_bytes(), path


def test_spec_holds_no_answers_labels_or_reports(made):
    release = Workspace(made / "cxr").release
    answers = {a for p in release.glob("qa/*.parquet") for a in pq.read_table(p)["answer"].to_pylist() if len(a) > 12}
    studies = [row for p in release.glob("studies/*.parquet") for row in pq.read_table(p).to_pylist()]
    everything = b"".join(path.read_bytes() for path in (made / "spec").rglob("*") if path.is_file())
    tables = [pq.read_table(path) for path in (made / "spec" / "questions").glob("*.parquet")]
    texts = " ".join(str(value) for table in tables for row in table.to_pylist() for value in row.values())
    assert all(table.schema.equals(SCHEMA, check_metadata=True) for table in tables)
    assert not [answer for answer in answers if answer in texts or answer.encode() in everything]
    assert not [study for study in studies if study["findings"] and study["findings"][:40].encode() in everything]


def test_differences_are_named(made, tmp_path, capsys):
    other = edit_tree(made, tmp_path / "text", lambda text: text.replace("FINDINGS:", "FINDINGS: Mild edema."))
    assert rebuild(made / "spec", other, tmp_path / "out") == 1
    printed = capsys.readouterr().out
    shards = len(list((made / "cxr" / "release").rglob("*.parquet")))
    assert "questions/studies.parquet" in printed and 2 <= printed.count("release/") < shards + 1
    other = edit_tree(made, tmp_path / "section", lambda text: text.partition("FINDINGS:")[0])
    assert rebuild(made / "spec", other, tmp_path / "again") == 1
    assert "questions of 1 studies are missing here, such as s" in capsys.readouterr().out


def test_rebuild_needs_the_same_files_and_engine(made, tmp_path, spec, capsys):
    ids = tmp_path / "ids.txt"
    ids.write_text("1\n")
    assert rebuild(spec, made, tmp_path / "out", "--studies", str(ids)) == 1
    assert "--studies" in capsys.readouterr().err
    assert rebuild(spec, made, tmp_path / "out", "--model", "m") == 1
    assert "--model" in capsys.readouterr().err and not (tmp_path / "out").exists()
    edit_entry(spec, "answers", model="another")
    assert rebuild(spec, made, tmp_path / "out") == 1
    assert "model 'rules', not 'another'" in capsys.readouterr().err


def test_no_text_is_sent_where_a_spec_names_an_engine(made, tmp_path, spec, capsys):
    asked = []
    with ChatServerDouble(lambda body: asked.append(body) or completion('{"answer": "Clear."}')) as double:
        for named in (f"server:{double.endpoint}", "transformers:somebody/model", "server", None):
            edit_entry(spec, "answers", engine=named, model="m")
            assert rebuild(spec, made, tmp_path / "out") == 1
            error = capsys.readouterr().err
            assert f"engine {named!r}, model 'm'" in error and "--engine" in error
    assert not asked and not (tmp_path / "out").exists()


def test_language_model_answers_are_rebuilt_at_another_address(made, tmp_path, capsys):
    studies = tmp_path / "studies.txt"
    studies.write_text(sorted(path.stem for path in (made / "tree").rglob("s*.txt"))[0][1:])
    asked = ["--studies", str(studies), "--questions-per-request", "all", "--engine"]
    with ChatServerDouble(answer_alike) as first, ChatServerDouble(answer_alike) as second:
        run_cxr(
            f"questions --source phantom --root {made}/tree --studies {studies} --out {tmp_path}/cxr",
            f"answer --out {tmp_path}/cxr --engine server:{first.endpoint} --questions-per-request all",
            f"release --out {tmp_path}/cxr",
            f"rebuild-spec --out {tmp_path}/cxr --to {tmp_path}/spec",
        )
        spec, met = tmp_path / "spec", len(first.requests)
        assert rebuild(spec, made, tmp_path / "out", *asked, f"server:{second.endpoint}") == 0
        assert "every file has the spec's sha256" in capsys.readouterr().out
        assert len(first.requests) == met and not list(spec.rglob("*language_model*"))
        assert rebuild(spec, made, tmp_path / "again", *asked[:2], "--engine", f"server:{second.endpoint}") == 1
        assert "questions per request: 1', not " in capsys.readouterr().err
    assert first.endpoint.encode() not in b"".join(p.read_bytes() for p in spec.rglob("*") if p.is_file())


def answer_alike(body):
    numbered = body["messages"][-1]["content"].partition("question: \n1. ")[2].count("\n") + 1
    return completion(
        json.dumps({"answers": [{"number": n, "answer": "It is clear."} for n in range(1, numbered + 1)]})
    )


def test_batch_answers_are_not_rebuilt_by_an_engine(made, tmp_path, spec, capsys):
    edit_entry(spec, "answers", engine="batch", model="m")
    for engine in ([], ["--engine", "server:http://127.0.0.1:1/v1"]):
        assert rebuild(spec, made, tmp_path / "out", *engine) == 1
        assert "batch-import" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("engine", ["extractive", "server", "batch"])
def test_card_gives_the_command_that_rebuilds_the_rows(spec, engine):
    manifest = read_object(spec / "manifest.json", "")
    card = _render_card(spec, manifest | {"answers": manifest["answers"] | {"engine": engine}})
    assert ("cxr rebuild SPEC" in card) == (engine != "batch") and "\n\n| split |" in card
    assert ("--out out/cxr --engine ENGINE\n```\n\n`SPEC` is" in card) == (engine == "server")
    assert ("`batch-import`" in card) == (engine == "batch")


def retyped(rows, column, type):
    place = rows.schema.get_field_index(column)
    return rows.set_column(place, pa.field(column, type), rows[column].cast(type))


def described_field(rows, column, metadata):
    place = rows.schema.get_field_index(column)
    return rows.set_column(place, rows.schema.field(column).with_metadata(metadata), rows[column])


def replaced(rows, column, value):
    field = rows.schema.field(column)
    values = pa.array([value, *rows[column].to_pylist()[1:]], field.type)
    return rows.set_column(rows.schema.get_field_index(column), column, values)


def test_changed_questions_are_refused(spec):
    def refused(match):
        with pytest.raises(InputError, match=match):
            read_rebuild_spec(spec)

    path = sorted((spec / "questions").glob("*.parquet"))[0]
    rows = pq.read_table(path)
    path.unlink()
    refused("is missing")
    path.write_bytes(b"PAR1")
    describe(spec, path)
    refused("cannot be read")
    pq.write_table(rows.slice(1), path)
    refused("sha256")
    for table, match in [
        (rows.append_column("answer", pa.array(["Mild edema."] * len(rows))), "columns"),
        (replaced(rows, "question", LEAK), "column question"),
        (replaced(rows, "category", "Mild edema"), "column category"),
        (replaced(rows, "qa_id", "s1-edema-1 mild edema"), "column qa_id"),
        (replaced(rows, "split", None), "column split"),
        (replaced(rows, "qa_id", "s1-edema-1"), "column qa_id"),  # of another study
        (retyped(rows, "study_id", pa.string()), "columns"),
        (retyped(rows, "qa_id", pa.large_string()), "columns"),
        (rows.replace_schema_metadata({"findings": LEAK}), "metadata"),
        (described_field(rows, "question", {"findings": LEAK}), "metadata"),
    ]:
        pq.write_table(table, path)
        describe(spec, path)
        refused(match)
    pq.write_table(rows, path)
    describe(spec, path)
    assert read_rebuild_spec(spec)["kind"] == "recipe", "the kind that earlier specs have"


def test_questions_without_reading_options_give_the_remedy(made, tmp_path, capsys):
    workspace = shutil.copytree(made / "cxr", tmp_path / "cxr")
    manifest = read_object(workspace / "questions" / "manifest.json", "")
    del manifest["read_with"]
    write_json(workspace / "questions" / "manifest.json", manifest)
    assert run(["cxr", "rebuild-spec", "--out", str(workspace), "--to", str(tmp_path / "spec")]) == 1
    assert "medvqa-hub cxr questions" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["../secret.parquet", "{tmp}/secret.parquet", "questions/../../secret.parquet", "answers.csv"]
)
def test_no_other_file_is_read(spec, tmp_path, name):
    """Not even hashed, because the error would reveal whether its content is known."""
    (tmp_path / "secret.parquet").write_bytes(b"secret")
    (spec / "answers.csv").write_bytes(b"secret")
    edit_entry(spec, "files", **{name.format(tmp=tmp_path): {"bytes": 6, "sha256": digest(b"secret")}})
    with pytest.raises(InputError, match="does not belong"):
        read_rebuild_spec(spec)


def test_only_regular_files_are_read(spec, tmp_path):
    card = spec / "README.md"
    (tmp_path / "secret").write_text("private")
    for target, match in (("/dev/null", "not a regular file"), (tmp_path / "secret", "sha256")):
        card.unlink()
        card.symlink_to(target)
        with pytest.raises(InputError, match=match) as error:
            read_rebuild_spec(spec)
        assert "private" not in str(error.value)


READ_WITH = {"labeler": "chexpert", "labels": "text", "encoding": "utf-8", "sections": None, "studies": None}
SPLIT = {"rows": 1, "shards": 1, "studies": 1}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("written_with", {"workspace": "elsewhere"}),
        ("written_with", {"unknown": 1}),
        ("written_with", {"rows_per_shard": "many"}),
        ("written_with", None),
        ("read_with", READ_WITH | {"labeler": ["chexpert"]}),
        ("read_with", READ_WITH | {"reports": "/somewhere"}),
        ("read_with", READ_WITH | {"studies": 7}),
        ("read_with", READ_WITH | {"labels": "Mild edema."}),
        ("source", ["phantom"]),
        ("source", "elsewhere"),
        ("seed", "one"),
        ("tables", {}),
        ("tables", {"studies.parquet": 1, "questions.parquet": 2}),
        ("shards", {"\x1b[2J": "0" * 64}),
        ("versions", {"no-such-package": "1"}),
        ("versions", None),
        ("files", {"README.md": "x"}),
        ("files", {"questions/train.parquet": {"bytes": 1, "sha256": "0" * 64, "note": LEAK}}),
        ("answers", {"engine": "extractive", "note": LEAK}),
        ("answers", {"engine": "extractive", "model": LEAK * 11}),
        ("splits", {"train": SPLIT | {"note": LEAK}}),
        ("splits", {"train": SPLIT | {"rows": LEAK}}),
        ("counts", {LEAK: 1}),
        ("rows_governance", LEAK),
        ("notes", LEAK),
    ],
)
def test_unexpected_fields_are_refused_by_name(spec, made, tmp_path, field, value, capsys):
    edit(spec, **{field: value})
    assert rebuild(spec, made, tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert re.search(f"manifest.json: '?{field}'? is ", error) and "\x1b" not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("held", [{"table_1": LEAK}, {LEAK: 1}, {"all": [1]}])
def test_statistics_hold_counts_only(spec, held):
    path = spec / "statistics.json"
    write_json(path, read_object(path, "") | held)
    describe(spec, path)
    with pytest.raises(InputError, match="statistics.json") as error:
        read_rebuild_spec(spec)
    assert "edema" not in str(error.value)
