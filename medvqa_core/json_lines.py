"""JSON lines written by other programs: numbered, of limited length, without repeated names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError, quote_value

LONGEST_LINE = 64 << 20  # bytes


class RepeatedNameError(ValueError):
    """A name occurs twice in a JSON object, with different values."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{quote_value(name)} occurs twice in an object, with different values")


def reject_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook` that raises RepeatedNameError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: dict[str, Any] = {}
        for name, value in pairs:
            if seen.setdefault(name, value) != value:
                raise RepeatedNameError(name)
    return found


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, with their numbers.

    Raises:
        InputError: the file cannot be read, or a line is longer than LONGEST_LINE.
    """
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
                if len(line) > LONGEST_LINE:
                    raise InputError(
                        f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes. Remove the line, or check that "
                        "the file contains JSON lines"
                    )
                if line.strip():
                    yield number, line
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}). Check the path") from None


def parse_line(line: str | bytes, where: str) -> Any:
    """The value of a line, or None if it is not JSON.

    Args:
        where: file and line number, for messages.

    Raises:
        InputError: a name occurs twice, with different values.
    """
    try:
        return json.loads(line, object_pairs_hook=reject_repeated_names)
    except RepeatedNameError as error:
        raise InputError(f"{where}: {error}. Keep one") from None
    except (ValueError, RecursionError):
        return None
