"""Groups of people that reference ranges are given for, and what a page says about its patient.

Ranges depend on sex, age, phase of the cycle and pregnancy (`男:0-15 女:0-20`, `<40岁`, `卵泡期`, `孕早期`).
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patient:
    """What a page says about its patient; "" or None where it says nothing.

    Attributes:
        sex: 男 or 女.
        age: (from, to) in years, the end not included: 50岁 is (50, 51).
    """

    sex: str = ""
    age: tuple[float, float] | None = None


ANYONE = Patient()


def patient_of(key_values: Iterable[tuple[str, str]]) -> Patient:
    """The patient of a page by its key-values."""
    return ANYONE
