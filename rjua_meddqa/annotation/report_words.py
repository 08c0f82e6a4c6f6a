"""Vocabulary of printed reports: words for columns, keys and sections.

The lists are not taken from any one hospital's form. `terms.yaml`, which users can extend, adds keys.
"""

import re
import unicodedata
from collections import Counter
from difflib import SequenceMatcher
from functools import cache, lru_cache

INDEX, ITEM, CODE, RESULT = "index", "item", "code", "result"
FLAG, RANGE, UNIT, OTHER = "flag", "range", "unit", "other"

HEADER_WORDS: dict[str, str] = {
    word: role
    for role, words in (
        (INDEX, "序号 编号 序 行号 no no. #"),
        (
            ITEM,
            "项目 名称 项目名称 检验项目 检验项目名称 检测项目 检测项目名称 检查项目 检查项目名称 化验项目"
            " 分析项目 测定项目 试验项目 实验项目 中文名称 中文名 项目中文名称 指标 指标名称 检测指标 检验指标"
            " 检查指标 检验名称 检测名称 检测内容 item items test tests testitem",
        ),
        (
            CODE,
            "代号 代码 缩写 简称 英文 英文名 英文名称 英文缩写 项目代号 项目代码 英文代码 英文对照 code abbr abbr.",
        ),
        (
            RESULT,
            "结果 检验结果 检测结果 检查结果 测定结果 测试结果 化验结果 测定值 检测值 测量值 结果值 实测值"
            " 数值 本次结果 定量结果 定性结果 result results value",
        ),
        (FLAG, "提示 结果提示 状态 标志 标识 异常 异常提示 异常标志 高低 升降 判断 判定 结论 flag"),
        (
            RANGE,
            "参考范围 参考区间 参考值 参考值范围 参考值区间 正常值 正常范围 正常区间 正常参考值 正常值范围"
            " 标准值 标准范围 生物参考区间 生物参考值 参考标准 参考 参考区间/单位 参考值/单位 referencerange"
            " reference range referenceinterval",
        ),
        (UNIT, "单位 计量单位 结果单位 unit units"),
        (
            OTHER,
            "检测方法 方法 检验方法 测定方法 方法学 实验方法 仪器 检测仪器 备注 上次结果 历史结果 前次结果 method",
        ),
    )
    for word in words.split()
}
_LONGEST_HEADER = max(map(len, HEADER_WORDS))
SIMILAR = 0.74  # one of four characters misread

_TRADITIONAL = str.maketrans("別齡號診門區時間檢報", "别龄号诊门区时间检报")
_MORE_KEYS = """
    申请 诊断 采样 收样 报告 打印 采集 接收 核对 科别 病员号 病区名称 备注 检验者 核对者 审核者 报告者 操作者 批准者
    签发者 取材者 接收者 采集者 检验人 审核人 送检人 打印时间 打印日期 送检日期 送检时间 检验时间 临床症状 主诉
    现病史 检查结果 检验结果 结果 描述 提示 建议 意见 印象 所见 结论 病史 诊疗建议 附注 民族 职业 婚姻 籍贯 电话
    联系电话 住址 地址 费别 身份证号 体重 身高 检查设备 仪器型号 检查仪器 设备 造影剂 对比剂 检查项目 检验项目
    检查名称 医嘱项目 送检材料 送检部位 手术名称 标本 样本 标本状态 样本状态 标本性状 ID ID号 初诊医生 主诊医生
    复诊医生 审核医生 检查医生 执行科室 开单医生 患者 病人 门诊/住院号 报告单号 流水号 检验单号 申请单号 体检号
    主治医师 主管医师 入院诊断 出院诊断 术前诊断 术后诊断 诊疗经过 治疗经过 手术经过 入院情况 出院情况 出院医嘱 体格检查
    辅助检查 既往史 个人史 家族史 过敏史 治疗方案 处理意见 麻醉方式 手术方式 手术日期 术者 手术者
    送检 检验 审核 复核 签发 批准 录入 签收 医保号 住院/门诊号 登记号 就诊号
    超声号 放射号 CT号 MR号 MRI号 B超号 X线号 内镜号 蜡块号
"""
# CT所见, 超声诊断, 镜检意见: an examination and a word for its findings or conclusions
_LOOKED_WITH = """
    CT MR MRI DR X线 X光 PET-CT 磁共振 核磁 超声 彩超 B超 影像 影像学 放射 放射学 造影 病理 内镜 内窥镜 镜检 膀胱镜
    胃镜 肠镜
"""
_SEEN = "所见 表现 描述 征象 诊断 诊断意见 印象 提示 意见 结论"
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
    looked = {fold(tool + seen) for tool in _LOOKED_WITH.split() for seen in _SEEN.split()}
    return frozenset(terms.index[KEYS]) | {fold(word) for word in _MORE_KEYS.split()} | looked


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
        alike = [(similarity(word, known), known) for known in _can_be_alike(word)]
        best = max(alike, key=lambda entry: entry[0], default=(0.0, ""))
        if best[0] >= SIMILAR:
            return [(best[1], HEADER_WORDS[best[1]])]
    return None


def _can_be_alike(word: str) -> list[str]:
    """Return header words that share enough characters with `word` to reach SIMILAR."""
    letters = Counter(word)
    sharing = dict.fromkeys(known for letter in letters for known in _words_by_letter().get(letter, ()))
    return [known for known in sharing if 2 * (letters & Counter(known)).total() >= SIMILAR * (len(word) + len(known))]


@cache
def _words_by_letter() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in HEADER_WORDS:
        for letter in set(word):
            found.setdefault(letter, []).append(word)
    return found


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
