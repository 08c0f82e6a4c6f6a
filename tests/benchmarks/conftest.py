"""Benchmarks are scripts beside each other, not a package: tests import them as they import one another."""

import sys

from paths import REPOSITORY

if str(REPOSITORY / "benchmarks") not in sys.path:
    sys.path.append(str(REPOSITORY / "benchmarks"))
