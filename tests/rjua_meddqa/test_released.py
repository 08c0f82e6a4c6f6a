"""Released files: unchanged cells are kept, nothing is evaluated, nothing is skipped silently."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa_core.errors import InputError
from rjua_meddqa.released import (
    parse_key_values,
    parse_table,
    read_annotations,
    read_contexts,
    read_questions,
    write_annotations,
    write_questions,
)
from rjua_meddqa.schema import Annotation, TableRow

HEADER = "idx,img_path,kv,table,report_type,image_type,image_quality\r\n"
KV = "{'性别': '男','年龄':'50岁', '性别': '女'}"
TABLE = "[('尿酸', '5', '2.0-4，0', '是)'),('肌酐','1','无','无法判断')]"
ROW = f'7,a.png,"{KV}","{TABLE}", Laboratory,Photo,high\r\n'


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="annotations.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write_file


def test_a_row(write):
    (annotation,) = read_annotations(write(HEADER + ROW))
    assert annotation.key_values == (("性别", "男"), ("年龄", "50岁"), ("性别", "女"))  # the second key is kept
    assert annotation.table == (TableRow("尿酸", "5", "2.0-4，0", "是)"), TableRow("肌酐", "1", "无", "无法判断"))
    assert (annotation.report_type, annotation.image_type) == ("Laboratory", "photo")
    assert annotation.idx == "7" and annotation.extra == {}


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_unchanged_rows_are_written_byte_for_byte(write, tmp_path, start):
    content = (HEADER + ROW).encode()
    annotations = read_annotations(write(start + content))
    write_annotations(annotations, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == content


def test_unknown_columns_stay_in_their_place(write, tmp_path):
    content = "note,idx,img_path,kv,table,report_type,image_type,image_quality,reader\r\n"
    content += '"a, b",1,a.png,{},,CT,pdf,high,\r\n'
    (annotation,) = read_annotations(write(content))
    assert annotation.extra == {"note": "a, b", "reader": ""}
    write_annotations([annotation], tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == content.encode()


def test_only_the_changed_cell_changes(write, tmp_path):
    (annotation,) = read_annotations(write(HEADER + ROW))
    changed = replace(annotation, table=(replace(annotation.table[0], is_normal="否(偏高)"), annotation.table[1]))
    write_annotations([changed], tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_bytes().decode()
    assert "{'性别': '男','年龄':'50岁', '性别': '女'}" in text and ", Laboratory,Photo,high" in text
    assert read_annotations(tmp_path / "out.csv") == [changed]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)


@given(
    pairs=st.lists(st.tuples(texts, texts), max_size=4),
    rows=st.lists(st.tuples(texts, texts, texts, texts), max_size=3),
    extra=texts,
)
def test_any_annotation_survives(tmp_path_factory, pairs, rows, extra):
    path = tmp_path_factory.mktemp("released") / "a.csv"
    table = tuple(TableRow(*row) for row in rows)
    annotation = Annotation("1", "a.png", tuple(pairs), table, "CT", "pdf", "low", extra={"note": extra})
    write_annotations([annotation], path)
    assert read_annotations(path) == [annotation]
    before = path.read_bytes()
    write_annotations(read_annotations(path), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "cell",
    [
        "__import__('os').system('touch ran')",
        "{'a': __import__('os')}",
        "{**{}}",
        "{'a': ['b']}",
        "{'a': f'{1}'}",
        "dict(a=1)",
        "{'a'",
        "('a', 'b')",
        "{'a': 'b' if 1 else 'c'}",
        "(" * 500 + ")" * 500,
        "{'a': None}",
        "{'a': True}",
        "{'a': " + "-" * 100_000 + "1}",
        "{'a': 1" + "+1" * 100_000 + "}",
        "{'a': '\\ud800'}",  # half a character
        "{" + "'a': '', " * 130_000 + "}",  # a tree of half a gigabyte
    ],
)
def test_cells_are_never_evaluated(cell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="file, row 3: kv"):
        parse_key_values(cell, "file, row 3")
    assert not (tmp_path / "ran").exists()


def test_numbers_are_read_as_they_print():
    assert parse_key_values("{'a': 5, 'b': 1.50}", "x") == (("a", "5"), ("b", "1.50"))
    assert parse_key_values("{'年龄': '五', 'b':\n -0.10}", "x") == (("年龄", "五"), ("b", "-0.10"))
    assert parse_table("[('a', 1, '0-2', '是'), ('b',)]", "x") == (("a", "1", "0-2", "是"), ("b",))
    assert parse_key_values("  ", "x") == () and parse_table("", "x") == ()


@pytest.mark.parametrize("cell", ["{'a': 1}", "['a', 'b']", "[('a', ('b',))]", "[1]"])
def test_invalid_tables(cell):
    with pytest.raises(InputError, match="x: table"):
        parse_table(cell, "x")


def test_broken_rows_stop_or_are_counted(write):
    broken = "8,b.png,eval(1),,CT,pdf,high\r\n9,c.png,,\"[('a','b')]\",Laboratory,pdf,high\r\n1,d.png,,,CT,fax,high\r\n"
    path = write(HEADER + broken + ROW)
    with pytest.raises(InputError, match="row 1: kv"):
        read_annotations(path)
    skipped = []
    assert [annotation.idx for annotation in read_annotations(path, skipped)] == ["7"]
    assert len(skipped) == 3
    assert "row 1: kv" in skipped[0] and "table row 1" in skipped[1] and "'fax'" in skipped[2]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("idx,img_path,kv\r\n", "table, report_type, image_type, image_quality"),
        ("idx,idx,img_path,kv,table,report_type,image_type,image_quality\r\n", "occurs twice"),
        (HEADER + "1,a.png,,,CT,pdf\r\n", "row 1"),
        (HEADER + '1,"a\r\n', "line 2"),
        (b"\xff\xfe1", "UTF-8"),
        ("", "img_path"),
    ],
)
def test_invalid_files(write, content, problem):
    with pytest.raises(InputError, match=problem):
        read_annotations(write(content))


def question(**changes):
    record = {"img_path": "a.png", "question": "年龄是？", "answer": "50岁", "answer_length": 3, "task": "entity_qa"}
    record |= {"answer_type": "single_entity", "image_type": "PDF", "is_table": 0, "image_quality": "High"}
    return json.dumps(record | changes, ensure_ascii=False) + "\n"


def test_questions_in_and_out(write, tmp_path):
    content = question(answer="第一行\n第二行\u2028x") + question(note=[1, {"a": "b"}])
    questions = read_questions(write(content))
    assert questions[0].answer == "第一行\n第二行\u2028x" and questions[1].extra == {"note": [1, {"a": "b"}]}
    write_questions(questions, tmp_path / "out.json")
    assert (tmp_path / "out.json").read_bytes() == content.encode()


@pytest.mark.parametrize("line", ["{", "[1]", question(is_table="0"), question(answer=None), '{"question": "a"}', "3"])
def test_invalid_lines(write, line):
    with pytest.raises(InputError, match="line 2"):
        read_questions(write(question() + line.strip() + "\n"))


def test_contexts(write):
    content = '\ufeffidx,title,context_type,description\n1,肾结石治疗,疾病-治疗,"第一行\n第二行"\n'
    (context,) = read_contexts(write(content))
    assert (context.title, context.description) == ("肾结石治疗", "第一行\n第二行")
    with pytest.raises(InputError, match="row 1"):
        read_contexts(write("idx,title,context_type,description\n1, ,疾病,x\n"))


def test_released_files(real_data, tmp_path):
    folder = real_data / "rjua_samples"
    source = folder / "sampled_image_content_kv_table_annotation.csv"
    annotations = read_annotations(source)
    write_annotations(annotations, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == source.read_bytes()
    assert sum(len(annotation.table) for annotation in annotations) == 52
    questions = read_questions(folder / "sampled_image_content_vqa.json")
    write_questions(questions, tmp_path / "q.json")
    assert (tmp_path / "q.json").read_bytes() == (folder / "sampled_image_content_vqa.json").read_bytes()
    assert len(read_contexts(folder / "sampled_context_base.csv")) == 37
