"""The explorer for everyone, as a Space of the Hub: open data only, whatever it is asked to show.

This is the only way by which the page is bound to more than this machine, and it opens the bundled samples alone.
"""

import os
import time

from medvqa_core.errors import GovernanceError
from medvqa_core.governance import Governance
from medvqa_hub.explore.opening import Opened, open_folders
from medvqa_hub.explore.server import make_server
from medvqa_hub.explore.serving import launch

EVERYWHERE = "0.0.0.0"
PORT = 7860  # the one that Spaces forward
HOST_VARIABLE = "SPACE_HOST"  # set by the Hub: the name that the Space is called by


def serve_samples() -> None:
    """Serve the bundled samples until the process is ended."""
    port = serve_publicly(open_folders([]), int(os.environ.get("PORT", PORT)))
    print(f"serving the samples on port {port}", flush=True)
    while True:
        time.sleep(3600)


def serve_publicly(opened: Opened, port: int | None = None) -> int:
    """Start a server that other machines reach; returns its port.

    Raises:
        GovernanceError: what is shown is not `open`.
    """
    if opened.governance is not Governance.OPEN:
        raise GovernanceError(
            f"the page would show {opened.governance} data to everyone: a Space shows open data only; use medvqa-hub "
            "explore, which serves this machine alone"
        )
    hosts = tuple(filter(None, [os.environ.get(HOST_VARIABLE)]))
    return launch(make_server(opened, hosts=hosts), port, EVERYWHERE)
