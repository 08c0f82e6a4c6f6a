"""A recipe holds nothing that may not be shared, and makes the same bytes again from one's own copy of the source."""

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
from mimic_cxr_vqa.rebuild_spec import _write_card
from mimic_cxr_vqa.rebuild_spec_check import SCHEMA, read_rebuild_spec
from mimic_cxr_vqa.workspace import Workspace


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A drawn tree, a release of it in small shards, and its recipe."""
    folder = tmp_path_factory.mktemp("recipe")
    for line in (
        f"phantom --out {folder}/tree --studies 12 --size 64",
        f"questions --source phantom --root {folder}/tree --out {folder}/cxr --seed 3",
        f"answer --out {folder}/cxr",
        f"release --out {folder}/cxr --flagged drop --rows-per-shard 200",
        f"recipe --out {folder}/cxr --to {folder}/recipe",
    ):
        assert run(["cxr", *line.split()]) == 0
    return folder


@pytest.fixture
def recipe(made, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(made / "recipe", tmp_path / "recipe")


def rebuild(recipe, made, out, *options):
    return run(["cxr", "rebuild", str(recipe), "--root", str(made / "tree"), "--out", str(out), *options])


def edit_tree(made, tmp_path, change):
    """The source with one report changed, as somebody else's copy may be."""
    tree = shutil.copytree(made / "tree", tmp_path / "tree")
    report = sorted(tree.rglob("s*.txt"))[0]
    report.write_text(change(report.read_text()))
    return tmp_path


def test_it_makes_the_same_bytes_again(made, tmp_path, capsys):
    assert rebuild(made / "recipe", made, tmp_path / "out") == 0
    assert "every file has the recipe's sha256" in capsys.readouterr().out
    for path in sorted((made / "cxr" / "release").rglob("*.*")):
        again = tmp_path / "out" / "release" / path.relative_to(made / "cxr" / "release")
        assert again.read_bytes() == path.read_bytes(), path


def test_it_holds_no_answer_label_or_report(made):
    release = Workspace(made / "cxr").release
    answers = {a for p in release.glob("qa/*.parquet") for a in pq.read_table(p)["answer"].to_pylist() if len(a) > 12}
    studies = [row for p in release.glob("studies/*.parquet") for row in pq.read_table(p).to_pylist()]
    everything = b"".join(path.read_bytes() for path in (made / "recipe").rglob("*") if path.is_file())
    tables = [pq.read_table(path) for path in (made / "recipe" / "questions").glob("*.parquet")]
    texts = " ".join(str(value) for table in tables for row in table.to_pylist() for value in row.values())
    assert all(table.schema.equals(SCHEMA, check_metadata=True) for table in tables)
    assert not [answer for answer in answers if answer in texts or answer.encode() in everything]
    assert not [study for study in studies if study["findings"] and study["findings"][:40].encode() in everything]


def test_another_copy_of_the_source_is_told_apart_by_shard(made, tmp_path, capsys):
    other = edit_tree(made, tmp_path, lambda text: text.replace("FINDINGS:", "FINDINGS: Mild edema."))
    assert rebuild(made / "recipe", other, tmp_path / "out") == 1
    said = capsys.readouterr().out
    assert "questions/studies.parquet" in said and "release/qa/" in said and "files are not the recipe's" in said
    shards = len(list((made / "cxr" / "release").rglob("*.parquet")))
    assert 2 <= said.count("release/") < shards + 1, "only the shards of that study differ"


def test_missing_questions_are_counted(made, tmp_path, capsys):
    other = edit_tree(made, tmp_path, lambda text: text.partition("FINDINGS:")[0])
    assert rebuild(made / "recipe", other, tmp_path / "out") == 1
    assert "questions of 1 studies are missing here, such as s" in capsys.readouterr().out


def test_the_same_files_and_the_same_engine_are_asked_for(made, tmp_path, recipe, capsys):
    ids = tmp_path / "ids.txt"
    ids.write_text("1\n")
    assert rebuild(recipe, made, tmp_path / "out", "--studies", str(ids)) == 1
    assert "the recipe used none; rebuild with the same file" in capsys.readouterr().err
    manifest = read_object(recipe / "manifest.json", "")
    manifest["answers"]["model"] = "another"
    write_json(recipe / "manifest.json", manifest)
    assert rebuild(recipe, made, tmp_path / "out") == 1
    assert "the engine is not the recipe's: model" in capsys.readouterr().err


def test_no_text_goes_where_a_recipe_says(made, tmp_path, recipe, capsys):
    """Its engine may be an address, a model of the Hub, or a real recipe's kind of model: the user names his own."""
    manifest = read_object(recipe / "manifest.json", "")
    asked = []
    with ChatServerDouble(lambda body: asked.append(body) or completion('{"answer": "Clear."}')) as double:
        for named in (f"server:{double.endpoint}", "transformers:somebody/model", "server", None):
            manifest["answers"] |= {"engine": named, "model": "m"}
            write_json(recipe / "manifest.json", manifest)
            assert rebuild(recipe, made, tmp_path / "out") == 1
            assert f"answers are by engine {named!r}, model 'm': say with --engine" in capsys.readouterr().err
    assert not asked and not (tmp_path / "out").exists()


