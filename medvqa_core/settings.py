"""Sections of a settings file, with the type and range of each value.

A section is a frozen dataclass whose fields are made by `value(…)`. `read_section` creates it from a mapping.
"""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from medvqa_core.errors import ConfigError

Section = TypeVar("Section")


def value(
    default: Any,
    kind: type | tuple[type, ...],
    low: float | None = None,
    high: float | None = None,
    choices: tuple[Any, ...] = (),
    optional: bool = False,
    above: float | None = None,
) -> Any:
    """A dataclass field.

    Args:
        kind: allowed type or types; a float may be written as a whole number.
        low, high: smallest and largest allowed number.
        choices: the only values allowed.
        optional: whether null is allowed.
        above: number that the value must exceed.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    rule = {"kinds": kinds, "low": low, "high": high, "choices": choices, "optional": optional, "above": above}
    if isinstance(default, dict | list):
        return dataclasses.field(metadata=rule, default_factory=lambda: type(default)(default))
    return dataclasses.field(metadata=rule, default=default)


def read_section(section: type[Section], values: Any, where: str) -> Section:
    """A `section` from a mapping; missing keys take their defaults.

    Args:
        where: name of the section in messages, such as "training".

    Raises:
        ConfigError: not a mapping, an unknown key (the message suggests one), or a value that is not allowed.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: expected a section of keys and values, found {values!r}")
    fields = {field.name: field for field in dataclasses.fields(section)}  # type: ignore[arg-type]
    for key in values:
        check_key(key, tuple(fields), where)
    read = {key: _read_value(fields[key].metadata, value, f"{where}.{key}") for key, value in values.items()}
    return section(**read)


def check_key(key: Any, allowed: tuple[str, ...], where: str) -> None:
    """Raise a ConfigError that suggests the nearest key unless `key` is one of `allowed`."""
    if key not in allowed:
        (near,) = difflib.get_close_matches(str(key), allowed, n=1, cutoff=0.0)
        raise ConfigError(f"{where} has no key {key!r}: did you mean {near!r}? Allowed: {', '.join(sorted(allowed))}")


def _read_value(rule: Mapping[str, Any], value: Any, where: str) -> Any:
    if value is None and rule["optional"]:
        return None
    kinds = rule["kinds"]
    if float in kinds and str not in kinds:
        value = as_number(value)
    if type(value) is int and float in kinds and int not in kinds:
        value = float(value)
    is_allowed = type(value) in kinds and (not rule["choices"] or value in rule["choices"])
    if not is_allowed or (type(value) in (int, float) and not _is_in_range(rule, value)):
        raise ConfigError(f"{where} is {value!r}; allowed: {_describe(rule)}")
    return value


def _is_in_range(rule: Mapping[str, Any], value: float) -> bool:
    low, high, above = rule["low"], rule["high"], rule["above"]
    is_high_enough = (low is None or value >= low) and (above is None or value > above)
    return math.isfinite(value) and is_high_enough and (high is None or value <= high)


def as_number(value: Any) -> Any:
    """The number in a text (YAML 1.1 reads 3e-6 as text); other values unchanged."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _describe(rule: Mapping[str, Any]) -> str:
    if rule["choices"]:
        words = ", ".join(map(repr, rule["choices"]))
    else:
        names = {
            int: "a whole number",
            float: "a number",
            str: "a text",
            bool: "true or false",
            dict: "keys and values",
        }
        words = " or ".join(names.get(kind, kind.__name__) for kind in rule["kinds"])
        words += "" if rule["low"] is None else f", at least {rule['low']}"
        words += "" if rule["above"] is None else f", above {rule['above']}"
        words += "" if rule["high"] is None else f", at most {rule['high']}"
    return words + (", or null" if rule["optional"] else "")
