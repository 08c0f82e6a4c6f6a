"""A language model behind an OpenAI-compatible server: vLLM, SGLang, transformers serve, llama.cpp, Ollama.

What the server takes (a JSON schema, a seed) is probed once with a harmless request and recorded; what it refuses is
not sent. Busy and broken answers are tried again with growing pauses, and a server that is gone is waited for; a
request that the server refuses is that request's failure, unless it refuses plain ones too (it needs a token, or came
back with another model): that ends the run. Logs and errors hold statuses and lengths, never texts.
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
DENIED = {401, 403, 404}  # of whoever asks, or of a model that is not there: seldom of one request
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds
SILENCE = 5.0  # seconds without any answer, after which it is said that a server is waited for
TRIES = 6  # of one request that fails while the server answers others
CONNECT_SECONDS, READ_SECONDS = 10.0, 600.0
LONGEST_BODY = 64 << 20  # bytes of an answer, unpacked; no reply that we ask for comes near
COMPLETIONS = "/chat/completions"
_PROBE_SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
    "additionalProperties": False,
}
_PROBE = ChatRequest((Message("user", "Say hello."),), schema=_PROBE_SCHEMA, max_tokens=24)


class ServerError(MedvqaError):
    """The server is gone, or takes no request of this kind; what was answered before is kept."""


@dataclass(eq=False)  # each is itself: pools keep them in sets
class ChatServer:
    """A server at `endpoint` (`http://127.0.0.1:8000/v1`); use it within `async with`.

    Args:
        model: name as the server knows it; without one, the only one that it lists.
        slots: most requests at once; adapts below that.
        wait: seconds that a server which stopped answering is waited for.
        loopback_only: refuse to connect to anything but this machine, whatever a name resolves to.
        attestation: names the machine, where it is another one and the texts are credentialed; carried along only.

    Raises:
        ConfigError: the address is none, or no model is named where the server does not list exactly one.
        GovernanceError: `loopback_only`, and the address is another machine's.
        ServerError: it cannot be reached for `wait` seconds, or refuses plain requests (a model that it does not have).
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
    _has_said_it_waits: bool = field(default=False, init=False, repr=False)

    @property
    def revision(self) -> str:
        """Who serves the model, and whether a schema is enforced. The server has to be met before."""
        return f"{self.description['served_by']}, schema {self.description['schema']}"

    @property
    def in_flight(self) -> int:
        """Groups under way: enough that one which takes long keeps no slot of the server empty."""
        return 4 * self.slots

    @asynccontextmanager
    async def session(self) -> AsyncIterator["ChatServer"]:
        """A slot of the server, for requests one after another."""
        async with self.free.hold():
            yield self

    async def __aenter__(self) -> "ChatServer":
        if not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(f"server {self.endpoint!r}: an address is needed, such as http://127.0.0.1:8000/v1")
        # trust_env stays off: proxy variables would carry even loopback traffic to another machine
        connector = aiohttp.TCPConnector(limit=0, socket_factory=loopback_socket if self.loopback_only else None)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        self.free = Slots(self.slots)
        self._last_sign_of_life = time.monotonic()
        try:
            if self.capabilities is None:
                await self._meet()
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def connect(self) -> None:
        """Find out model and capabilities before a run begins: they are part of its settings."""

        async def open_and_close() -> None:
            async with self:
                pass

        asyncio.run(open_and_close())

    async def chat(self, request: ChatRequest) -> ChatReply:
        """One reply; holds no slot itself, so that whoever asks several times in a row keeps one (`session`).

        Raises:
            ServerError: the server is gone for longer than `wait`, or refuses everybody (status 401, 403, 404).
        """
        assert self.capabilities is not None, "use the server within `async with`"
        return await self.ask(COMPLETIONS, request_body(request, self.model, self.capabilities), read_completion)

    async def ask(self, path: str, body: Mapping[str, Any], read: Callable[[Any], ChatReply]) -> ChatReply:
        """What `read` makes of the server's answer to `body`, sent to `path`; waits and ends as `chat` does."""
        reply = await self._ask(path, body, read)
        if reply.denied:
            plain = await self._ask(COMPLETIONS, self._plain_body(), read_completion)
            if plain.denied:
                raise ServerError(
                    f"{self.endpoint} refuses a plain request too, {plain.error}; everything answered before is kept: "
                    f"see that it serves {self.model!r} and asks for no token, and run the same command"
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
            failing_since = failing_since or now  # a server that nobody asked before was not silent
            if tries >= TRIES and self._last_sign_of_life > failing_since:  # it answers others: this one breaks it
                return replace(reply, error=f"{reply.error}, {tries} times while others were answered", retry=False)
            silent = now - max(self._last_sign_of_life, failing_since)
            if silent > self.wait:
                raise ServerError(
                    f"{self.endpoint} has answered nothing for {silent:.0f} s ({reply.error}); everything answered "
                    "before is kept: start the server again and run the same command"
                )
            if silent > SILENCE:
                self._say_that_it_waits(reply.error or "no answer")
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def is_healthy(self) -> bool:
        """Whether the server answers a harmless request now."""
        reply = await self._post(COMPLETIONS, self._plain_body(), read_completion)
        return not reply.retry and not reply.refused

    def _plain_body(self) -> dict[str, Any]:
        assert self.capabilities is not None, "meet the server first"
        return request_body(_PROBE, self.model, self.capabilities)

    async def _meet(self) -> None:
        """Find the model and the capabilities; wait for a server that is still loading."""
        if not self.model:
            self.model = await self._only_model()
        for capabilities in (
            ServerCapabilities("enforced", True),
            ServerCapabilities("refused", True),
            ServerCapabilities("refused", False),
        ):
            self.capabilities = capabilities
            reply = await self._ask(COMPLETIONS, self._plain_body(), read_completion)
            if not reply.refused:  # whatever the model said to it
                if capabilities.schema != "refused" and not _has_number(reply.text):
                    self.capabilities = replace(capabilities, schema="ignored")
                break
        else:
            raise ServerError(f"{self.endpoint} refuses a plain request: {reply.error}; check --model and its log")
        self.description |= {"model": self.model, "schema": self.capabilities.schema, "seed": self.capabilities.seed}
        status, body = await self._get("/models", patient=False)  # some servers fail at it and answer all the same
        owners = {str(item.get("owned_by")) for item in _listed(body) if status == 200 and item.get("owned_by")}
        self.description["served_by"] = ", ".join(sorted(owners)) or "unknown server"

    async def _only_model(self) -> str:
        status, body = await self._get("/models")
        names = [item.get("id") for item in _listed(body)]
        if len(names) != 1:
            listed = ", ".join(map(str, names)) or f"none (status {status})"
            raise ConfigError(f"{self.endpoint} lists these models: {listed}; name one with --model")
        return str(names[0])

    async def _get(self, path: str, patient: bool = True) -> tuple[int, Any]:
        """Status and body; a busy server is waited for, unless a failure is an answer too."""
        deadline, pause = time.monotonic() + self.wait, FIRST_PAUSE
        while True:
            try:
                async with self._session.get(self.endpoint.rstrip("/") + path, allow_redirects=False) as response:
                    if response.status not in BUSY or not patient:
                        return response.status, parse_json(await _read(response))
                    problem = f"status {response.status}"
            except aiohttp.InvalidURL:
                raise ConfigError(f"server {self.endpoint!r} is no address; such as http://127.0.0.1:8000/v1") from None
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                problem = type(error).__name__
                if not patient:
                    return 0, None
            if time.monotonic() > deadline:
                raise ServerError(f"{self.endpoint} cannot be reached ({problem}); start the server, or see --wait")
            self._say_that_it_waits(problem)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _say_that_it_waits(self, problem: str) -> None:
        """Once: whoever forgot to start the server should not look at nothing for minutes."""
        if not self._has_said_it_waits:
            self._has_said_it_waits = True
            _log.warning("%s: %s; waiting up to %.0f s for it (--wait)", self.endpoint, problem, self.wait)

    async def _post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], ChatReply]) -> ChatReply:
        address = self.endpoint.rstrip("/") + path
        try:
            async with self._session.post(address, json=body, allow_redirects=False) as response:
                content = await _read(response)
                status = response.status
        except aiohttp.InvalidURL:
            raise ConfigError(f"server {self.endpoint!r} is no address; such as http://127.0.0.1:8000/v1") from None
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
    """The body; None where it is longer than anything we ask for: it is not read to its end."""
    parts, size = [], 0
    async for part in response.content.iter_chunked(1 << 20):
        parts.append(part)
        size += len(part)
        if size > LONGEST_BODY:
            response.close()
            return None
    return b"".join(parts)


def _listed(body: Any) -> list[dict[str, Any]]:
    """The entries of a list of models; none where it is no such list."""
    data = body.get("data") if isinstance(body, dict) else None
    return [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []


def _has_number(text: str | None) -> bool:
    found = parse_json((text or "").encode())
    return isinstance(found, dict) and isinstance(found.get("number"), int)
