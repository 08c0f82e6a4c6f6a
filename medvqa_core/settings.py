"""Sections of a settings file: what type and range each value has, and errors that name the nearest allowed key.

A section is a frozen dataclass whose fields are made by `value(…)`. `read_section` turns a mapping, as YAML gives one,
into it.
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
        kind: type or types that the value may have; whole numbers are taken for floats too.
        low: lowest number allowed.
        high: highest number allowed.
        choices: the only values allowed.
        optional: whether null is allowed.
        above: what a number must be greater than.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    rule = {"kinds": kinds, "low": low, "high": high, "choices": choices, "optional": optional, "above": above}
    if isinstance(default, dict | list):
        return dataclasses.field(metadata=rule, default_factory=lambda: type(default)(default))
    return dataclasses.field(metadata=rule, default=default)


def read_section(section: type[Section], values: Any, where: str) -> Section:
    """A `section` from a mapping; keys that are absent take their defaults.

    Args:
        where: how errors call it, such as "training".

    Raises:
        ConfigError: not a mapping, an unknown key (the nearest allowed one is named), or a value out of its range.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: expected a section of keys and values, found {values!r}")
    fields = {field.name: field for field in dataclasses.fields(section)}  # type: ignore[arg-type]
    for key in values:
        check_key(key, tuple(fields), where)
    read = {key: _read_value(fields[key].metadata, value, f"{where}.{key}") for key, value in values.items()}
    return section(**read)


def check_key(key: Any, allowed: tuple[str, ...], where: str) -> None:
    """Raise a ConfigError if `key` is none of `allowed`; it names the nearest one."""
    if key not in allowed:
        (near,) = difflib.get_close_matches(str(key), allowed, n=1, cutoff=0.0)
        raise ConfigError(f"{where} has no key {key!r}: did you mean {near!r}? Allowed: {', '.join(sorted(allowed))}")


def _read_value(rule: Mapping[str, Any], value: Any, where: str) -> Any:
    if value is None and rule["optional"]:
        return None
    kinds = rule["kinds"]
    if isinstance(value, str) and float in kinds and str not in kinds:
        value = as_number(value)
    if isinstance(value, int) and not isinstance(value, bool) and float in kinds and int not in kinds:
        value = float(value)
    fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    fits = fits and not (isinstance(value, float) and not math.isfinite(value))
    fits = fits and not (rule["choices"] and value not in rule["choices"])
    if fits and isinstance(value, int | float) and not isinstance(value, bool):
        fits = (
            (rule["low"] is None or value >= rule["low"])
            and (rule["high"] is None or value <= rule["high"])
            and (rule["above"] is None or value > rule["above"])
        )
    if not fits:
        raise ConfigError(f"{where} is {value!r}; allowed: {_describe(rule)}")
    return value


def as_number(value: Any) -> Any:
    """The number in a text, which YAML 1.1 takes 3e-6 for; anything else as it is."""
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
