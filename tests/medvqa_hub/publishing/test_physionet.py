"""A submission for PhysioNet: what it holds, what it never holds, and a failing case for every rule."""

import csv
import gzip
import hashlib
import json
import re
import shutil

import pyarrow.parquet as pq
import pytest
from builds import describe_again

from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_hub.cli import run
from medvqa_hub.publishing import submission
from medvqa_hub.publishing.physionet import KEPT_NAME, publish_physionet
from medvqa_hub.publishing.submission import (
    COLUMNS,
    PREFIX,
    SECTIONS,
    TO_WRITE,
    check_front,
    check_name,
    check_sections,
    find_problems,
)

TITLE = f"{PREFIX}VQA"


def publish(built, out, **options):
    return publish_physionet(built.workspace.root, out, TITLE, log=lambda line: None, **options)


@pytest.fixture(scope="module")
def made(built, tmp_path_factory):
    """A submission of the drawn release, all of whose texts are written."""
    out = tmp_path_factory.mktemp("submission") / "out"
    publish(built, out)
    texts = out / "texts.md"
    texts.write_text(TO_WRITE.sub("A person wrote this.", texts.read_text()))
    return out


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "out")


def sum_again(folder) -> None:
    files = [path for path in sorted((folder / "files").iterdir()) if path.name != "SHA256SUMS.txt"]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.name}\n" for path in files]
    (folder / "files" / "SHA256SUMS.txt").write_text("".join(lines))


def in_the_way(folder) -> str:
    return "; ".join(f"{one.where}: {one.what}" for one in find_problems(folder))


def test_a_written_submission_has_nothing_in_its_way(made, capsys):
    assert find_problems(made) == []
    assert run(["doctor", "--publish", str(made)]) == 0
    assert "ready to submit" in capsys.readouterr().out


def test_what_a_person_must_write_is_listed_and_is_in_the_way(built, tmp_path, capsys):
    line = ["publish", "physionet", "--out", str(tmp_path / "out"), "--data", str(built.workspace.root)]
    assert run([*line, "--title", TITLE, "--check"]) == 0
    said = capsys.readouterr().out
    todo = (tmp_path / "out" / "TODO.md").read_text()
    for section in ("Background", "Ethics", "Conflicts of Interest"):
        assert f"{section}: still to write" in said and f"- [ ] {section}: still to write" in todo
    assert run(["doctor", "--publish", str(tmp_path / "out")]) == 1


def test_rows_are_the_release_s_without_report_sections(built, made):
    """CSV, Parquet and release agree row by row; nothing of the reports stands beside the answers."""
    rows = 0
    for split in built.manifest["splits"]:
        table = pq.read_table(made / "files" / f"{split}.parquet")
        assert table.column_names == list(COLUMNS) and not {"indication", "findings", "impression"} & {*COLUMNS}
        with gzip.open(made / "files" / f"{split}.csv.gz", "rt", newline="") as file:
            read = list(csv.DictReader(file))
        shards = sorted(built.workspace.release.glob(f"qa/{split}-*"))
        released = [row for shard in shards for row in pq.read_table(shard).to_pylist()]
        for name in ("qa_id", "question", "answer", "label_value"):
            assert [row[name] for row in read] == table[name].to_pylist() == [row[name] for row in released]
        assert [row["images"].split(";") for row in read] == [row["images"] for row in released]
        assert [row["model"] for row in read] == [row["provenance"]["model"] for row in released]
        rows += len(read)
    assert rows == built.manifest["counts"]["rows"]
    studies = pq.read_table(built.workspace.questions / "studies.parquet")
    everything = b"".join(path.read_bytes() for path in (made / "files").iterdir() if path.suffix != ".gz")
    everything += b"".join(gzip.decompress(path.read_bytes()) for path in (made / "files").glob("*.gz"))
    indications = [text for text in studies["indication"].to_pylist() if text and len(text.split()) > 3]
    assert indications and not any(text.encode() in everything for text in indications)


def test_figures_of_the_texts_are_the_release_s(built, made):
    texts = (made / "texts.md").read_text()
    counts = built.manifest["counts"]
    assert f"{counts['rows']:,} questions with answers about {counts['studies_with_questions']:,} chest" in texts
    share = float(re.search(r"([0-9.]+)% of the answers' distinct phrases", texts)[1])
    longest = int(re.search(r"longest quotation has (\d+) words", texts)[1])
    assert 0 < share < 100 and longest >= 8
    words = [
        re.findall(r"[^\W_]+", " ".join(row[name] or "" for name in ("findings", "impression", "indication")).lower())
        for row in pq.read_table(built.workspace.questions / "studies.parquet").to_pylist()
    ]
    reports = [f" {' '.join(report)} " for report in words]
    answers = {a for p in built.workspace.release.glob("qa/*") for a in pq.read_table(p)["answer"].to_pylist()}
    grams = set()
    for answer in answers:
        spoken = re.findall(r"[^\W_]+", answer.lower())
        grams |= {" ".join(spoken[i : i + 8]) for i in range(len(spoken) - 7)}
    expected = sum(any(f" {gram} " in report for report in reports) for gram in grams) / len(grams)
    assert share == pytest.approx(100 * expected, abs=0.06)


