"""The context base: neighbours by hand-made vectors and by character n-grams, and rows that cannot be used."""

import numpy as np
import pytest
from meddqa_data import CONTEXT_HEADER, CONTEXT_ROWS, context_cells

from medvqa_core.errors import ConfigError, InputError
from rjua_meddqa.generation.contexts import KINDS, ContextBase, ModelEncoder, NgramEncoder, load_encoder
from rjua_meddqa.released import read_cells
from rjua_meddqa.schema import ADVICE, CONTEXT_COLUMNS, DISEASE, STATUS


class Plane:
    """Vectors in a plane, given by hand."""

    name = "plane"

    def __init__(self, **vectors: tuple[float, float]) -> None:
        self.vectors = vectors

    def encode(self, titles):
        return np.array([self.vectors[title] for title in titles])


def base(*rows, encoder=None, header=CONTEXT_HEADER) -> ContextBase:
    return ContextBase(context_cells(rows or CONTEXT_ROWS, header), encoder or NgramEncoder())


def diseases(*titles) -> list[tuple[str, ...]]:
    return [(str(n), title, "检查-疾病", f"{title}的描述") for n, title in enumerate(titles, start=1)]


def titles(contexts) -> list[str]:
    return [context.title for context in contexts]


def test_neighbours_are_ordered_by_cosine_whatever_the_vectors_length():
    plane = Plane(a=(1, 0), b=(9, 1), c=(1, 1), d=(0, 0.1), e=(-5, 0))
    contexts = base(*diseases("e", "d", "c", "b", "a"), encoder=plane)
    assert titles(contexts.nearest([contexts.find("a", DISEASE)])) == ["b", "c", "d", "e"]


def test_ties_and_vectors_of_zeros_go_by_the_order_of_the_file():
    plane = Plane(a=(1, 0), b=(0, 0), c=(0, 1), d=(0, 2), e=(2, 0))
    contexts = base(*diseases("b", "d", "c", "e", "a"), encoder=plane)
    assert titles(contexts.nearest([contexts.find("a", DISEASE)])) == ["e", "b", "d", "c"]


def test_neighbours_are_of_the_same_kind():
    contexts = base()
    assert titles(contexts.nearest([contexts.find("低钾血症", ADVICE)])) == ["低钠血症"]


def test_character_ngrams_find_titles_that_look_alike():
    contexts = base()
    assert titles(contexts.nearest([contexts.find("低钾血症", DISEASE)]))[-1] == "肾结石"
    near = titles(contexts.nearest([contexts.find("低钠血症", DISEASE)]))
    assert near == ["低钾血症", "低钙血症", "高钾血症", "肾结石"]


def test_ngram_vectors_by_hand():
    vectors = NgramEncoder().encode(["甲乙", "甲"])
    common, rare = np.log(3 / 3) + 1, np.log(3 / 2) + 1  # 甲 is in both, 乙 and 甲乙 in one
    assert sorted(vectors[0]) == pytest.approx(sorted([common, rare, rare]))
    assert sorted(vectors[1]) == pytest.approx([0, 0, common])


def test_titles_are_found_by_task():
    rows = [
        ("1", "前列腺癌", "检查-疾病", "a"),
        ("2", "前列腺癌", "疾病-状态", "b"),
        ("3", "前列腺癌", "疾病-治疗", "c"),
        ("4", "前列腺癌", "疾病-建议", "d"),
    ]
    contexts = base(*rows)
    assert [contexts.find(" 前列腺癌 ", task).idx for task in (DISEASE, STATUS, ADVICE)] == ["1", "2", "4"]
    assert contexts.find("膀胱癌", DISEASE) is None
    assert {task for _, task in KINDS.values()} == {DISEASE, STATUS, ADVICE}


def test_an_option_column_gives_the_text_of_an_option():
    contexts = base(
        ("1", "甲", "疾病-建议", "d", "补钾"), ("2", "乙", "疾病-建议", "d", ""), header=(*CONTEXT_HEADER, "option")
    )
    assert [contexts.option(context) for context in contexts.contexts] == ["补钾", "乙"]


def test_contexts_without_title_or_description_are_counted_and_left_out():
    contexts = base(*diseases("甲"), ("2", " ", "检查-疾病", "d"), ("3", "丙", "检查-疾病", ""))
    assert titles(contexts.contexts) == ["甲"]
    assert contexts.skipped == {"no_title": 1, "no_description": 1}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("9", "甲", "检查-疾病", "d"), "contexts 1 and 9"),
        (("1", "乙", "检查-疾病", "d"), "'1'"),
        (("9", "乙", "检查", "d"), "'检查'"),
        (("9", "乙;丙", "检查-疾病", "d"), "'乙;丙'"),
        (("9;10", "乙", "检查-疾病", "d"), "'9;10'"),
        (("", "乙", "检查-疾病", "d"), "idx"),
    ],
)
def test_a_base_that_cannot_be_right_is_an_error(row, expected):
    with pytest.raises(InputError, match="row 2") as error:
        base(*diseases("甲"), row)
    assert expected in str(error.value)


def test_an_encoder_that_is_not_there_is_an_error(tmp_path):
    assert load_encoder("ngrams").name == "ngrams"
    with pytest.raises(ConfigError, match="encoder|loaded"):
        load_encoder(str(tmp_path))


@pytest.mark.slow
def test_a_sentence_encoder_serves_as_well():
    contexts = base(
        *diseases("kidney stone", "renal calculus", "broken arm", "prostate cancer"), encoder=ModelEncoder("minilm")
    )
    assert titles(contexts.nearest([contexts.find("kidney stone", DISEASE)]))[0] == "renal calculus"


def test_the_released_base_is_read(real_data):
    path = real_data / "rjua_samples" / "sampled_context_base.csv"
    contexts = ContextBase(read_cells(path, CONTEXT_COLUMNS), NgramEncoder())
    assert len(contexts.contexts) == 37 and not contexts.skipped
    markers = contexts.find("肿瘤标志物异常(PSA)", DISEASE)
    # the released wrong options of sample4 are the four other markers
    assert set(titles(contexts.nearest([markers])[:4])) == {
        f"肿瘤标志物异常({name})" for name in ("CEA", "NSE", "AFP", "ProGRP")
    }
