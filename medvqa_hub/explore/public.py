"""The explorer for everyone, as a Space of the Hub: open data only, whatever it is asked to show.

This is the only way by which the page is bound to more than this machine, and it opens the bundled samples alone.
"""

import os
import sys
import time

from medvqa_core.errors import ConfigError, GovernanceError, MedvqaError
from medvqa_core.governance import Governance
from medvqa_hub.explore.opening import Opened, open_folders
from medvqa_hub.explore.server import make_server
from medvqa_hub.explore.serving import launch

EVERYWHERE = "0.0.0.0"
PORT = 7860  # the one that Spaces forward
PORT_VARIABLE = "PORT"  # another one
HOST_VARIABLE = "SPACE_HOST"  # set by the Hub: the name that the Space is called by


def serve_samples() -> None:
    """Serve the bundled samples until the process is ended; what prevents it is said in a line."""
    try:
        port = serve_publicly(open_folders([]), _asked_port())
    except MedvqaError as error:
        sys.exit(f"error: {error}")
    print(f"serving the samples on port {port}", flush=True)
    while True:
        time.sleep(3600)


def serve_publicly(opened: Opened, port: int | None = None) -> int:
    """Start a server that other machines reach; returns its port.

    Raises:
        GovernanceError: what is shown is not `open`.
        ConfigError: the port is taken.
    """
    if opened.governance is not Governance.OPEN:
        raise GovernanceError(
            f"the page would show {opened.governance} data to everyone: a Space shows open data only; use medvqa-hub "
            "explore, which serves this machine alone"
        )
    hosts = tuple(filter(None, [os.environ.get(HOST_VARIABLE)]))
    return launch(make_server(opened, hosts=hosts), port, EVERYWHERE, f"{PORT_VARIABLE}=NUMBER in the environment")


def _asked_port() -> int:
    asked = os.environ.get(PORT_VARIABLE, str(PORT))
    if not (asked.isascii() and asked.isdigit() and 0 < int(asked) < 65_536):
        raise ConfigError(f"{PORT_VARIABLE} is {asked!r} in the environment: a port is a number from 1 to 65535")
    return int(asked)
