"""Units of results and ranges: their spellings, whether a text can be a unit, and whether two units are comparable."""

import re

from rjua_meddqa.annotation.number_text import plain, unmask, write_out

_NO_UNIT = re.compile(r"[\u4e00-\u9fff?!=]|^/[Ll](?![Pp])")
_UNITS_IN_CHINESE = re.compile(
    "国际单位|单位|视野|毫升|微升|毫克|微克|毫米|厘米|毫秒|秒钟?|分钟?|小时|[个次万亿度升克天日]"
)
_LIKE_DIGITS = set("ABDEGIOQSZelo")  # 1S may be 15, 5OO may be 500, and A may mark an abnormal result


def strip_unit(text: str) -> str:
    """Return a unit without surrounding punctuation."""
    return "".join(unmask(text).split()).strip(",;:()[]→*").replace("µ", "μ")


def read_unit(text: str) -> str:
    """Return a unit in one spelling: 10*9/L, 10E9/L and 109/L are ×10^9/L."""
    return strip_unit(write_out(plain(unmask(text))))


def fold_unit(unit: str) -> str:
    """Return a unit without differences of case, and of letters that are written for μ and 秒."""
    return unit.lower().replace("μ", "u").replace("mcg", "ug").replace("秒", "s")


def is_unit(text: str, other: str) -> bool:
    """Whether the text behind a number can be a unit, given the `other` unit, and is not a mark or misread digits."""
    text = _UNITS_IN_CHINESE.sub("s", text)
    if not text or text.lower() == other.lower():
        return True
    has_letter = re.search(r"[A-Za-zα-ωΑ-Ω%‰°]", text)
    return bool(has_letter) and not _NO_UNIT.search(text) and not set(text) <= _LIKE_DIGITS


def same_scale(unit: str, unit_of_range: str) -> bool:
    """Whether result and range are comparable: equal units, including powers of ten, if both have one."""
    if not unit or not unit_of_range:
        return "×10^" not in unit
    one, other = fold_unit(unit), fold_unit(unit_of_range)
    return other == one or (other.startswith(one) and "×10^" not in other.removeprefix(one))
