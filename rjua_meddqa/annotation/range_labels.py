"""Assigns group names to the intervals of a range cell: before them (`男:0-15 女:0-20`) or behind (`0-15(男)`).

Ambiguous cells are reported as doubts. Nothing is guessed.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rjua_meddqa.annotation.intervals import Interval
from rjua_meddqa.annotation.number_text import unmask

_GENERAL = re.compile(
    r"(?:生物|正常)?参考(?:值|范围|区间|值范围|值区间)?\s*:?|正常(?:值|范围|区间|参考值)\s*:?|范围\s*:|区间\s*:"
)
_CHINESE_UNITS = re.compile(
    r"(?:秒钟?|分钟?|小时|天|日|次|个|视野|万|亿|国际单位|单位|度|毫升|微升|升|毫克|微克|克|毫米|厘米|毫秒|[/*×·.%A-Za-zμ^²³°\ue000-\ue0ff]|\s)+"
)
_GROUP_WORD = re.compile(
    r"[男女孕妇幼老]|成人|成年|儿童|小儿|婴|新生儿|妊娠|绝经|卵泡|滤泡|排卵|黄体|岁|月龄|人群|高危|中危|低危|极高|缺乏|不足|充足"
    r"|正常|偏高|偏低|升高|降低|阴性|阳性|中毒|健康|危险|空腹|餐后"
)
_BRACKET = re.compile(r"[(\[]([^()\[\]]*)[)\]]")
LOST_RANGE = "has lost its range"
_EDGES = " ,;:、。()[]【】*"


class Piece(NamedTuple):
    """An interval of a cell, the text between it and the previous interval, and its own text."""

    before: str
    interval: Interval
    text: str


class Tail(NamedTuple):
    """The text behind an interval: its unit, a name in brackets, and the rest."""

    unit: str
    bracket: str
    rest: str


def split_tail(chunk: str) -> Tail:
    """Split the text behind an interval into unit, bracket and rest."""
    unit = _CHINESE_UNITS.match(chunk)
    end = unit.end() if unit else 0
    bracket = _BRACKET.match(chunk, end)
    return Tail(chunk[:end].strip(_EDGES), bracket[1] if bracket else "", chunk[bracket.end() if bracket else end :])


def assign_labels(pieces: Sequence[Piece], tail: str) -> tuple[list[str], list[str], list[str]]:
    """Return the label and the unit of each interval, and doubts about which group is meant."""
    first = _name(_GENERAL.sub("", pieces[0].before))
    behind = [split_tail(piece.before) for piece in pieces[1:]] + [split_tail(tail)]
    units = [entry.unit for entry in behind]
    if first or (len(pieces) > 1 and all(_is_before(entry) for entry in behind[:-1])):
        labels, doubts = _labels_before(first, units, behind)
    else:
        labels, doubts = _labels_behind(behind)
    if sum(not label for label in labels) > 1:
        doubts.append("several ranges and no group names")
    return labels, units, doubts


def _labels_before(first: str, units: list[str], behind: list[Tail]) -> tuple[list[str], list[str]]:
    """Labels for names that precede their intervals. A bracket behind an interval adds to its name."""
    if len(behind) > 1 and all(entry.bracket and not _name(entry.rest) for entry in behind):
        return [f"{first} {_name(entry.bracket)}" for entry in behind], []  # 男:57-97(20-59岁) 57-111(60-79岁)
    labels = [first]
    for place, entry in enumerate(behind[:-1]):
        name = _name(entry.rest)
        if not name and entry.bracket:  # (男)0-15 (女)0-20: the bracket belongs to what follows
            name = _name(entry.bracket)
        elif entry.bracket:
            labels[-1] += f" {_name(entry.bracket)}"
        is_named = entry.rest.lstrip().startswith(":")
        if not name and is_named and (latin := re.fullmatch(r"(?:(.*)[\s,;])?([A-Za-z]+)", units[place].strip())):
            units[place], name = (latin[1] or "").strip(_EDGES), latin[2]  # M:0-15 F:0-20
        labels.append(name)
    last = behind[-1]
    if last.bracket:
        labels[-1] += f" {_name(last.bracket)}"
    doubts = [] if all(labels[1:]) else ["a range without the name of its group"]
    return labels, doubts + _note_doubts(last.rest)


def _labels_behind(behind: list[Tail]) -> tuple[list[str], list[str]]:
    """Labels for names that follow their intervals, in brackets or directly (`<20不足`)."""
    if len(behind) == 1:
        entry = behind[0]
        if entry.bracket or not entry.rest.strip(_EDGES):
            return [_name(entry.bracket)], _note_doubts(entry.rest)
        at_once = re.match(r"\s*[:：]?\s*(?:[为是属即]于?)?([\u4e00-\u9fff]+)$", entry.rest)
        if at_once and (at_once[1] in "高低" or _GROUP_WORD.search(at_once[1])):
            return [at_once[1]], []
        return [""], _note_doubts(entry.rest)
    labels = [_name(entry.bracket) or _name(entry.rest) for entry in behind]
    doubts = [] if all(labels) else ["it is not clear which name belongs to which range"]
    doubts += ["names before and behind"] if any(entry.bracket and _name(entry.rest) for entry in behind) else []
    return labels, doubts


def _is_before(entry: Tail) -> bool:
    """Whether a name between two intervals belongs to the second: 0-5 女:0-10, 0-5(女0-10)."""
    return not entry.bracket and bool(re.search(r":\s*$|[(\[][^)\]]*$", entry.rest) and _name(entry.rest))


def _note_doubts(rest: str) -> list[str]:
    """Doubts about the text behind the last range. A note after a stop is fine, but a group has lost its range."""
    text = rest.strip(_EDGES)
    if not text:
        return []
    if _GROUP_WORD.search(text):
        return [f"{unmask(text)!r} {LOST_RANGE}"]
    is_note = re.match(r"\s*[;,。:(\[【]", rest) and re.search(r"[\u4e00-\u9fff]", text)
    return [] if is_note else [f"{unmask(text)!r} behind the range is not understood"]


def _name(text: str) -> str:
    name = unmask(text).strip(_EDGES)
    return name + ")" if name.count("(") > name.count(")") else name
