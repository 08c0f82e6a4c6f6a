"""Pages of studies against what a plain look at every row says."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builds import build_release, describe_again

from medvqa_core.errors import InputError
from medvqa_hub.explore import row_filters
from medvqa_hub.explore.pictures import ImageRoot
from medvqa_hub.explore.row_filters import RowFilter, RowSearch
from medvqa_hub.explore.row_index import index_rows
from medvqa_hub.explore.row_reader import RowReader
from medvqa_hub.explore.studies import StudyView
from mimic_cxr_vqa.release import open_release


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Several shards a split, and row groups of 37 rows: studies lie across them."""
    build = build_release(tmp_path_factory.mktemp("explore"), studies=30, rows_per_shard=150)
    for path in build.workspace.release.glob("qa/*.parquet"):
        table = pq.read_table(path)
        lint = [["relative:since"] if number % 29 == 0 else [] for number in range(len(table))]
        provenance = [row | {"lint": flags} for row, flags in zip(table["provenance"].to_pylist(), lint, strict=True)]
        at = table.schema.get_field_index("provenance")
        table = table.set_column(at, "provenance", pa.array(provenance, table.schema.field(at).type))
        pq.write_table(table, path, row_group_size=37)
    describe_again(build.workspace.release)
    return open_release(build.workspace.release)


@pytest.fixture(scope="module")
def index(release):
    return index_rows(release)


@pytest.fixture(scope="module")
def rows(release):
    return pa.Table.from_batches(release.iterate_all()).to_pylist()


def pages(filterer, wanted):
    """All studies and counts of a filter, a page at a time; and what each page said of where it came."""
    at, looked, found, all_hits = 0, -1.0, {}, []
    while at is not None:
        hits = filterer.page(wanted, at, size=4)
        assert not found.keys() & set(hits.studies), "a study is on two pages"
        found |= dict(zip(hits.studies, hits.rows, strict=True))
        all_hits.append(hits)
        assert hits.next is None or hits.next > at or hits.looked > looked, "a page led nowhere"
        at, looked = hits.next, hits.looked
    return found, all_hits


def test_index_and_reader_have_every_row_in_its_place(index, rows):
    assert len(index.groups) > 6 and index.rows == len(rows)
    reader = RowReader(index)
    read = [row for place in range(index.studies) for row in reader.rows(*index.row_range(place))]
    assert [row["qa_id"] for row in read] == [row["qa_id"] for row in rows]
    assert [row["answer"] for row in read] == [row["answer"] for row in rows]
    assert [row["lint"] for row in read] == [row["provenance"]["lint"] for row in rows]
    backwards = [reader.rows(*index.row_range(place))[-1]["qa_id"] for place in reversed(range(index.studies))]
    assert backwards == [rows[end - 1]["qa_id"] for end in index.starts[:0:-1]]
    for place in range(index.studies):
        assert reader.study(place)["study_id"] == index.study_id[place]
        assert index.find(int(index.study_id[place])) == place
    assert index.find(7) is None


WANTED = {
    "all": (RowFilter(), lambda row: True),
    "category and label": (
        RowFilter(category="Edema", label="positive"),
        lambda row: row["category"] == "Edema" and row["label_value"] == "positive",
    ),
    "split": (RowFilter(split="test"), lambda row: row["split"] == "test"),
    "flag": (RowFilter(flag="relative:since"), lambda row: "relative:since" in row["provenance"]["lint"]),
    "text": (RowFilter(text="NO pleural"), lambda row: "no pleural" in (row["question"] + "|" + row["answer"]).lower()),
    "text and label": (
        RowFilter(text="effusion", label="negative"),
        lambda row: "effusion" in (row["question"] + "|" + row["answer"]).lower() and row["label_value"] == "negative",
    ),
    "nothing": (RowFilter(text="zebra stripes"), lambda row: False),
}


