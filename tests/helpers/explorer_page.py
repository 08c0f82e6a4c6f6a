"""A started explorer and a real browser on it, for tests; without Chromium these tests are skipped."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from medvqa_hub.explore.serving import launch, make_address

READY = "[data-ready]"


@contextmanager
def serve(opened: Any, key: str | None = None, **options: Any) -> Iterator[str]:
    """Start an explorer on what is `opened`; yields the address that is typed into a browser."""
    from medvqa_hub.explore.server import make_server

    server = make_server(opened, key, **options)
    port = launch(server)
    try:
        yield make_address(port, key)
    finally:
        server.get_blocks().close(verbose=False)


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's Chromium behind playwright. Skips the test where either is absent."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of a browser that notes what it asks for and what goes wrong in it."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.problems.append(said.text))
        self.address = address
        self.open()

    def open(self, query: str = "") -> None:
        """Go to the address, with a state, and wait until the page has what it needs."""
        address = self.address + (("&" if "?" in self.address else "?") + query if query else "")
        self.page.goto(address)
        self.page.wait_for_selector(READY)

    def wait(self, holds: Any, seconds: float = 10.0) -> None:
        """Wait until `holds()`; the page's own policy lets no condition be evaluated in it."""
        for _ in range(int(seconds * 20)):
            if holds():
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"not so after {seconds} s; {self.page.url}, problems: {self.problems}")

    @property
    def state(self) -> str:
        """The query of the address bar."""
        return self.page.evaluate("location.search")
