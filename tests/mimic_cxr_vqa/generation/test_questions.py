"""Which questions a study is asked: the rule of the paper as released, and that nothing but seed and study decides."""

import hashlib
import re
from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import FIRST_STUDY, study, study_table

from mimic_cxr_vqa.generation.questions import (
    eligible_studies,
    question_batches,
)
from mimic_cxr_vqa.question_list import QUESTIONS
from mimic_cxr_vqa.schema import CATEGORIES, CHEXPERT_LABELS, QUESTION_SCHEMA, category_slug

LABELS = st.fixed_dictionaries({label: st.sampled_from([1, 0, -1, None, None, None]) for label in CHEXPERT_LABELS})
HEART_TEXTS = ["The heart is normal.", "HEART: large", "Heartbeat artefact", "no cardiac or xheArtx finding", "hea\nrt"]
FINDINGS = st.sampled_from(["Clear lungs.", "Hart Island", *HEART_TEXTS])
STUDIES = st.lists(st.tuples(LABELS, FINDINGS), min_size=1, max_size=8)
SEEDS = st.integers(-(2**70), 2**70)
VALUES = {1: "positive", 0: "negative", -1: "uncertain"}


def tabulate(drawn: list[tuple[dict, str]]) -> pa.Table:
    return study_table(*[study(n, labels, findings=text) for n, (labels, text) in enumerate(drawn)])


def ask(studies: pa.Table, seed: int = 0, per_batch: int = 4096) -> list[dict]:
    return [row for batch in question_batches(studies, seed, per_batch) for row in batch.to_pylist()]


def expected_labels(labels: dict[str, int | None], findings: str) -> dict[str, int]:
    """The stated labels of a study, Heart among them."""
    heart = {"Heart": 1} if "heart" in findings.lower() else {}
    return {category: value for category, value in {**labels, **heart}.items() if value is not None}


# --- the rule


@given(STUDIES, SEEDS)
def test_every_stated_label_gets_its_six_questions(drawn, seed):
    asked = defaultdict(list)
    for row in ask(tabulate(drawn), seed):
        asked[row["study_id"], row["category"]].append((row["question"], row["label_value"]))
    for number, (labels, text) in enumerate(drawn):
        for category, value in expected_labels(labels, text).items():
            rows = asked[FIRST_STUDY + number, category]
            assert rows == [(question, VALUES[value]) for question in QUESTIONS[category]]


@given(STUDIES, SEEDS)
def test_no_question_comes_twice_and_every_row_is_what_its_id_says(drawn, seed):
    rows = ask(tabulate(drawn), seed)
    assert len({row["qa_id"] for row in rows}) == len(rows)
    for row in rows:
        number = QUESTIONS[row["category"]].index(row["question"]) + 1
        assert row["qa_id"] == f"s{row['study_id']}-{category_slug(row['category'])}-{number}"