def test_the_same_release_gives_the_same_bytes(built, tmp_path):
    for name in ("one", "two"):
        publish(built, tmp_path / name)
    one, two = (
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
        for name in ("one", "two")
    )
    assert one == two and len(one) == 12


def test_what_a_person_wrote_outlives_another_run(built, folder):
    mine = (folder / "texts.md").read_text()
    publish(built, folder)
    assert (folder / "texts.md").read_text() == mine
    assert "[TO WRITE" in (folder / KEPT_NAME).read_text()
    publish(built, folder)  # and a third
    assert (folder / "texts.md").read_text() == mine


def test_a_run_that_stops_leaves_the_earlier_folder(built, folder, monkeypatch):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def stop(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr("medvqa_hub.publishing.physionet._texts", stop)
    with pytest.raises(KeyboardInterrupt):
        publish(built, folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("title", ["MIMIC-CXR-VQA", "Ext of MIMIC-CXR", PREFIX, PREFIX + 200 * "a"])
def test_titles_that_it_does_not_take(built, tmp_path, title):
    with pytest.raises(ConfigError, match="title"):
        publish_physionet(built.workspace.root, tmp_path / "out", title)
    assert not (tmp_path / "out").exists()


def test_rows_of_open_i_are_not_submitted(built, tmp_path):
    workspace = shutil.copytree(built.workspace.root, tmp_path / "cxr")
    manifest = workspace / "release" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"governance": "no-derivatives"}))
    with pytest.raises(GovernanceError, match="rebuild-spec"):
        publish_physionet(workspace, tmp_path / "out", TITLE)


def test_a_report_sentence_outside_of_the_answers_is_refused(built, tmp_path):
    """A release whose column of models carries a finding."""
    workspace = shutil.copytree(built.workspace.root, tmp_path / "cxr")
    studies = pq.read_table(workspace / "questions" / "studies.parquet")
    sentence = max((text for text in studies["findings"].to_pylist() if text), key=len)
    shard = next((workspace / "release" / "qa").glob("train-*"))
    rows = pq.read_table(shard)
    schema, rows = rows.schema, rows.to_pylist()
    rows[0]["provenance"]["prompt_version"] = " ".join(sentence.split()[:9])
    pq.write_table(pq.read_table(shard).from_pylist(rows, schema=schema), shard)
    describe_again(workspace / "release")
    with pytest.raises(GovernanceError, match="prompt_version.*9"):
        publish_physionet(workspace, tmp_path / "out", TITLE)
    assert not (tmp_path / "out").exists()


FRONT = {"title": TITLE, "short_description": "Rows.", "version": "1.0.0", "license": "L"}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("title", "MIMIC-CXR-VQA", "does not begin with MIMIC-CXR-Ext-"),
        ("title", PREFIX + 187 * "a", "has 201 characters. The limit is 200."),
        ("short_description", "", "is missing"),
        ("short_description", 251 * "a", "has 251 characters. The limit is 250."),
        ("version", "one", "not a version"),
        ("version", "1", "not a version"),
        ("license", "", "is missing"),
    ],
)
def test_each_rule_of_the_front(field, value, said):
    assert list(check_front(FRONT)) == []
    (one,) = check_front(FRONT | {field: value})
    assert one.where == field and said in one.what


def test_titles_and_descriptions_of_just_the_length_pass():
    assert not list(check_front(FRONT | {"title": PREFIX + 186 * "a", "short_description": 250 * "a"}))


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_is_needed(section):
    whole = dict.fromkeys(SECTIONS, "Text.")
    assert list(check_sections(whole)) == []
    for text in ("", " \n"):
        (one,) = check_sections(whole | {section: text})
        assert (one.where, one.what) == (section, "is missing or empty")
    (one,) = check_sections(whole | {section: "[TO WRITE: this]"})
    assert one.what == "still to write: this"


def test_an_abstract_has_250_words():
    whole = dict.fromkeys(SECTIONS, "Text.")
    assert not list(check_sections(whole | {"Abstract": "word " * 250}))
    (one,) = check_sections(whole | {"Abstract": "word " * 251})
    assert one.what == "has 251 words. The limit is 250."


