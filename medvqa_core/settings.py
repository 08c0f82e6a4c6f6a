"""Sections of a YAML file as pydantic models. Errors name the key, the value and the nearest allowed key."""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from medvqa_core.errors import ConfigError


def as_number(value: Any) -> Any:
    """Convert a text such as 3e-6, which YAML 1.1 reads as a string. Other values are returned unchanged."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


Number = Annotated[float, BeforeValidator(as_number)]
PositiveNumber = Annotated[Number, Field(gt=0)]
NonNegativeNumber = Annotated[Number, Field(ge=0)]


class Section(BaseModel):
    """A section of a settings file. Types are strict, keys must be known and numbers finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def read(cls, values: Any, where: str) -> Self:
        """Validate a mapping, as YAML gives one. Missing keys take their defaults.

        Args:
            where: the section's name in errors, such as "training".

        Raises:
            ConfigError: not a mapping, an unknown key, or a value out of range.
        """
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where}: expected a section of keys and values, found {values!r}")
        for key in values:
            check_key(key, tuple(cls.model_fields), where)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(_describe(error, values, where)) from None


def check_key(key: Any, allowed: tuple[str, ...], where: str) -> None:
    """Raise a ConfigError that names the nearest allowed key if `key` is not one of `allowed`."""
    if key not in allowed:
        (near,) = difflib.get_close_matches(str(key), allowed, n=1, cutoff=0.0)
        raise ConfigError(f"{where} has no key {key!r}: did you mean {near!r}? Allowed: {', '.join(sorted(allowed))}")


def _describe(error: ValidationError, values: Any, where: str) -> str:
    """The first wrong value. Errors about other members of the same union are joined with `or`."""
    first, *others = error.errors()
    for part in first["loc"]:  # members of a union are not keys
        if isinstance(values, list) or (isinstance(values, Mapping) and part in values):
            values, where = values[part], f"{where}.{part}"  # type: ignore[index]  # a list has integer parts
    reasons = [first["msg"], *(found["msg"] for found in others if found["loc"][0] == first["loc"][0])]
    rest = [reason.removeprefix("Input should be ") for reason in reasons[1:]]
    return f"{where} is {values!r}. {' or '.join([reasons[0], *rest])}."
