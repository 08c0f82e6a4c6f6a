"""What is fetched from the Hub is said before it is."""

import sys
from pathlib import Path


def announce_fetch(model: str, what: str) -> None:
    """Say in a line, before anything is asked for, that `model` is no folder and comes from the Hub.

    Args:
        what: it is, such as "model".
    """
    if not Path(model).is_dir():
        print(
            f"{what}: {model} is no folder on this machine: it is taken from the cache of the Hub, or fetched from "
            "there (HF_HUB_OFFLINE=1 forbids it)",
            file=sys.stderr,
        )
