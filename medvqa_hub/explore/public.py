"""The explorer as a Space on the Hub, which serves the bundled samples to everyone.

This is the only entry point that listens on more than this machine. It refuses data that is not open.
"""

import os
import sys
import time

from medvqa_core.errors import ConfigError, GovernanceError, MedvqaError
from medvqa_core.governance import Governance
from medvqa_hub.explore.opening import OpenDataset, open_folders
from medvqa_hub.explore.server import make_server
from medvqa_hub.explore.serving import launch

EVERYWHERE = "0.0.0.0"
PORT = 7860  # forwarded by Spaces
PORT_VARIABLE = "PORT"
HOST_VARIABLE = "SPACE_HOST"  # set by the Hub


def serve_samples() -> None:
    """Serve the bundled samples until the process ends. Errors are printed in one line."""
    try:
        port = serve_publicly(open_folders([]), _read_port())
    except MedvqaError as error:
        sys.exit(f"error: {error}")
    print(f"serving the samples on port {port}", flush=True)
    while True:
        time.sleep(3600)


def serve_publicly(opened: OpenDataset, port: int | None = None) -> int:
    """Start a server that other machines can reach. Returns its port.

    Raises:
        GovernanceError: the data is not `open`.
        ConfigError: the port is taken.
    """
    if opened.governance is not Governance.OPEN:
        raise GovernanceError(
            f"a Space can only show open data, not {opened.governance} data. Use medvqa-hub explore, which only "
            "serves this machine."
        )
    hosts = tuple(filter(None, [os.environ.get(HOST_VARIABLE)]))
    return launch(make_server(opened, hosts=hosts), port, EVERYWHERE, f"{PORT_VARIABLE}=NUMBER in the environment")


def _read_port() -> int:
    port = os.environ.get(PORT_VARIABLE, str(PORT))
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise ConfigError(f"environment variable {PORT_VARIABLE}={port!r}: expected a number from 1 to 65535")
    return int(port)
