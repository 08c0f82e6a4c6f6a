"""Ends an installation with an older Python before anything is downloaded. All else is in pyproject.toml."""

import sys

from setuptools import setup

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("medvqa-hub needs Python 3.11 or newer. Run: python3.11 -m venv .venv")

setup()
