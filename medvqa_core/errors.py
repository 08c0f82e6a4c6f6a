"""Errors that a user can fix. Each names the thing, the value, what is allowed and what to do next.

The command line prints them as one line and exits with 1. Other exceptions are bugs and keep their traceback.
"""

SHORT = 32  # characters; the longest category has 26


class MedvqaError(Exception):
    """Base of all errors that the user can fix: data, paths, options, rules."""


class InputError(MedvqaError):
    """An input file is missing, unreadable or has content that is not allowed."""


class OutputError(MedvqaError):
    """A result could not be written: full disk, read-only folder, another process writing the same file."""


class ConfigError(MedvqaError):
    """Options contradict each other or a run's earlier ones, or a required package, model or setting is missing."""


class GovernanceError(MedvqaError):
    """The step would move data out of the governance class that its licence requires."""


def quote_value(value: str) -> str:
    """Format `value` for an error message. Longer texts may be report text and are described by their length."""
    if len(value) <= SHORT or not any(character.isspace() for character in value):
        return repr(value)
    return f"a text of {len(value)} characters"


def one_line(error: BaseException | str) -> str:
    """The message of `error` on one line."""
    return " ".join(str(error).split()) or type(error).__name__
