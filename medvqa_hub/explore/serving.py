"""`medvqa-hub explore`: open the folders, start the server on this machine and print its address."""

import os
import secrets
import signal
import sys
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.install_hint import install
from medvqa_hub.explore.guarding import KEY
from medvqa_hub.explore.opening import ExploreOptions, open_folders

HOST = "127.0.0.1"


def explore(folders: Sequence[Path], options: ExploreOptions, port: int | None, open_browser: bool) -> None:
    """Serve until Ctrl-C.

    Raises:
        ConfigError: the extra `app` is not installed, or the port is taken.
        InputError, GovernanceError: from `open_folders`.
    """
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):  # so that temporary files are deleted
        signal.signal(number, lambda ended, _: sys.exit(128 + ended))
    opened = open_folders(folders, options)
    typer.echo(f"{opened.governance} data, served on {HOST} only")
    key = new_key(opened.governance)
    address = make_address(launch(_make_server(opened, key), port), key)
    typer.echo(f"open {address}   (press Ctrl-C to stop)")
    if open_browser:
        webbrowser.open(address)
    while True:
        time.sleep(3600)


def launch(server: Any, port: int | None = None, host: str = HOST, chosen_by: str = "--port") -> int:
    """Start a server in the background. Returns its port. `chosen_by` is the option for another port.

    Raises:
        ConfigError: the port is taken, or no port is free.
    """
    for name in ("NO_PROXY", "no_proxy"):  # gradio sends a request to itself when it starts
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), HOST]))
    try:
        server.launch(
            server_name=host,
            server_port=port,
            share=False,
            ssr_mode=False,
            pwa=False,
            mcp_server=False,
            run_history=False,
            enable_monitoring=False,
            quiet=True,
            prevent_thread_lock=True,
            _frontend=False,  # gradio would look for its own page at our address
        )
    except OSError:  # gradio's message names a variable that has no effect here
        which = "none of the usual ports is free" if port is None else f"port {port} is not available"
        raise ConfigError(f"{which}. Choose another with {chosen_by}.") from None
    return server.get_blocks().server_port


def new_key(governance: Governance) -> str | None:
    """A key for restricted data, since other users of this machine can reach 127.0.0.1. None for open data."""
    return None if governance.publishable else secrets.token_urlsafe(24)


def make_address(port: int, key: str | None = None, query: str = "") -> str:
    """The address of the page, to open in the browser."""
    query = "&".join(part for part in (f"{KEY}={key}" if key else "", query) if part)
    return f"http://{HOST}:{port}/{'?' if query else ''}{query}"


def _make_server(opened: Any, key: str | None) -> Any:
    try:
        from medvqa_hub.explore.server import make_server

        return make_server(opened, key)
    except ImportError as error:
        raise ConfigError(f"the explorer needs the extra app ({error}): {install('app')}") from None
