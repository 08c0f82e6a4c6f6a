"""Reading CSV: what comes back, and that every damage is an error naming file, row and remedy."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa_core import csv_files
from medvqa_core.csv_files import column_names, iterate_cells, iterate_csv, read_csv
from medvqa_core.errors import InputError

COLUMNS = {"n": pa.int64(), "text": pa.string()}


def save(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


@pytest.fixture(params=["a.csv", "a.csv.gz"])
def path(request, tmp_path) -> Path:
    return tmp_path / request.param


# --- what comes back


def test_wanted_columns_come_in_the_order_asked_for(path):
    table = read_csv(save(path, b"other,text,n\n9,x,1\n9,,2\n"), COLUMNS)
    assert table.to_pydict() == {"n": [1, 2], "text": ["x", None]}
    assert table.schema.equals(pa.schema(COLUMNS))


@pytest.mark.parametrize("empty", [b"", b'""', b"nan", b"NaN"])
def test_empty_cells_are_null(path, empty):
    table = read_csv(save(path, b"n,text,x\n1," + empty + b"," + empty + b"\n"), {**COLUMNS, "x": pa.float32()})
    assert table.to_pylist() == [{"n": 1, "text": None, "x": None}]


def test_quoted_values_hold_commas_quotes_and_line_breaks(path):
    data = b'n,text\n1,"a, ""b""\nc\r\nd"\n2,e\n'
    assert read_csv(save(path, data), COLUMNS)["text"].to_pylist() == ['a, "b"\nc\r\nd', "e"]


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbfn,text\n1,x\n", b"n,text\r\n1,x\r\n", b'"n","text"\n"1","x"\n', b"n,text\n1,x"]
)
def test_dialects_of_other_programs_are_read(path, data):
    assert read_csv(save(path, data), COLUMNS).to_pylist() == [{"n": 1, "text": "x"}]
    assert column_names(path) == ["n", "text"]


def test_a_header_alone_is_a_table_without_rows(path):
    assert len(read_csv(save(path, b"n,text\n"), COLUMNS)) == 0


def test_a_file_of_several_gzip_members_is_read_whole(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"n,text\n1,x\n") + gzip.compress(b"2,y\n"))
    assert read_csv(tmp_path / "a.csv.gz", COLUMNS)["n"].to_pylist() == [1, 2]


ROWS = 3000


def many_rows(width: int = 40) -> list[bytes]:
    return [b"n,text\n", *[b"%d,%s\n" % (n, b"x" * width) for n in range(ROWS)]]


def test_a_file_is_read_a_block_at_a_time(path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 4096)
    batches = list(iterate_csv(save(path, b"".join(many_rows())), COLUMNS))
    assert len(batches) > 10
    assert pa.Table.from_batches(batches)["n"].to_pylist() == list(range(ROWS))


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1), max_size=5))
def test_every_quoted_text_comes_back(tmp_path_factory, texts):
    texts = [text for text in texts if text not in ("nan", "NaN")]
    quoted = ['1,"{}"\n'.format(text.replace('"', '""')) for text in texts]
    path = save(tmp_path_factory.mktemp("csv") / "a.csv", ("n,text\n" + "".join(quoted)).encode())
    assert read_csv(path, COLUMNS)["text"].to_pylist() == texts


# --- damage: (content, what the message says)

DAMAGE = {
    "too many fields": (b"n,text\n1,x\n2,y,z\n3,w\n", r"row 3: 3 fields .* 2"),
    "too few fields": (b"n,text\n1,x\n2\n3,w\n", r"row 3: 1 fields .* 2"),
    "wrong row after a line break": (b'n,text\n1,"x\ny"\n2\n', r"row 3: 1 fields"),
    "wrong type": (b"n,text\n1,x\ntwo,y\n", r"column 'n', row 3: .*'two'"),
    "a fraction for a whole number": (b"n,text\n1.5,x\n", r"column 'n', row 2: .*'1.5'"),
    "not UTF-8": (b"n,text\n1,x\n2,caf\xe9\n", r"column 'text', row 3: .*UTF8.*to UTF-8"),
    "no such column": (b"n,texts\n1,x\n", r"no column 'text'.* n, text"),
    "no column at all": (b"a\n1\n", r"no column 'n', 'text'"),
    "empty": (b"", r"copy the file again"),
    "NUL in a text": (b'n,text\n1,"x\ny"\n2,a\0b\n', r"row 3: column 'text' .*NUL"),
    "UTF-16": ("n,text\n1,x\n".encode("utf-16"), r"Save the file as UTF-8"),
    "UTF-16 without a mark": ("n,text\n1,x\n".encode("utf-16-le"), r"Save the file as UTF-8"),
    "a blank line": (b"\n", r"copy the file again"),
    "no line break after the header": (b"n,text", r"copy the file again"),
}


@pytest.mark.parametrize(("data", "message"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_named(path, data, message):
    with pytest.raises(InputError, match=rf"{path.name}.*{message}"):
        read_csv(save(path, data), COLUMNS)


@pytest.mark.parametrize("line", [b"1,2,3\n", b"one,x\n", b"1,\xff\n", b"1,x\0\n"])
def test_damage_far_into_a_file_is_named_by_its_row(path, monkeypatch, line):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 4096)
    lines = many_rows()
    lines.insert(2000, line)  # lines count from 1
    seen = 0
    with pytest.raises(InputError, match="row 2001"):
        for batch in iterate_csv(save(path, b"".join(lines)), COLUMNS):
            seen += len(batch)
    assert 0 < seen < 2000  # what was good before it came in blocks


@pytest.mark.parametrize("wanted", [["n", "text"], ["text", "n"]])
def test_a_wrong_value_is_named_by_its_column_whatever_the_order(path, wanted):
    with pytest.raises(InputError, match=r"column 'n', row 3: .*'two'"):
        read_csv(save(path, b"other,text,n\n9,x,1\n9,y,two\n"), {name: COLUMNS[name] for name in wanted})


def test_a_gzip_cut_anywhere_is_an_error(tmp_path):
    whole = gzip.compress(b"".join(many_rows(width=3)), mtime=0)
    for kept in [*range(1, 40), *range(40, len(whole), 997), *range(len(whole) - 12, len(whole))]:
        (tmp_path / "a.csv.gz").write_bytes(whole[:kept])
        with pytest.raises(InputError, match=r"a\.csv\.gz: .*copy"):
            read_csv(tmp_path / "a.csv.gz", COLUMNS)


def test_a_damaged_gzip_is_an_error(tmp_path):
    whole = bytearray(gzip.compress(b"".join(many_rows()), mtime=0))
    whole[len(whole) // 2] ^= 0xFF
    for data in (bytes(whole), b"n,text\n1,x\n", gzip.compress(b"n,text\n1,x\n") + b"more"):
        (tmp_path / "a.csv.gz").write_bytes(data)
        with pytest.raises(InputError, match=r"a\.csv\.gz: .*copy it"):
            read_csv(tmp_path / "a.csv.gz", COLUMNS)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"")[:10] + b"\xff" * 40)
    with pytest.raises(InputError, match=r"a\.csv\.gz: .*Copy the file"):
        column_names(tmp_path / "a.csv.gz")


def test_a_missing_file_is_an_error(tmp_path):
    for read in (lambda p: read_csv(p, COLUMNS), column_names):
        with pytest.raises(InputError, match=r"absent\.csv"):
            read(tmp_path / "absent.csv")
        with pytest.raises(InputError, match="directory"):
            read(tmp_path)


@pytest.mark.parametrize("data", [b"\xff\xfen\0,\0", b"caf\xe9,n\n"])
def test_a_header_in_another_encoding_is_an_error(tmp_path, data):
    with pytest.raises(InputError, match=r"a\.csv.*UTF-8"):
        column_names(save(tmp_path / "a.csv", data))
    with pytest.raises(InputError, match=r"a\.csv"):
        read_csv(tmp_path / "a.csv", COLUMNS)


# --- row by row


def test_cells_come_as_text_with_the_number_of_their_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes('\ufeffid, name \r\n1,"two\r\nlines, ""quoted"""\r\n\r\n2,\u2028\r\n'.encode())
    assert list(iterate_cells(path, ["name"])) == [
        (1, {"id": "1", "name": 'two\r\nlines, "quoted"'}),
        (2, {"id": "2", "name": "\u2028"}),
    ]
    assert [number for number, _ in iterate_cells(path, [], first=2)] == [2, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"", "columns id .*none"),
        (b"id,id\n", "a column occurs twice"),
        (b"id,b\n1,2\n1,2,3\n", "row 2: 3 fields .* 2"),
        (b"id,b\n1\n", "row 1: 1 fields .* 2"),
        (b'id,b\n1,"x\n', "line 2: .*cut off"),
        (b"id,b\n1,\xff\n", "line 2: byte 0xff"),
        (b"id,b\n1,a\0\n", "line 2: contains a NUL byte"),
        ("id,b\n1,a\n".encode("utf-16"), "line 1: byte 0xff .*UTF-8"),
    ],
)
def test_rows_that_cannot_be_read_are_errors(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=rf"a\.csv.*{message}"):
        list(iterate_cells(tmp_path / "a.csv", ["id"]))
