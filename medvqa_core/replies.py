"""What an engine says to one request: an answer, or the reason why there is none. A failure is never an answer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reply:
    """Exactly one of the two is set.

    Raises:
        ValueError: both fields are set, or neither.
    """

    answer: str | None
    error: str | None = None

    def __post_init__(self) -> None:
        if (self.answer is None) == (self.error is None):
            given = "neither" if self.answer is None else "both"
            raise ValueError(f"{type(self).__name__} takes either an answer or an error, got {given}")
