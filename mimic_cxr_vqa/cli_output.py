"""The option --out, and printing of counts and shell-quoted paths."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option(help="Folder that the dataset is built in.")]


def quote(path: Path) -> str:
    """Return `path` quoted for a shell."""
    return shlex.quote(str(path))


def list_counts(counts: Mapping[str, int]) -> str:
    """Return counts as text: `rater-1: 1,200, rater-2: 9`."""
    return ", ".join(f"{name}: {value:,}" for name, value in counts.items())


def echo_counts(counts: Mapping[str, int]) -> None:
    """Print counts in a line: `studies with questions: 1,200, questions: 9,000`."""
    typer.echo(list_counts({name.replace("_", " "): value for name, value in counts.items()}))
