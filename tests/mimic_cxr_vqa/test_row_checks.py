"""What only shows over whole splits: a question twice, a patient in two splits."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import FIRST_STUDY, FIRST_SUBJECT, qa_batch, qa_row

from medvqa_core.errors import ConfigError, InputError
from mimic_cxr_vqa.question_list import QUESTION_SLUGS
from mimic_cxr_vqa.row_checks import RowChecks

UNKNOWN = "edema-x0a1b2c3d"  # a question that is not among the 90


def check(*splits: tuple[str, list[list[dict]]]) -> None:
    """Feed every split's batches, given as lists of rows."""
    checks = RowChecks()
    for split, batches in splits:
        for rows in batches:
            checks.add(qa_batch(*rows))
        checks.finish_split(split)


def test_all_90_questions_of_several_studies_pass():
    slugs = [*QUESTION_SLUGS.to_pylist(), UNKNOWN]
    check(("train", [[qa_row(n, slug) for slug in slugs] for n in range(3)]), ("test", [[qa_row(9)]]))


def test_the_same_numbers_in_another_study_pass():
    """Study numbers that are each other's beginnings, and categories that begin alike."""
    rows = [qa_row(0, s, qa_id=f"s{n}-{s}", study_id=n) for n in (1, 12, 128, 129) for s in ("edema-1", "pneumonia-1")]
    check(("train", [rows]))


@pytest.mark.parametrize("slug", ["edema-1", "enlarged_cardiomediastinum-6", "heart-1", UNKNOWN])
@pytest.mark.parametrize("apart", [False, True], ids=["in one batch", "in two batches"])
def test_a_question_twice_is_an_error(slug, apart):
    rows = [qa_row(0, "fracture-1"), qa_row(0, slug), qa_row(1, slug), qa_row(0, slug)]
    batches = [rows[:2], rows[2:]] if apart else [rows]
    with pytest.raises(InputError, match=f"qa_id 's{FIRST_STUDY}-{slug}' occurs twice"):
        check(("train", batches))


def test_repeated_rows_are_counted():
    with pytest.raises(InputError, match=r"train: .*3 repeated rows"):
        check(("train", [[qa_row(0)] * 3, [qa_row(1)] * 2]))


@pytest.mark.parametrize("splits", [("train", "test"), ("test", "train"), ("train", "validate")])
def test_a_patient_in_two_splits_is_an_error(splits):
    first, second = splits
    shared = qa_row(5, subject_id=FIRST_SUBJECT)
    with pytest.raises(InputError, match=f"patient {FIRST_SUBJECT} .*{first} and {second}"):
        check((first, [[qa_row(0)], [qa_row(1)]]), (second, [[qa_row(3), shared]]))


def test_a_patient_is_found_across_a_split_between():
    with pytest.raises(InputError, match="splits train and test"):
        check(("train", [[qa_row(0)]]), ("validate", [[qa_row(1)]]), ("test", [[qa_row(2, subject_id=FIRST_SUBJECT)]]))


def test_the_shards_of_one_split_may_share_patients():
    check(("train", [[qa_row(0)]]), ("train", [[qa_row(1, subject_id=FIRST_SUBJECT)]]))


def test_a_split_without_rows_passes():
    check(("train", []), ("test", [[]]), ("validate", [[qa_row(0)]]))


def test_tables_of_several_chunks_are_checked_too():
    checks = RowChecks()
    checks.add(pa.Table.from_batches([qa_batch(qa_row(0)), qa_batch(qa_row(1), qa_row(0))]))
    with pytest.raises(InputError, match=f"s{FIRST_STUDY}-edema-1"):
        checks.finish_split("train")


def kept_rows(*batches: list[dict], policy: str = "first") -> tuple[list[tuple], int]:
    checks = RowChecks(duplicates=policy)
    kept = [(row["qa_id"], row["answer"]) for rows in batches for row in checks.add(qa_batch(*rows)).to_pylist()]
    checks.finish_split("train")
    return kept, checks.left_out


def test_of_a_repeated_question_the_first_row_is_kept_and_the_others_counted():
    first, echo = qa_row(0, answer="first"), qa_row(0, answer="echo")
    other, unknown = qa_row(0, "edema-2"), qa_row(1, UNKNOWN)
    expected = [(row["qa_id"], row["answer"]) for row in (first, other, unknown)]
    assert kept_rows([first, echo, other, unknown]) == (expected, 1)  # in a batch
    assert kept_rows([first], [echo, other, unknown]) == (expected, 1)  # in the next
    assert kept_rows([first], [qa_row(7)], [other, echo], [unknown, unknown, echo])[1] == 3  # after others
    assert kept_rows([first], [first], [first])[0] == [(first["qa_id"], "first")]
    assert kept_rows([first, other], [unknown]) == (expected, 0)
    with pytest.raises(InputError, match="occurs twice"):
        kept_rows([first], [echo], policy="error")
    with pytest.raises(ConfigError, match="duplicates='last': .*error and first"):
        RowChecks(duplicates="last")


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=6), min_size=1, max_size=5))
def test_first_keeps_what_a_dictionary_would_keep(batches):
    rows = [
        [qa_row(n, f"edema-{k}", answer=str((b, i))) for i, (n, k) in enumerate(part)] for b, part in enumerate(batches)
    ]
    expected: dict[str, str] = {}
    for row in (row for part in rows for row in part):
        expected.setdefault(row["qa_id"], row["answer"])
    assert dict(kept_rows(*rows)[0]) == expected and len(kept_rows(*rows)[0]) == len(expected)
