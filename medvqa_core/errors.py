"""Errors that a user can act on. Each names the thing, the value, what is allowed and what to do next.

The command line prints them as one line and exits with 1; a traceback is kept for our own mistakes.
"""

SHORT = 32  # characters; the longest category has 26


class MedvqaError(Exception):
    """Base of every error that is the user's to fix: data, paths, options, rules."""


class InputError(MedvqaError):
    """A file that was given is missing, unreadable or holds something that is not allowed."""


class OutputError(MedvqaError):
    """A result could not be written: full disk, read-only folder, another process writing the same file."""


class ConfigError(MedvqaError):
    """Options that do not fit each other, or that differ from those a resumable run was started with."""


class GovernanceError(MedvqaError):
    """The step would take data out of the class that its licence puts it in."""


def show(value: str) -> str:
    """`value` for an error message: ids, codes and paths as they are, what may be report text by its length."""
    if len(value) <= SHORT or not any(character.isspace() for character in value):
        return repr(value)
    return f"a text of {len(value)} characters"


def one_line(error: BaseException) -> str:
    """The message of `error` with all white space folded, so that it prints as one line."""
    return " ".join(str(error).split()) or type(error).__name__
