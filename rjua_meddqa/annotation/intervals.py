"""Intervals of numbers, and how a result compares with one."""

import math
from dataclasses import dataclass

from rjua_meddqa.schema import HIGH, LOW, NORMAL, UNDECIDED


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers from `low` to `high`. An open end does not belong to the interval (`<5.0`)."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def is_below(self, value: float) -> bool:
        """Whether `value` lies below the interval."""
        return value < self.low or (self.low_open and value == self.low)

    def is_above(self, value: float) -> bool:
        """Whether `value` lies above the interval."""
        return value > self.high or (self.high_open and value == self.high)

    def holds(self, value: float) -> bool:
        return not self.is_below(value) and not self.is_above(value)

    def compare(self, sign: str, value: float) -> str:
        """LOW, NORMAL, HIGH or UNDECIDED for a number, or for all numbers below or above it (`<0.01`)."""
        if self.is_below(value) and sign in ("", "<", "≤"):
            return LOW
        if self.is_above(value) and sign in ("", ">", "≥"):
            return HIGH
        if not sign:
            return NORMAL
        return self._compare_below(sign, value) if sign in ("<", "≤") else self._compare_above(sign, value)

    def _compare_below(self, sign: str, value: float) -> str:
        if sign == "<" and value == self.low:
            return LOW
        # A range from 0 has no lower side that a result could leave.
        is_open_below = self.low == -math.inf or (self.low == 0 and not self.low_open)
        fits = value < self.high or (value == self.high and (sign == "<" or not self.high_open))
        return NORMAL if is_open_below and fits else UNDECIDED

    def _compare_above(self, sign: str, value: float) -> str:
        if sign == ">" and value == self.high:
            return HIGH
        fits = value > self.low or (value == self.low and (sign == ">" or not self.low_open))
        return NORMAL if self.high == math.inf and fits else UNDECIDED


@dataclass(frozen=True, slots=True)
class LabelledInterval:
    """An interval, the group or state it applies to (男, 18-60岁, 缺乏, or ""), and its text as printed."""

    label: str
    interval: Interval
    text: str = ""