@pytest.mark.parametrize("name", ["a b.csv", ".hidden", "-a", "a.", "a-", "a..b", "ä.csv", 101 * "a"])
def test_file_names(name):
    assert len(list(check_name(name, name))) == 1
    assert not list(check_name("a_b-c.1.csv", ""))


def test_files_that_do_not_go(folder):
    files = folder / "files"
    (files / "a b.jpg").write_bytes(b"\xff\xd8\xff")
    (files / "images").mkdir()
    sum_again_with = in_the_way(folder)
    for said in (
        "a b.jpg: invalid name", "a b.jpg: is not a file of a submission", "a b.jpg: is not in SHA256SUMS.txt",
        "images: is not a file",
    ):  # fmt: skip
        assert said in sum_again_with


def test_a_link_is_not_read(folder):
    (folder / "files" / "train.csv.gz").unlink()
    (folder / "files" / "train.csv.gz").symlink_to("/etc/passwd")
    assert in_the_way(folder) == "train.csv.gz: is a link"


def test_size_is_noted(folder, monkeypatch):
    monkeypatch.setattr(submission, "BYTES", 1000)
    (one,) = find_problems(folder)
    assert one.note and "Ask PhysioNet" in one.what


def test_checksums(folder):
    sums = folder / "files" / "SHA256SUMS.txt"
    whole = sums.read_text()
    assert re.fullmatch(r"([0-9a-f]{64} [A-Za-z0-9_.-]+\n){8}", whole)
    (folder / "files" / "LICENSE.txt").write_text("another")
    assert in_the_way(folder) == "LICENSE.txt: does not have the sha256 in SHA256SUMS.txt"
    sum_again(folder)
    assert in_the_way(folder) == ""
    sums.write_text(sums.read_text() + f"{'0' * 64} gone.txt\n{'0' * 64}  two-spaces.txt\n")
    said = in_the_way(folder)
    assert "gone.txt: is in SHA256SUMS.txt, but missing" in said and "two-spaces.txt': expected a sha256" in said
    sums.unlink()
    assert "SHA256SUMS.txt: is missing" in in_the_way(folder)


def change_table(folder, change) -> str:
    path = folder / "files" / "test.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    sum_again(folder)
    return in_the_way(folder)


def test_report_sections_in_a_table(folder):
    said = change_table(folder, lambda t: t.append_column("indication", t["question"]))
    assert said == "test.parquet: differs from a submission's columns: indication"


def test_an_image_as_text_in_a_table(folder):
    import pyarrow as pa

    def put_in(table):
        place = table.column_names.index("answer")
        return table.set_column(place, "answer", pa.array(["iVBORw0KGgoAAAANS"] * len(table)))

    assert "column answer contains an image as text" in change_table(folder, put_in)


def test_csv_and_parquet_that_differ(folder):
    assert "test.csv.gz: does not have the rows of test.parquet" in change_table(folder, lambda t: t.slice(1))
    path = folder / "files" / "validate.csv.gz"
    whole = gzip.decompress(path.read_bytes())
    line = whole.splitlines()[1]
    for edited in (
        whole.replace(line, line.replace(b'"validate"', b'"train"')),
        whole.replace(line, line + b',"a sentence of its report"'),
        whole + line + b"\n",
    ):
        assert edited != whole
        path.write_bytes(gzip.compress(edited))
        sum_again(folder)
        assert "validate.csv.gz: does not have the rows of validate.parquet" in in_the_way(folder)
    path.write_bytes(gzip.compress(whole))
    sum_again(folder)
    assert "validate" not in in_the_way(folder)
    (folder / "files" / "train.csv.gz").unlink()
    sum_again(folder)
    assert "train: is only in CSV or only in Parquet" in in_the_way(folder)


def test_a_torn_table_and_no_table(folder):
    (folder / "files" / "test.parquet").write_bytes(b"PAR1")
    sum_again(folder)
    assert "test: cannot be read" in in_the_way(folder)
    for path in (folder / "files").glob("*.*"):
        if path.name.startswith(("train", "test", "validate")):
            path.unlink()
    sum_again(folder)
    assert in_the_way(folder) == "files: does not hold a table"


@pytest.mark.parametrize("text", ["", "no front", "---\n[\n---\n", "---\njust words\n---\n"])
def test_texts_that_cannot_be_read(folder, text):
    (folder / "texts.md").write_text(text)
    assert "texts.md: cannot be read" in in_the_way(folder)


def test_another_folder_is_none(built):
    with pytest.raises(InputError, match="publish physionet"):
        find_problems(built.workspace.release)


def test_a_cell_says_what_a_value_is():
    for cell, value in (("PA;AP", ["PA", "AP"]), ("", ["PA", None]), ("", []), ("", None), ("0", 0.0), ("3", 3)):
        assert submission._is_equal(cell, value)
        assert not submission._is_equal("7", value)