def test_a_language_model_s_rows_are_made_again_where_the_user_has_the_model(made, tmp_path, capsys):
    """At another address than the recipe's; another prompt is another engine."""
    studies = tmp_path / "studies.txt"
    studies.write_text(sorted(path.stem for path in (made / "tree").rglob("s*.txt"))[0][1:])
    asked = ["--studies", str(studies), "--questions-per-request", "all", "--engine"]
    with ChatServerDouble(answer_alike) as first, ChatServerDouble(answer_alike) as second:
        for line in (
            f"questions --source phantom --root {made}/tree --studies {studies} --out {tmp_path}/cxr",
            f"answer --out {tmp_path}/cxr --engine server:{first.endpoint} --questions-per-request all",
            f"release --out {tmp_path}/cxr",
            f"recipe --out {tmp_path}/cxr --to {tmp_path}/recipe",
        ):
            assert run(["cxr", *line.split()]) == 0
        recipe, met = tmp_path / "recipe", len(first.requests)
        assert rebuild(recipe, made, tmp_path / "out", *asked, f"server:{second.endpoint}") == 0
        assert "every file has the recipe's sha256" in capsys.readouterr().out
        assert len(first.requests) == met and not list(recipe.rglob("*language_model*"))
        assert rebuild(recipe, made, tmp_path / "again", *asked[:2], "--engine", f"server:{second.endpoint}") == 1
        assert "questions per request: 1', not " in capsys.readouterr().err
    assert first.endpoint.encode() not in b"".join(p.read_bytes() for p in recipe.rglob("*") if p.is_file())


def answer_alike(body):
    numbered = body["messages"][-1]["content"].partition("question: \n1. ")[2].count("\n") + 1
    return completion(
        json.dumps({"answers": [{"number": n, "answer": "It is clear."} for n in range(1, numbered + 1)]})
    )


def test_answers_of_batch_files_are_made_again_by_batch_files(made, tmp_path, recipe, capsys):
    answers = read_object(recipe / "manifest.json", "")["answers"] | {"engine": "batch", "model": "m"}
    write_json(recipe / "manifest.json", read_object(recipe / "manifest.json", "") | {"answers": answers})
    for engine in ([], ["--engine", "server:http://127.0.0.1:1/v1"]):
        assert rebuild(recipe, made, tmp_path / "out", *engine) == 1
        assert "by model 'm', came in batch files" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("extractive", "--out out/cxr\n```\n\n`RECIPE` is"),
        ("server", "--out out/cxr --engine ENGINE\n```\n\n`RECIPE` is"),
        ("batch", "The answers came in batch files: `medvqa-hub cxr questions`"),
    ],
)
def test_the_card_says_how_its_rows_are_made_again(recipe, engine, said):
    manifest = read_object(recipe / "manifest.json", "")
    _write_card(recipe, manifest | {"answers": manifest["answers"] | {"engine": engine}})
    card = (recipe / "README.md").read_text()
    assert said in card and ("cxr rebuild" in card) == (engine != "batch")
    assert ("`ENGINE` is where" in card) == (engine == "server") and "\n\n| split |" in card


