"""Vocabulary of printed reports: words for columns, keys and sections.

The lists are those of `vocabulary.yaml`, not taken from any one hospital's form. `terms.yaml` adds keys.
"""

import re
import unicodedata
from difflib import SequenceMatcher, get_close_matches
from functools import cache, lru_cache

from rjua_meddqa.vocabulary import VOCABULARY

INDEX, ITEM, CODE, RESULT = "index", "item", "code", "result"
FLAG, RANGE, UNIT, OTHER = "flag", "range", "unit", "other"

HEADER_WORDS: dict[str, str] = {
    word: role for role, words in VOCABULARY["header_words"].items() for word in words.split()
}
_LONGEST_HEADER = max(map(len, HEADER_WORDS))
SIMILAR = 0.74  # one of four characters misread

_TRADITIONAL = str.maketrans("別齡號診門區時間檢報", "别龄号诊门区时间检报")
# Prefixes of known words in longer keys: 送检标本, 临床印象.
_QUALIFIER = re.compile(
    r"(?:送检|检查|检验|申请|病理|临床|患者|病人|报告|审核|执行|采集|接收|就诊|入院|出院|术前|术后|初步|最后|补充)(.+)"
)
# A short Chinese word with one of these endings is a key if a colon follows.
_KEY_ENDING = re.compile(
    r"[\u4e00-\u9fff/()A-Z]{0,8}(?:医生|医师|时间|日期|号码|编号|科室|病区|床号|诊断|所见|意见|提示|印象|结论|部位|方法|类型|种类|类别"
    r"|目的|描述|表现|医院|单位|年龄|性别|姓名|病史|主诉|签名|检验者|审核者|核对者|报告者|检查号|住院号|门诊号|条码号|[院诊病标样历床]号)"
)
_SECTION = re.compile(  # at the end of a key: 诊断 matches, 诊断医生 and 医嘱号 do not
    r"(?:所见|巨检|镜检|表现|诊断|印象|结论|意见|提示|描述|病史|主诉|建议|摘要|小结|分析|检查结果|检验结果|免疫组化|检查方法|检查技术|检查记录"
    r"|方案|治疗|经过|情况|医嘱|[往人族]史)(?:结果|内容|如下)?\d?(?:[(（].*[)）])?$"
)
BOILERPLATE = re.compile(
    r"签字有效|签章|盖章|仅对.{0,12}(?:标本|样本|样品)|仅供.{0,8}参考|[本此]报告|不作.{0,8}证明|第\s*\d+\s*页|共\s*\d+\s*页|版权|声明[:：]"
)


def fold(text: str) -> str:
    """Normalise `text` for comparison: ASCII for full-width forms, no white space, no final colon, lower case.

    OCR engines read some simplified characters as traditional ones (性別). These count as equal.
    """
    return "".join(unicodedata.normalize("NFKC", simplify(text)).split()).rstrip(":").lower()


def simplify(text: str) -> str:
    """Replace traditional characters that OCR engines read in names of fields by simplified ones."""
    return text.translate(_TRADITIONAL)


@cache
def known_keys() -> frozenset[str]:
    """Return the normalised names of report fields."""
    from rjua_meddqa.terms import KEYS, load_terms

    terms = load_terms()
    looked = {
        fold(tool + seen) for tool in VOCABULARY["examinations"].split() for seen in VOCABULARY["findings"].split()
    }
    return frozenset(terms.index[KEYS]) | {fold(word) for word in VOCABULARY["keys"].split()} | looked


def is_known_key(text: str) -> bool:
    """Whether `text` (without its colon) names a report field."""
    word = fold(text)
    return word in known_keys() or (len(word) > 1 and bool(_KEY_ENDING.fullmatch(word.upper())))


def is_qualified_key(text: str) -> bool:
    """Whether `text` is a known key with a qualifying word before it (送检标本, 诊断建议, but not 血清标本)."""
    word = fold(text)
    match = _QUALIFIER.fullmatch(word)
    cuts = ((word[:cut], word[cut:]) for cut in range(2, len(word) - 1))
    return bool(match and match[1] in known_keys()) or any(
        head in known_keys() and tail in known_keys() and is_section(head) and is_section(tail) for head, tail in cuts
    )


def is_section(key: str) -> bool:
    """Whether the value of `key` is running text that may take several lines."""
    return bool(_SECTION.search(key))


@lru_cache(maxsize=4096)
def header_roles(text: str) -> list[tuple[str, str]] | None:
    """Return (word, role) pairs if `text` consists of header words (`NO项目`, `参考区间`, `结果 单位`), else None."""
    apart = [HEADER_WORDS.get(fold(piece), "") for piece in text.split()]
    if len(apart) > 1 and all(apart) and len(set(apart)) == len(apart):  # 结果 单位 is not 结果单位
        return list(zip(map(fold, text.split()), apart, strict=True))
    word = re.sub(r"[()\[\]|·.,:*_]", "", fold(text)) if fold(text) not in HEADER_WORDS else fold(text)
    if word in HEADER_WORDS:
        return [(word, HEADER_WORDS[word])]
    if not word or len(word) > 4 * _LONGEST_HEADER:
        return None
    parts = _segment(word)
    if parts is not None:
        return [(part, HEADER_WORDS[part]) for part in parts]
    if 4 <= len(word) <= 8:
        return [(known, HEADER_WORDS[known]) for known in get_close_matches(word, HEADER_WORDS, 1, SIMILAR)] or None
    return None


def similarity(one: str, other: str) -> float:
    """Return the similarity of two texts, 0 to 1: twice the matching characters over all characters."""
    if not one and not other:
        return 1.0
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _segment(word: str) -> list[str] | None:
    """Split `word` into header words, longest first. None if a part is unknown."""
    if not word:
        return []
    for length in range(min(_LONGEST_HEADER, len(word)), 0, -1):
        if word[:length] in HEADER_WORDS:
            rest = _segment(word[length:])
            if rest is not None:
                return [word[:length], *rest]
    return None
