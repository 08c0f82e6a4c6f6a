"""A language model behind an OpenAI-compatible server: vLLM, SGLang, transformers serve, llama.cpp, Ollama.

The server's capabilities (a JSON schema, a seed) are probed with a harmless request. Busy servers are retried with
growing pauses. A rejected request is a failure of that request, unless the server rejects plain requests too, which
stops the run. Logs and errors contain statuses and lengths, never texts.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import aiohttp

from medvqa_core.attestation import Attestation
from medvqa_core.errors import ConfigError, MedvqaError
from medvqa_core.llm.chat import ChatReply, ChatRequest, Message
from medvqa_core.llm.completions import (
    ServerCapabilities,
    parse_error_reason,
    parse_json,
    read_completion,
    request_body,
)
from medvqa_core.llm.loopback import loopback_socket
from medvqa_core.llm.slots import Slots

_log = logging.getLogger(__name__)
BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 529}
DENIED = {401, 403, 404}  # usually apply to all requests
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds
SILENCE = 5.0  # seconds without any answer before a warning
TRIES = 6  # of one request that fails while the server answers others
CONNECT_SECONDS, READ_SECONDS = 10.0, 600.0
LONGEST_BODY = 64 << 20  # bytes of an answer, unpacked
COMPLETIONS = "/chat/completions"
_PROBE_SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
    "additionalProperties": False,
}
_PROBE = ChatRequest((Message("user", "Say hello."),), schema=_PROBE_SCHEMA, max_tokens=24)


class ServerError(MedvqaError):
    """The server is down or rejects all requests. Finished answers are kept."""


@dataclass(eq=False)  # hashable, for pools
class ChatServer:
    """A server at `endpoint` (`http://127.0.0.1:8000/v1`); use it within `async with`.

    Args:
        model: its name at the server; may be empty if the server lists only one.
        slots: most concurrent requests.
        wait: seconds to wait for a server that stopped answering.
        loopback_only: refuse to connect to other machines, whatever a name resolves to.
        attestation: allows another machine to receive credentialed texts.

    Raises:
        ConfigError: the address is invalid, or no model is named and the server does not list exactly one.
        GovernanceError: `loopback_only`, and the address is another machine.
        ServerError: it cannot be reached for `wait` seconds, or rejects plain requests.
    """

    endpoint: str
    model: str = ""
    slots: int = 64
    wait: float = 600.0
    loopback_only: bool = True
    attestation: Attestation | None = None
    capabilities: ServerCapabilities | None = None
    description: dict[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "server"
    _has_warned: bool = field(default=False, init=False, repr=False)

    @property
    def revision(self) -> str:
        """Who serves the model, and whether a schema is enforced. Needs `connect`."""
        return f"{self.description['served_by']}, schema {self.description['schema']}"

    @property
    def in_flight(self) -> int:
        """Number of concurrent groups, so that slow ones leave no slot empty."""
        return 4 * self.slots

    @asynccontextmanager
    async def session(self) -> AsyncIterator["ChatServer"]:
        """A slot of the server."""
        async with self.free.hold():
            yield self

    async def __aenter__(self) -> "ChatServer":
        if not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(
                f"server {self.endpoint!r} is not a URL. Expected something like http://127.0.0.1:8000/v1."
            )
        # trust_env is off: proxies would forward even loopback traffic to another machine.
        connector = aiohttp.TCPConnector(limit=0, socket_factory=loopback_socket if self.loopback_only else None)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        self.free = Slots(self.slots)
        self._last_sign_of_life = time.monotonic()
        try:
            if self.capabilities is None:
                await self._probe()
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def connect(self) -> None:
        """Find out the model and the capabilities, which are part of a run's settings."""

        async def open_and_close() -> None:
            async with self:
                pass

        asyncio.run(open_and_close())

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Return the reply. Call it within a `session`, which holds the slot.

        Raises:
            ServerError: the server is down for longer than `wait`, or rejects all requests (status 401, 403, 404).
        """
        assert self.capabilities is not None, "use the server within `async with`"
        return await self.ask(COMPLETIONS, request_body(request, self.model, self.capabilities), read_completion)

    async def ask(self, path: str, body: Mapping[str, Any], read: Callable[[Any], ChatReply]) -> ChatReply:
        """Send `body` to `path` and parse the answer with `read`. Waits and raises as `chat`."""
        reply = await self._ask(path, body, read)
        if reply.denied:
            plain = await self._ask(COMPLETIONS, self._plain_body(), read_completion)
            if plain.denied:
                raise ServerError(
                    f"{self.endpoint} rejects a plain request too: {plain.error}. Finished answers are kept; check "
                    f"that it serves {self.model!r} without a token, and run the same command again to resume"
                )
        return reply

    async def _ask(self, path: str, body: Mapping[str, Any], read: Callable[[Any], ChatReply]) -> ChatReply:
        pause, tries, failing_since = FIRST_PAUSE, 0, None
        while True:
            reply = await self._post(path, body, read)
            tries += 1
            self.free.report(busy=reply.retry)
            now = time.monotonic()
            if not reply.retry:
                self._last_sign_of_life = now
                return reply
            failing_since = failing_since or now
            if tries >= TRIES and self._last_sign_of_life > failing_since:  # other requests succeed
                return replace(reply, error=f"{reply.error}, {tries} times while others were answered", retry=False)
            silent = now - max(self._last_sign_of_life, failing_since)
            if silent > self.wait:
                raise ServerError(
                    f"{self.endpoint} has not answered for {silent:.0f} s ({reply.error}). Finished answers are kept; "
                    "start the server and run the same command again to resume"
                )
            if silent > SILENCE:
                self._warn_once(reply.error or "no answer")
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def is_healthy(self) -> bool:
        """Whether the server answers a harmless request."""
        reply = await self._post(COMPLETIONS, self._plain_body(), read_completion)
        return not reply.retry and not reply.refused

    def _plain_body(self) -> dict[str, Any]:
        assert self.capabilities is not None, "connect to the server first"
        return request_body(_PROBE, self.model, self.capabilities)

    async def _probe(self) -> None:
        """Find the model and the capabilities. Waits for a server that is still loading."""
        if not self.model:
            self.model = await self._only_model()
        for capabilities in (
            ServerCapabilities("enforced", True),
            ServerCapabilities("refused", True),
            ServerCapabilities("refused", False),
        ):
            self.capabilities = capabilities
            reply = await self._ask(COMPLETIONS, self._plain_body(), read_completion)
            if not reply.refused:
                if capabilities.schema != "refused" and not _has_number(reply.text):
                    self.capabilities = replace(capabilities, schema="ignored")
                break
        else:
            raise ServerError(
                f"{self.endpoint} rejects a plain request: {reply.error}; check --model and the server's log"
            )
        self.description |= {"model": self.model, "schema": self.capabilities.schema, "seed": self.capabilities.seed}
        status, body = await self._get("/models", patient=False)  # some servers fail here and work
        owners = {str(item.get("owned_by")) for item in _listed(body) if status == 200 and item.get("owned_by")}
        self.description["served_by"] = ", ".join(sorted(owners)) or "unknown server"

    async def _only_model(self) -> str:
        status, body = await self._get("/models")
        names = [item.get("id") for item in _listed(body)]
        if len(names) != 1:
            listed = ", ".join(map(str, names)) or f"none (status {status})"
            raise ConfigError(f"{self.endpoint} lists these models: {listed}. Name one with --model.")
        return str(names[0])

    async def _get(self, path: str, patient: bool = True) -> tuple[int, Any]:
        """Status and body of a GET. Waits for a busy server if `patient`."""
        deadline, pause = time.monotonic() + self.wait, FIRST_PAUSE
        while True:
            try:
                async with self._session.get(self.endpoint.rstrip("/") + path, allow_redirects=False) as response:
                    if response.status not in BUSY or not patient:
                        return response.status, parse_json(await _read(response))
                    problem = f"status {response.status}"
            except aiohttp.InvalidURL:
                raise ConfigError(
                    f"server {self.endpoint!r} is not a URL. Expected something like http://127.0.0.1:8000/v1."
                ) from None
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                problem = type(error).__name__
                if not patient:
                    return 0, None
            if time.monotonic() > deadline:
                raise ServerError(
                    f"{self.endpoint} cannot be reached ({problem}). Start the server, or wait longer with --wait."
                )
            self._warn_once(problem)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _warn_once(self, problem: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning("%s: %s; waiting up to %.0f s for it (--wait)", self.endpoint, problem, self.wait)

    async def _post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], ChatReply]) -> ChatReply:
        address = self.endpoint.rstrip("/") + path
        try:
            async with self._session.post(address, json=body, allow_redirects=False) as response:
                content = await _read(response)
                status = response.status
        except aiohttp.InvalidURL:
            raise ConfigError(
                f"server {self.endpoint!r} is not a URL. Expected something like http://127.0.0.1:8000/v1."
            ) from None
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            return ChatReply(None, f"no answer ({type(error).__name__})", retry=True)
        if status in BUSY:
            return ChatReply(None, f"status {status}", retry=True)
        if status != 200:
            reason = parse_error_reason(parse_json(content))
            return ChatReply(None, f"refused with status {status}: {reason}", refused=True, denied=status in DENIED)
        if content is None:
            return ChatReply(None, f"an answer of more than {LONGEST_BODY:,} bytes")
        return read(parse_json(content))


async def _read(response: aiohttp.ClientResponse) -> bytes | None:
    """The body, or None if it is longer than LONGEST_BODY."""
    parts, size = [], 0
    async for part in response.content.iter_chunked(1 << 20):
        parts.append(part)
        size += len(part)
        if size > LONGEST_BODY:
            response.close()
            return None
    return b"".join(parts)


def _listed(body: Any) -> list[dict[str, Any]]:
    """The entries of a list of models."""
    data = body.get("data") if isinstance(body, dict) else None
    return [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []


def _has_number(text: str | None) -> bool:
    found = parse_json((text or "").encode())
    return isinstance(found, dict) and isinstance(found.get("number"), int)
