"""JSON lines that a user hands in: numbered, of bounded length, no name twice."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError, show

LONGEST_LINE = 64 << 20  # bytes; no record or reply that we ask for comes near


class RepeatedNameError(ValueError):
    """A name stands twice in a JSON object, with different values: nobody can say which is meant."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{show(name)} stands twice in an object, with different values")


def reject_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook` that raises RepeatedNameError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: dict[str, Any] = {}
        for name, value in pairs:
            if name in seen and seen[name] != value:
                raise RepeatedNameError(name)
            seen[name] = value
    return found


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, each with its number.

    Raises:
        InputError: the file cannot be read, or a line is longer than LONGEST_LINE.
    """
    try:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise InputError(
                        f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes, the most that is read; remove the "
                        "line, or check that the file has JSON lines"
                    )
                if line.strip():
                    yield number, line
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the path") from None


def parse_line(line: str | bytes, where: str) -> Any:
    """The value in a line; None where the line is no JSON.

    Args:
        where: file and number of the line, for the message.

    Raises:
        InputError: a name stands twice, with different values.
    """
    try:
        return json.loads(line, object_pairs_hook=reject_repeated_names)
    except RepeatedNameError as error:
        raise InputError(f"{where}: {error}; keep one") from None
    except (ValueError, RecursionError):
        return None
