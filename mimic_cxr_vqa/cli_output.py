"""What commands print alike: counts, and paths that a shell takes back."""

import shlex
from collections.abc import Mapping
from pathlib import Path

import typer


def quote(path: Path) -> str:
    """`path` as a shell takes it back."""
    return shlex.quote(str(path))


def list_counts(counts: Mapping[str, int]) -> str:
    """`rater-1: 1,200, rater-2: 9`."""
    return ", ".join(f"{name}: {value:,}" for name, value in counts.items())


def echo_counts(counts: Mapping[str, int]) -> None:
    """Print counts by their names in code, in a line: `studies with questions: 1,200, questions: 9,000`."""
    typer.echo(list_counts({name.replace("_", " "): value for name, value in counts.items()}))
