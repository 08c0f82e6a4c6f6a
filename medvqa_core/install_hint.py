"""The command that installs an optional part of this package, for error messages."""

from pathlib import Path


def install(extra: str) -> str:
    """The command for the extra `extra`. It works before the package is on an index."""
    checkout = Path(__file__).parents[1]
    if (checkout / "pyproject.toml").is_file():
        return f"pip install -e '{checkout}[{extra}]'"
    return f"pip install '.[{extra}]' in a checkout of medvqa-hub"
