"""Announces downloads from the Hub before they start."""

import sys
from pathlib import Path


def announce_fetch(model: str, what: str) -> None:
    """Print that `model` is not a local folder and comes from the Hub or its cache. `what` is such as "model"."""
    if not Path(model).is_dir():
        print(
            f"{what}: {model} is not a folder on this machine. Loading it from the Hub or its cache "
            "(HF_HUB_OFFLINE=1 prevents downloads).",
            file=sys.stderr,
        )