def mix(x: int) -> int:
    """SplitMix64's finaliser on a Python integer."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def draw_one_by_one(study_id: int, stated: dict[str, int], seed: int) -> set[tuple[str, int]]:
    """The rule again, a study at a time on lists: (category, question number) of every question."""
    golden = 0x9E3779B97F4A7C15
    words, rest = [abs(seed) % 2**64], abs(seed) >> 64
    while rest:
        words, rest = [*words, rest % 2**64], rest >> 64
    if not 0 <= seed < 2**64:  # a last word for the sign
        words.append(1 if seed > 0 else 2)
    key = mix(study_id)
    for word in words:
        key = mix(key ^ mix((word + golden) % 2**64))
    random = (mix((key + n * golden) % 2**64) >> 32 for n in range(1, 1000))
    asked = {(category, number) for category in stated for number in range(6)}
    candidates = [c for c in CHEXPERT_LABELS if c not in stated and c != "No Finding"]
    for _ in range(4 * sum(value == 1 for value in stated.values())):
        if candidates:
            category = candidates[next(random) * len(candidates) >> 32]
            free = [number for number in range(6) if (category, number) not in asked]
            choice = next(random) * len(free) >> 32
            if free:
                asked.add((category, free[choice]))
    return asked


@given(STUDIES, SEEDS)
def test_drawing_all_studies_at_once_equals_drawing_one_by_one(drawn, seed):
    rows = ask(tabulate(drawn), seed)
    for number, (labels, text) in enumerate(drawn):
        mine = [row for row in rows if row["study_id"] == FIRST_STUDY + number]
        asked = {(row["category"], QUESTIONS[row["category"]].index(row["question"])) for row in mine}
        assert asked == draw_one_by_one(FIRST_STUDY + number, expected_labels(labels, text), seed)


def test_the_random_numbers_are_those_of_every_earlier_release():
    """A change here would give every study of a published build other questions."""
    table = study_table(study(0, {"Edema": 1, "Pneumonia": 0}, findings="Heart size is normal."))
    drawn = [row["qa_id"].split("-", 1)[1] for row in ask(table, seed=7) if row["label_value"] == "not_mentioned"]
    assert drawn == [
        "atelectasis-2", "atelectasis-6", "consolidation-5", "lung_opacity-1", "lung_opacity-3", "pleural_effusion-1",
        "pleural_effusion-5", "support_devices-1",
    ]  # fmt: skip


@pytest.mark.parametrize("findings", [None, "", "   ", "\n\t \r\n", "\u00a0\u2003"])
def test_a_study_without_findings_is_asked_nothing(findings):
    table = study_table(study(0, {"Edema": 1}, findings=findings), study(1, {"Edema": 1}))
    assert {row["study_id"] for row in ask(table)} == {FIRST_STUDY + 1}
    assert eligible_studies(table)["study_id"].to_pylist() == [FIRST_STUDY + 1]
    assert ask(table.slice(0, 1)) == [] and ask(table.slice(0, 0)) == []


# --- what decides


def by_study(rows: list[dict]) -> dict[int, list[dict]]:
    grouped = defaultdict(list)
    for row in rows:
        grouped[row["study_id"]].append(row)
    return grouped


@given(STUDIES, SEEDS, st.data())
def test_order_batches_and_shards_do_not_matter(drawn, seed, data):
    table = tabulate(drawn)
    whole = ask(table, seed)
    assert [row["study_id"] for row in whole] == sorted(row["study_id"] for row in whole)
    assert ask(table, seed, per_batch=data.draw(st.integers(1, 9))) == whole
    order = data.draw(st.permutations(range(len(table))))
    assert by_study(ask(table.take(pa.array(order)), seed)) == by_study(whole)
    cut = data.draw(st.integers(0, len(table)))
    assert ask(table.slice(0, cut), seed) + ask(table.slice(cut), seed) == whole


def test_rows_carry_what_belongs_to_their_study():
    images = [[("a.jpg", "PA"), ("b.jpg", None)], [], None, [("c.jpg", "LL")]]
    studies = [
        study(
            n,
            {"Edema": 0},
            split="test",
            indication=None if n else "pain",
            images=pairs and [{"path": path, "dicom_id": path, "view": view} for path, view in pairs],
        )
        for n, pairs in enumerate(images)
    ]
    table = study_table(study(9, {"Edema": 0}), *studies).slice(1)
    rows = ask(table, per_batch=3)
    assert [len(group) for group in by_study(rows).values()] == [6] * 4
    for number, pairs in enumerate(images):
        for row in by_study(rows)[FIRST_STUDY + number]:
            assert list(zip(row["images"], row["views"], strict=True)) == (pairs or [])
            assert (row["split"], row["indication"]) == ("test", None if number else "pain")
    assert all(batch.schema.equals(QUESTION_SCHEMA) for batch in question_batches(table, 0))


# --- Appendix A


def test_there_are_90_questions_and_no_letter_of_them_changes():
    assert tuple(QUESTIONS) == CATEGORIES and all(len(questions) == 6 for questions in QUESTIONS.values())
    text = "\n".join(question for questions in QUESTIONS.values() for question in questions)
    assert len(set(text.split("\n"))) == 90
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "1df44c6bf295593111a421bd5fb4801d661bbfd45fe25f89cea6ad9425a02267"
    )


def test_the_questions_are_those_of_appendix_a(real_data):
    paper = real_data.parent / "seeds" / "002_7894bc8c0384fd00.txt"
    if not paper.is_file():
        pytest.skip(f"no text of the paper at {paper}")
    appendix = paper.read_text(encoding="utf-8").split("Appendix A. Question List")[1].split("Appendix B.")[0]
    printed = {
        name: tuple(f"{question}?" for question in re.split(r"\?\s*", text)[:-1])
        for name, text in re.findall(r"^- \*\*(.+?):\*\* (.+)$", appendix, re.MULTILINE)
    }
    printed["Enlarged Cardiomediastinum"] = printed.pop("Enlarged Cardiomedistinum")  # the label file's spelling
    assert printed == QUESTIONS
