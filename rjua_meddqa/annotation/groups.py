"""Patient groups of reference ranges, and what a page states about its patient.

Ranges depend on sex, age, menstrual phase and pregnancy (`男:0-15 女:0-20`, `<40岁`, `卵泡期`, `孕早期`). A group is
left out only when the page contradicts it. A missing statement keeps every group.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from rjua_meddqa.annotation.report_words import fold
from rjua_meddqa.vocabulary import VOCABULARY

Span = tuple[float, float]  # from, to (exclusive)

YEARS = {"岁": 1.0, "周岁": 1.0, "y": 1.0, "月": 1 / 12, "个月": 1 / 12, "月龄": 1 / 12}
YEARS |= {"周": 7 / 365.25, "周龄": 7 / 365.25, "天": 1 / 365.25, "日": 1 / 365.25, "日龄": 1 / 365.25}
YEARS |= {"小时": 1 / 8766}
_UNIT = r"(?:周岁|岁|个月|月龄|月|周龄|周|天|日龄|日|小时|[yY](?![A-Za-z]))"
AGE = re.compile(  # 18-60岁, <40岁, 60岁以上, 5岁; signs as `ranges.plain` writes them
    rf"(?:年龄\s*:?\s*)?(?:(?P<low>\d+)\s*(?P<low_unit>{_UNIT})?\s*(?:-|~|至|到)+\s*(?P<high>\d+)\s*(?P<unit>{_UNIT})"
    rf"|(?P<sign>[<>≤≥])\s*(?P<bound>\d+)\s*(?P<sign_unit>{_UNIT})"
    rf"|(?P<word_age>\d+)\s*(?P<word_unit>{_UNIT})\s*(?P<word>及?以上|及?以下|以内)"
    r"|(?P<age>\d+)\s*(?P<age_unit>周岁|岁))"
)
WEEKS = re.compile(r"(?:怀孕|妊娠|孕)\s*第?\s*(?P<low>\d+)(?:\s*周?\s*(?:-|~|至)\s*(?P<high>\d+))?\s*周")
_TRIMESTERS = (("早", (0.0, 14.0)), ("中", (13.0, 28.0)), ("晚", (27.0, 43.0)))
_STAGES: dict[str, Span] = {word: (low, high) for word, (low, high) in VOCABULARY["stages"].items()}
_PHASES: dict[str, str] = VOCABULARY["phases"]
_PREGNANT = re.compile(r"孕|妊娠")
_NOT_PREGNANT = re.compile(r"非孕|未孕|非妊娠|未妊娠|未怀孕")
_EXPECTING = re.compile(r"宫内孕|早孕|中孕|晚孕|孕妇|孕期|孕检|妊娠期|(?:孕|妊娠)\s*\d+\s*\+?\s*\d*\s*周")
_IN_DOUBT = re.compile(r"[?？]|待查|待排|可能|终止|产后|流产|不孕|备孕|孕前|非孕|未孕|宫外|异位|史")


_KNOWN = re.compile(  # words that name a group of healthy people
    "|".join(_STAGES)
    + r"|年龄|[男女]性?|卵泡|滤泡|排卵|黄体|绝经|[非未]?(?:怀?孕|妊娠)|妇女?|[早中晚]期?|期|[前后]|高峰"
    r"|空腹|正常|健康|充足|充分|理想|合适|适宜|可接受|阴性|人群|人|者|组|水平|值|参考|范围|区间|年龄|及|或|和|以[上下内]"
    r"|血清|血浆|全血|[静动]脉血|末梢血|尿液?|\b(?:male|female|adult|normal|negative|neg|age|years?|[mfy])\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"[高极低中]+危|空腹|餐后|随机|[立卧站坐]位|[不非]?吸烟|[上下]午|[晨早晚]|\b[AP]M\b|\d+\s*(?:h|小时|[时点])"
)


@dataclass(frozen=True, slots=True)
class Patient:
    """What a page states about its patient. "" and None mean unknown.

    Attributes:
        sex: 男 or 女.
        age: in years: 50岁 is (50, 51).
        phase: 卵泡, 排卵, 黄体, 绝经 or 未绝经.
        is_pregnant: True where the page states it. Pages do not state the contrary.
        weeks: of the pregnancy.
    """

    sex: str = ""
    age: Span | None = None
    phase: str = ""
    is_pregnant: bool = False
    weeks: Span | None = None


ANYONE = Patient()


def read_patient(key_values: Iterable[tuple[str, str]]) -> Patient:
    """Read the patient from a page's key-values (性别, 年龄, 诊断, 月经周期). Contradictions count as unknown."""
    sexes, ages, phases, pregnancies = set(), set(), set(), set()
    for key, value in key_values:
        name = fold(key)
        if "性别" in name:
            sexes |= {sex} if (sex := read_sex(value)) else set()
        if "年龄" in name:
            ages |= {age} if (age := read_age(value)) else set()
        if re.search("月经|生理|周期", name):
            phases.add(_phase(value))
        if re.search("诊断|孕|妊娠|临床", name) and _EXPECTING.search(value) and not _IN_DOUBT.search(value):
            pregnancies.add(_weeks(value))
    sex = sexes.pop() if len(sexes) == 1 else ""
    return Patient(
        sex,
        ages.pop() if len(ages) == 1 else None,
        phases.pop() if len(phases) == 1 else "",
        bool(pregnancies) and sex != "男",
        pregnancies.pop() if len(pregnancies) == 1 else None,
    )


