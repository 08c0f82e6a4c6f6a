"""Units of a result and of its range: whether a text can be one, and whether two can be compared."""

import re

_NO_UNIT = re.compile(r"[\u4e00-\u9fff?!=]|^/[Ll](?![Pp])")
_UNITS_IN_CHINESE = re.compile(
    "国际单位|单位|视野|毫升|微升|毫克|微克|毫米|厘米|毫秒|秒钟?|分钟?|小时|[个次万亿度升克天日]"
)
_LIKE_DIGITS = set("ABDEGIOQSZelo")  # 1S may be 15, 5OO may be 500; an A says abnormal


def is_unit(text: str, other: str) -> bool:
    """Whether what stands behind a number can be a unit, `other` being one: no mark, no note, no misread digits."""
    text = _UNITS_IN_CHINESE.sub("s", text)
    if not text or text.lower() == other.lower():
        return True
    has_letter = re.search(r"[A-Za-zα-ωΑ-Ω%‰°]", text)
    return bool(has_letter) and not _NO_UNIT.search(text) and not set(text) <= _LIKE_DIGITS


def same_scale(unit: str, unit_of_range: str) -> bool:
    """Whether result and range can be compared: where both have a unit it is the same, powers of ten included."""
    if not unit or not unit_of_range:
        return "×10^" not in unit
    one, other = (
        text.lower().replace("μ", "u").replace("mcg", "ug").replace("秒", "s") for text in (unit, unit_of_range)
    )
    return other == one or (other.startswith(one) and "×10^" not in other.removeprefix(one))
