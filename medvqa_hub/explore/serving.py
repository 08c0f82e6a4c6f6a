"""`medvqa-hub explore`: opens the folders, starts the server on this machine alone, says where."""

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
from medvqa_hub.explore.guarding import KEY
from medvqa_hub.explore.opening import Asked, open_folders

HOST = "127.0.0.1"


def explore(folders: Sequence[Path], asked: Asked, port: int | None, open_browser: bool) -> None:
    """Serve until Ctrl-C.

    Raises:
        ConfigError: the extra `app` is not installed, or the port is taken.
        InputError, GovernanceError: as `opening.open_folders`.
    """
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):  # an orderly end: no file stays behind
        signal.signal(number, lambda ended, _: sys.exit(128 + ended))
    opened = open_folders(folders, asked)
    typer.echo(f"{opened.governance} data, served on {HOST} only")
    key = new_key(opened.governance)
    address = address_of(launch(_make_server(opened, key), port), key)
    typer.echo(f"open {address}   (Ctrl-C ends it)")
    if open_browser:
        webbrowser.open(address)
    while True:
        time.sleep(3600)


def launch(server: Any, port: int | None = None, host: str = HOST, chosen_by: str = "--port") -> int:
    """Start a server in the background; returns its port. `chosen_by` is how a user names another one.

    Raises:
        ConfigError: the port is taken, or none is free.
    """
    for name in ("NO_PROXY", "no_proxy"):  # gradio calls itself once when it starts
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
            _frontend=False,  # it would look for gradio's own page at our address
        )
    except OSError:  # gradio's words name a variable of its own, which is overridden here
        which = "none of the usual ports is free" if port is None else f"port {port} is taken, or not yours to use"
        raise ConfigError(f"{which}; choose another with {chosen_by}") from None
    return server.get_blocks().server_port


def new_key(governance: Governance) -> str | None:
    """A key for what may not be handed on: other users of this machine reach 127.0.0.1 too. None for open data."""
    return None if governance.publishable else secrets.token_urlsafe(24)


def address_of(port: int, key: str | None = None, query: str = "") -> str:
    """What is typed into the browser."""
    query = "&".join(part for part in (f"{KEY}={key}" if key else "", query) if part)
    return f"http://{HOST}:{port}/{'?' if query else ''}{query}"


def _make_server(opened: Any, key: str | None) -> Any:
    try:
        from medvqa_hub.explore.server import make_server

        return make_server(opened, key)
    except ImportError as error:
        raise ConfigError(f"the explorer needs the extra app ({error}); pip install 'medvqa-hub[app]'") from None