def excludes(label: str, patient: Patient) -> bool:
    """Whether `patient` cannot be in the group that `label` names. False when either of them is unspecific."""
    sex = _sex_meant(label)
    if sex and patient.sex and sex != patient.sex:
        return True
    if patient.age is not None and any(not _overlap(reach, patient.age) for reach in _reaches(label)):
        return True
    phase = _phase(label)
    if phase and ((patient.phase and _differ(phase, patient.phase)) or patient.is_pregnant):
        return True
    if patient.is_pregnant and _NOT_PREGNANT.search(label):
        return True
    weeks = _weeks(label)
    return weeks is not None and patient.weeks is not None and not _overlap(weeks, patient.weeks)


def unknown_trait(label: str, patient: Patient) -> str:
    """Return the trait ("sex", "pregnancy", "phase", "age" or "") that `label` needs and the page does not state.

    A cell with a range for men alone has no other group that could agree with it.
    """
    if _sex_meant(label) and not patient.sex:
        return "sex"
    if _PREGNANT.search(label) and not patient.is_pregnant:
        return "pregnancy"
    if _phase(label) and not patient.phase:
        return "phase"
    return "age" if _reaches(label) and patient.age is None else ""


def is_understood(label: str, is_alone: bool) -> bool:
    """Whether every word of a label is known to name healthy people: 超重, 高风险 and 保护性 are not.

    Args:
        is_alone: whether it is the cell's only range. Otherwise conditions (空腹, 卧位, 高危人群) may differ.
    """
    patterns = (WEEKS, AGE, _KNOWN) if is_alone else (WEEKS, AGE, _CONDITION, _KNOWN)
    for pattern in patterns:
        label = pattern.sub(" ", label)
    return not re.search(r"\w", label)


def _sex_meant(label: str) -> str:
    return read_sex(label) or ("女" if _phase(label) or _PREGNANT.search(label) else "")


def read_sex(text: str) -> str:
    """Return 男 or 女 if `text` names exactly one of them, else ""."""
    word = text.strip().lower()
    female = "女" in text or "妇" in text or "female" in word or re.match(r"f\b", word)
    male = "男" in text or re.search(r"\bmale", word) or re.match(r"m\b", word)
    return "女" if female and not male else "男" if male and not female else ""


def read_age(text: str) -> Span | None:
    """Return (from, to) in years of a printed age: `50岁`, `50`, `3月`, `1岁6月`, `50-60岁`, `>80岁`, or None."""
    text = "".join(text.split()).replace("～", "-").replace("~", "-").replace("—", "-")
    match = re.fullmatch(rf"(\d+)({_UNIT})?(?:(\d+)(?:个)?({_UNIT}))?", text)
    if match:
        step = YEARS[(match[2] or "岁").lower()]
        start = int(match[1]) * step
        if match[3]:
            step = YEARS[match[4].lower()]
            start += int(match[3]) * step
        return (start, start + step) if start < 130 else None
    match = AGE.fullmatch(text)
    return _reach(match) if match and not match["age"] else None


def _reaches(label: str) -> list[Span]:
    """Age spans of the words and numbers of a label. A patient outside one of them is not meant."""
    text = WEEKS.sub("", label)
    found = [_reach(match) for match in AGE.finditer(text)]
    stage = next((reach for word, reach in _STAGES.items() if word in text), None)
    return [*found, stage] if stage else found


def _reach(match: re.Match[str]) -> Span:
    """Return the ages of an expression. 60岁以下 may include the age of 60."""
    if match["low"]:
        unit = match["unit"].lower()
        return int(match["low"]) * YEARS[(match["low_unit"] or unit).lower()], (int(match["high"]) + 1) * YEARS[unit]
    if match["sign"]:
        age, step = int(match["bound"]), YEARS[match["sign_unit"].lower()]
        if match["sign"] in "<≤":
            return 0.0, (age + (match["sign"] == "≤")) * step
        return age * step, math.inf
    if match["word"]:
        age, step = int(match["word_age"]), YEARS[match["word_unit"].lower()]
        return (age * step, math.inf) if match["word"].endswith("上") else (0.0, (age + 1) * step)
    age = int(match["age"])
    return float(age), age + 1.0


def _differ(one: str, other: str) -> bool:
    """Whether no patient is in both phases. 未绝经 includes every phase but 绝经."""
    return "绝经" in (one, other) if "未绝经" in (one, other) and one != other else one != other


def _phase(text: str) -> str:
    if re.search("未绝经|绝经[之以]?前", text):
        return "未绝经"
    return next((phase for word, phase in _PHASES.items() if word in text), "")


def _weeks(text: str) -> Span | None:
    if match := WEEKS.search(text):
        return float(match["low"]), float(match["high"] or match["low"]) + 1
    if not _PREGNANT.search(text) or _NOT_PREGNANT.search(text):
        return None
    return next((weeks for word, weeks in _TRIMESTERS if word in text), None)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
