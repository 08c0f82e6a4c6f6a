"""Access control: only a browser on this machine that shows our own page may read data.

The server listens on 127.0.0.1, which keeps other machines out. It must also keep out other web pages in the same
browser (cross-site requests, DNS rebinding) and other users of this machine. So Host and Origin must be ours, only
the paths of the page exist, and restricted data needs the key in the printed address. The page loads nothing else.
"""

import hmac
import re
from collections.abc import Awaitable, Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

NAMES = ("127.0.0.1", "localhost", "[::1]")
COOKIE = "medvqa-explorer"
MOST_BODY, MOST_UPLOAD, MOST_QUERY = 1 << 20, 32 << 20, 8 << 10  # bytes
UPLOAD = "/api/upload"
KEY = "key"  # query parameter of the printed address
OURS = re.compile(r"/(?:api/[a-z_]+|image|page_image|review_image|static/[a-z_]+\.(?:js|css|svg))?")
GRADIOS = re.compile(r"/gradio_api/(?:startup-events|call/ask(?:/[0-9a-f]+)?)")  # the queue behind Ask
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
App = Callable[[dict[str, Any], Callable, Callable], Awaitable[None]]


class Guard:
    """ASGI middleware around the whole server, including gradio's own routes.

    Args:
        key: key that requests must have. None for open data.
        hosts: further host names, for a Space. A Space may show the page in a frame.
    """

    def __init__(self, app: App, key: str | None = None, hosts: Iterable[str] = ()) -> None:
        self._app, self._key, self._hosts = app, key, tuple(hosts)

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        problem = self._find_problem(scope, headers)
        if problem is not None:
            await _refuse(send, *problem)
            return
        given = parse_qs(scope["query_string"].decode("latin-1")).get(KEY, [""])[0]
        if self._key is not None and scope["path"] == "/" and hmac.compare_digest(given.encode(), self._key.encode()):
            await self._let_in(scope, send)
            return

        async def send_guarded(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = message | {"headers": [*_without_ours(message.get("headers", [])), *self._headers()]}
            await send(message)

        await self._app(scope, receive, send_guarded)

    def _find_problem(self, scope: dict[str, Any], headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return 403, "This server only accepts requests to 127.0.0.1 and localhost."
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, "Requests from other pages are refused."
        is_visit = scope["path"] == "/" and scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_visit:
            return 403, "Requests from other pages are refused."
        if not (OURS.fullmatch(scope["path"]) or GRADIOS.fullmatch(scope["path"])):
            return 404, "This page does not exist."
        if len(scope["query_string"]) > MOST_QUERY:
            return 414, f"The address is too long. The limit of its query is {MOST_QUERY >> 10} KiB."
        limit, length = MOST_UPLOAD if scope["path"] == UPLOAD else MOST_BODY, headers.get("content-length", "0")
        if "transfer-encoding" in headers or not re.fullmatch(r"[0-9]{1,18}", length):
            return 411, "Requests need a content-length."
        if int(length) > limit:
            return 413, f"The request has {int(length):,} bytes. The limit is {limit >> 20} MiB."
        if (
            self._key is not None
            and scope["path"] != "/gradio_api/startup-events"
            and not self._knows_key(scope, headers)
        ):
            return 403, "The key is missing. Open the address that the explorer printed when it started."
        return None

    def _is_ours(self, host: str) -> bool:
        name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
        return name.lower() in NAMES or host in self._hosts

    def _knows_key(self, scope: dict[str, Any], headers: dict[str, str]) -> bool:
        assert self._key is not None
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie(scope))
        except CookieError:
            cookie = None
        given = parse_qs(scope["query_string"].decode("latin-1")).get(KEY, [""])[0] if scope["path"] == "/" else ""
        found = [given, cookie.value if cookie else ""]
        return any(hmac.compare_digest(value.encode(), self._key.encode()) for value in found)

    async def _let_in(self, scope: dict[str, Any], send: Callable) -> None:
        """Move the key into a cookie and redirect to the address without it, so that copied links lack the key."""
        rest = re.sub(rf"(^|&){KEY}=[^&]*", "", scope["query_string"].decode("latin-1")).lstrip("&")
        cookie = f"{self._cookie(scope)}={self._key}; HttpOnly; SameSite=Strict; Path=/"
        headers = [(b"location", f"/{'?' if rest else ''}{rest}".encode("latin-1")), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 303, "headers": [*headers, *HEADERS]})
        await send({"type": "http.response.body", "body": b""})

    def _cookie(self, scope: dict[str, Any]) -> str:
        """Cookies do not depend on the port, so that two explorers need two names."""
        return f"{COOKIE}-{(scope.get('server') or ('', 0))[1]}"

    def _headers(self) -> list[tuple[bytes, bytes]]:
        if not self._hosts:
            return list(HEADERS)
        framed = POLICY.replace("frame-ancestors 'none'", "frame-ancestors https://huggingface.co")
        changed = {b"content-security-policy": framed.encode()}
        return [(n, changed.get(n, v)) for n, v in HEADERS if n != b"x-frame-options"]


def _without_ours(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers without ours and without those that let other origins read a response."""
    ours = {name for name, _ in HEADERS}
    return [(n, v) for n, v in headers if n.lower() not in ours and not n.lower().startswith(b"access-control-")]


async def _refuse(send: Callable, status: int, reason: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reason.encode()})