def test_options_of_a_model_are_refused_where_the_recipe_has_none(made, tmp_path, recipe, capsys):
    assert rebuild(recipe, made, tmp_path / "out", "--model", "m") == 1
    assert "--model is of language models" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_recipe_that_was_changed_is_refused(recipe):
    def describe(path):
        manifest = read_object(recipe / "manifest.json", "")
        entry = {"bytes": path.stat().st_size, "sha256": digest_file(path)}
        write_json(recipe / "manifest.json", manifest | {"files": manifest["files"] | {name: entry}})

    path = sorted((recipe / "questions").glob("*.parquet"))[0]
    name = f"questions/{path.name}"
    rows = pq.read_table(path)
    path.rename(tmp := path.with_suffix(".gone"))
    with pytest.raises(InputError, match="is missing"):
        read_rebuild_spec(recipe)
    path.write_bytes(b"PAR1")
    describe(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_rebuild_spec(recipe)
    tmp.rename(path)
    describe(path)
    pq.write_table(rows.slice(1), path)
    with pytest.raises(InputError, match="not what the recipe describes"):
        read_rebuild_spec(recipe)
    hostile = [
        (rows.append_column("answer", pa.array(["Mild edema."] * len(rows))), "columns"),
        (replaced(rows, "question", "There is mild edema."), "no question of this dataset"),
        (replaced(rows, "category", "Mild edema"), "no category"),
        (replaced(rows, "qa_id", "s1-edema-1 mild edema"), "no id of a question"),
        (replaced(rows, "split", None), "no split"),
        (replaced(rows, "qa_id", "s1-edema-1"), "no id of a question"),  # of another study
        (retyped(rows, "study_id", pa.string()), "columns"),
        (retyped(rows, "qa_id", pa.large_string()), "columns"),
        (rows.replace_schema_metadata({"findings": "There is mild edema."}), "metadata"),
        (described_field(rows, "question", {"findings": "There is mild edema."}), "metadata"),
    ]
    for table, said in hostile:
        pq.write_table(table, path)
        describe(path)
        with pytest.raises(InputError, match=said):
            read_rebuild_spec(recipe)
    pq.write_table(rows, path)
    describe(path)
    assert read_rebuild_spec(recipe)["kind"] == "recipe"


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


def test_what_is_needed_for_it_is_said(made, tmp_path, capsys):
    workspace = shutil.copytree(made / "cxr", tmp_path / "cxr")
    manifest = json.loads((workspace / "questions" / "manifest.json").read_text())
    del manifest["read_with"]
    write_json(workspace / "questions" / "manifest.json", manifest)
    assert run(["cxr", "recipe", "--out", str(workspace), "--to", str(tmp_path / "recipe")]) == 1
    assert "does not say how its source was read" in capsys.readouterr().err


def edited(recipe, **fields):
    manifest = read_object(recipe / "manifest.json", "")
    write_json(recipe / "manifest.json", manifest | fields)


@pytest.mark.parametrize(
    "name", ["../secret.parquet", "{tmp}/secret.parquet", "questions/../../secret.parquet", "answers.csv"]
)
def test_a_recipe_names_its_own_files_only(recipe, tmp_path, name):
    """A file elsewhere is not even read: whether its content is known would be told otherwise."""
    (tmp_path / "secret.parquet").write_bytes(b"secret")
    (recipe / "answers.csv").write_bytes(b"secret")
    name = name.format(tmp=tmp_path)
    files = read_object(recipe / "manifest.json", "")["files"]
    edited(recipe, files=files | {name: {"bytes": 6, "sha256": digest(b"secret")}})
    with pytest.raises(InputError, match="no file of a recipe"):
        read_rebuild_spec(recipe)


def test_what_is_no_regular_file_is_not_read(recipe, tmp_path):
    card = recipe / "README.md"
    card.unlink()
    card.symlink_to("/dev/null")  # of other devices and pipes a read never ends
    with pytest.raises(InputError, match="README.md: is missing or no regular file"):
        read_rebuild_spec(recipe)
    card.unlink()
    card.symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("of the user's own")
    with pytest.raises(InputError, match="not what the recipe describes") as told:
        read_rebuild_spec(recipe)
    assert "own" not in str(told.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"written_with": {"workspace": "elsewhere"}},
        {"written_with": {"unknown": 1}},
        {"written_with": {"rows_per_shard": "many"}},
        {"written_with": None},
        {"read_with": {"labeler": ["chexpert"]}},
        {"read_with": {"reports": "/somewhere"}},
        {"read_with": {"studies": 7}},
        {"source": ["phantom"]},
        {"source": "elsewhere"},
        {"seed": "one"},
        {"tables": {}},
        {"tables": {"studies.parquet": 1, "questions.parquet": 2}},
        {"shards": {"\x1b[2J": "0" * 64}},
        {"versions": {"no-such-package": "1"}},
        {"versions": None},
        {"files": {"README.md": "x"}},
        {"files": {"questions/train.parquet": {"bytes": 1, "sha256": "0" * 64, "note": "There is mild edema."}}},
        {"answers": {"engine": "extractive", "note": "There is mild edema."}},
        {"answers": {"engine": "extractive", "model": "There is mild edema. " * 10}},
        {"splits": {"train": {"rows": 1, "shards": 1, "studies": 1, "note": "There is mild edema."}}},
        {"splits": {"train": {"rows": "There is mild edema.", "shards": 1, "studies": 1}}},
        {"counts": {"There is mild edema.": 1}},
        {"rows_governance": "There is mild edema."},
        {
            "read_with": dict.fromkeys(("labeler", "labels", "encoding"), "Mild edema.")
            | {"sections": None, "studies": None}
        },
        {"notes": "There is mild edema."},
    ],
)
def test_a_manifest_that_says_something_else_is_refused_by_name(recipe, made, tmp_path, fields, capsys):
    edited(recipe, **fields)
    assert rebuild(recipe, made, tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert re.search(f"manifest.json: '?{next(iter(fields))}'? is ", error) and "\x1b" not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("held", [{"table_1": "There is mild edema."}, {"There is mild edema.": 1}, {"all": [1]}])
def test_the_statistics_hold_counts_alone(recipe, held):
    path = recipe / "statistics.json"
    write_json(path, read_object(path, "") | held)
    files = read_object(recipe / "manifest.json", "")["files"]
    edited(recipe, files=files | {path.name: {"bytes": path.stat().st_size, "sha256": digest_file(path)}})
    with pytest.raises(InputError, match=r"statistics.json: it holds more than counts") as told:
        read_rebuild_spec(recipe)
    assert "edema" not in str(told.value)
