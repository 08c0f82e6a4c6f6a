"""Synonyms: the bundled list, users' files and their conflicts."""

import pytest

from medvqa_core.errors import InputError
from rjua_meddqa.terms import KEYS, RANGES, RESULTS, load_terms

TERMS = load_terms()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (KEYS, ["印象", "病理诊断", "结论"]),
        (RANGES, ["参考范围", "正常范围", "正常区间", "标准值", "正常值", "参考区间", "参考值"]),
        (RESULTS, ["结果", "检查结果", "检测结果"]),
    ],
)
def test_the_paper_s_synonyms_share_a_term(kind, words):
    assert len({TERMS.canonical(kind, word) for word in words}) == 1
    assert set(words) <= set(TERMS.synonyms(kind, words[-1]))


def test_a_word_comes_first_among_its_synonyms_and_once():
    synonyms = TERMS.synonyms(KEYS, "样本种类")
    assert synonyms[0] == "样本种类" and "标本种类" in synonyms
    assert len(synonyms) == len(set(synonyms))


@pytest.mark.parametrize("written", ["性别：", " 性 别 ", "性别:", "患者性别"])
def test_white_space_and_colons_do_not_matter(written):
    assert TERMS.canonical(KEYS, written) == "性别"


def test_full_width_letters_are_those_of_ascii():
    assert TERMS.canonical(KEYS, "患者ＩＤ") == TERMS.canonical(KEYS, "患者id") == "病案号"


def test_an_unknown_word_is_its_own_term():
    assert TERMS.canonical(KEYS, " 穿刺针数 ") == "穿刺针数"
    assert TERMS.synonyms(KEYS, "穿刺针数") == ("穿刺针数",)
    assert not TERMS.knows(KEYS, "穿刺针数")


def test_a_word_with_several_meanings_is_left_out():
    assert not TERMS.knows(KEYS, "诊断")


def test_a_user_s_file_extends_the_list(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("keys:\n  印象: [影像意见]\n  穿刺针数: [针数]\n", encoding="utf-8")
    terms = load_terms(mine)
    assert terms.canonical(KEYS, "影像意见") == "印象" == terms.canonical(KEYS, "病理诊断")
    assert terms.synonyms(KEYS, "针数") == ("针数", "穿刺针数")
    assert TERMS.canonical(KEYS, "针数") == "针数"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("keys:\n  报告结论: [病理诊断]\n", "'印象'"),
        ("keys:\n  病理诊断: [病理意见]\n", "'印象'"),
        ("keys:\n  甲: [乙]\n  丙: [乙]\n", "'甲'"),
        ("keys:\n  甲: [乙]\n  甲: [丙]\n", "'甲'"),
        ("units:\n  克: [g]\n", "'units'"),
        ("keys: [甲, 乙]\n", "keys"),
        ("keys:\n  甲: 乙\n", "'甲'"),
        ("keys:\n  甲: [1]\n", "in quotes"),
        ("keys:\n  甲: ['']\n", "''"),
        ("keys:\n  1: [一]\n", "in quotes"),
        ("- 甲\n", "mapping"),
        ("keys: [\n", "Correct the file"),
        ("keys: !!python/object/apply:os.system ['true']\n", "Correct the file"),
    ],
)
def test_a_wrong_file_is_a_clear_error(text, expected, tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.yaml") as error:
        load_terms(mine)
    assert expected in str(error.value)


def test_json_with_a_repeated_name_is_an_error(tmp_path):
    mine = tmp_path / "mine.json"
    mine.write_text('{"keys": {"甲": ["乙"], "甲": ["丙"]}}', encoding="utf-8")
    with pytest.raises(InputError, match="甲"):
        load_terms(mine)