@pytest.mark.parametrize("patience", [-1.0, 10.0])
@pytest.mark.parametrize("name", WANTED)
def test_pages_hold_what_a_plain_look_finds(name, patience, index, rows, monkeypatch):
    monkeypatch.setattr(row_filters, "TIME_PER_PAGE", patience)  # -1: a page is late at once, and says so
    monkeypatch.setattr(row_filters, "BATCH", 7)  # less than a study
    monkeypatch.setattr(row_filters, "BATCH_BYTES", 300)  # two rows or three
    wanted, holds = WANTED[name]
    expected: dict[int, int] = {}
    for row in rows:
        if holds(row):
            place = index.find(row["study_id"])
            expected[place] = expected.get(place, 0) + 1
    found, all_hits = pages(RowSearch(index), wanted)
    assert list(found) == sorted(expected) and found == expected
    assert all_hits[-1].total == len(expected) and all_hits[-1].looked == 1.0
    if wanted.is_scan and patience < 0:
        assert all_hits[0].total is None and all_hits[0].looked < 1.0


def test_a_mask_says_which_rows_of_a_study_are_wanted(index, rows):
    wanted, holds = WANTED["text and label"]
    filterer = RowSearch(index)
    for place in range(index.studies):
        first, end = index.row_range(place)
        texts = pa.Table.from_pylist(rows[first:end]).select(["qa_id", "question", "answer"])
        assert filterer.mask(wanted, place, texts) == [holds(row) for row in rows[first:end]]


def test_a_slow_query_delays_nobody_else_and_stops_between_batches(index, rows, monkeypatch):
    """One search hangs within a batch. Other filters, and studies under the same filter, are served meanwhile."""
    monkeypatch.setattr(row_filters, "TIME_PER_PAGE", -1.0)
    monkeypatch.setattr(row_filters, "BATCH_TESTED", 10)
    started, released, calls = threading.Event(), threading.Event(), []

    def test(table, first, mask, wanted):
        calls.append(len(table))
        if len(calls) == 2:
            started.set()
            assert released.wait(60)
        return np.zeros(len(table), bool)

    search, slow = RowSearch(index, test), RowFilter(difference="failed")
    first = search.page(slow)
    assert calls == [10] and 0 < first.looked < 1 and first.total is None  # marked as partial
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(search.page, slow)
        assert started.wait(60)
        assert search.page(RowFilter(label="positive")).studies
        texts = pa.Table.from_pylist(rows[: index.row_range(0)[1]]).select(["qa_id", "question", "answer"])
        assert search.mask(slow, 0, texts) == [False] * len(texts)
        assert not hanging.done()
        released.set()
        assert hanging.result().looked > first.looked


def test_an_id_is_jumped_to(index, rows):
    view = StudyView(index, ImageRoot(None))
    row = rows[len(rows) // 2]
    for text in (str(row["study_id"]), f"s{row['study_id']}", row["qa_id"]):
        assert [line["study_id"] for line in view.page(RowFilter(text=text))["studies"]] == [row["study_id"]]
    of_patient = view.page(RowFilter(text=f"p{row['subject_id']}"))["studies"]
    assert {line["study_id"] for line in of_patient} == {
        other["study_id"] for other in rows if other["subject_id"] == row["subject_id"]
    }


@pytest.mark.parametrize(
    "wanted",
    [
        RowFilter(category="edema"),
        RowFilter(label="maybe"),
        RowFilter(flag="no such"),
        RowFilter(text="x"),
        RowFilter(text="x" * 201),
    ],
)
def test_unknown_names_are_refused_with_those_that_are_known(wanted, index):
    with pytest.raises(InputError, match="Expected|characters"):
        RowSearch(index).page(wanted)


def test_a_study_whose_rows_lie_apart_is_refused(release, tmp_path):
    table = pq.read_table(next(release.folder.glob("qa/train-00000*")))
    other = tmp_path / "apart.parquet"
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), other)
    apart = type(release)(**{**vars(release), "files": {"train": [other]}})
    with pytest.raises(InputError, match="contiguous"):
        index_rows(apart)
