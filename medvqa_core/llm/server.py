"""A language model behind an OpenAI-compatible server: vLLM, SGLang, transformers serve, llama.cpp, Ollama.

The server's capabilities (a JSON schema, a seed) are probed with a harmless request. A failing request is handled as
in this table. Logs and errors contain statuses and lengths, never texts or keys.

    429, 503, 529: busy               repeated for `wait` seconds, and while the server answers others,
                                      after `Retry-After` or growing pauses
    408, 409, 425, 500, 502, 504,
    no or a broken answer: a fault    repeated TRIES times, with growing pauses
    401, 403, 404                     a failure of the request, unless a plain request is rejected too: the run stops
    other statuses                    a failure of the request

After the last repetition a plain request decides. If the server answers it, only the first request has failed and the
run continues. Otherwise the server is down. The request is repeated until the server has been silent for `wait`
seconds, which stops the run or moves the request to another server.
"""

import asyncio
import logging
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import aiohttp

from medvqa_core.addresses import loopback_socket
from medvqa_core.attestation import Attestation
from medvqa_core.errors import ConfigError, MedvqaError
from medvqa_core.llm.chat import ChatReply, ChatRequest, Message, object_schema
from medvqa_core.llm.completions import (
    ENFORCED,
    IGNORED,
    OBJECT,
    REFUSED,
    ServerCapabilities,
    parse_error_reason,
    parse_json,
    read_completion,
    request_body,
)

T = TypeVar("T")
_log = logging.getLogger(__name__)
BUSY = {429, 503, 529}
FAULTS = {408, 409, 425, 500, 502, 504}
NO_ANSWER = 0  # in place of a status
DENIED = {401, 403, 404}  # usually apply to all requests
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds
SILENCE = 5.0  # seconds without any answer before a warning, or before a busy server is considered idle
TRIES = 6  # of a request that gets faults
LIST_TRIES = 3  # of the list of models, if it gets faults
CONNECT_SECONDS, READ_SECONDS = 10.0, 600.0
LONGEST_BODY = 64 << 20  # bytes of an answer, unpacked
COMPLETIONS = "/chat/completions"
_PROBE = ChatRequest((Message("user", "Say hello."),), schema=object_schema(number={"type": "integer"}), max_tokens=24)
_CANDIDATES = [  # capabilities, in the order in which they are tried
    ServerCapabilities(ENFORCED, True),
    ServerCapabilities(OBJECT, True),
    ServerCapabilities(REFUSED, True),
    ServerCapabilities(REFUSED, False),
]


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
        api_key: sent as a Bearer token.
        any_model: accept replies that name another model than the one asked for.
        known: capabilities that an earlier run found; others are only tried if the server rejects these.

    Attributes:
        models: names that the server lists.

    Raises:
        ConfigError: the address is invalid, or no model is named and the server does not list exactly one.
        GovernanceError: `loopback_only`, and the address is another machine.
        ServerError: it does not answer for `wait` seconds, rejects plain requests, or answers with another model.
    """

    endpoint: str
    model: str = ""
    slots: int = 64
    wait: float = 600.0
    loopback_only: bool = True
    attestation: Attestation | None = None
    capabilities: ServerCapabilities | None = None
    description: dict[str, Any] = field(default_factory=dict)
    api_key: str | None = field(default=None, repr=False)
    any_model: bool = False
    known: ServerCapabilities | None = None
    models: list[str] = field(default_factory=list, init=False)
    kind: ClassVar[str] = "server"
    _has_warned: bool = field(default=False, init=False, repr=False)
    _rejects_logprobs: bool = field(default=False, init=False, repr=False)
    _problem: str = field(default="no answer", init=False, repr=False)  # the latest

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
        async with self._free:
            yield self

    async def __aenter__(self) -> "ChatServer":
        if not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(f"server {self.endpoint!r} is not a URL. Expected something like {_EXAMPLE}.")
        # trust_env is off: proxies would forward even loopback traffic to another machine.
        connector = aiohttp.TCPConnector(limit=0, socket_factory=loopback_socket if self.loopback_only else None)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else None
        self._http = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers, trust_env=False)
        self._free = asyncio.Semaphore(self.slots)
        self._last_answer = time.monotonic()
        self._check: asyncio.Task[ChatReply] | None = None
        try:
            if self.capabilities is None:
                await self._probe()
        except BaseException:
            await self._http.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    def connect(self) -> None:
        """Find out the model and the capabilities, which are part of a run's settings."""

        async def open_and_close() -> None:
            async with self:
                pass

        asyncio.run(open_and_close())

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Return the reply. Call it within a `session`, which holds the slot.

        Raises:
            ServerError: the server is down, rejects all requests, or answers with another model.
        """
        assert self.capabilities is not None, "use the server within `async with`"
        if request.logprobs and self._rejects_logprobs:
            request = replace(request, logprobs=False)
        reply = await self.ask(COMPLETIONS, request_body(request, self.model, self.capabilities), read_completion)
        if request.logprobs and reply.refused:
            plain = replace(request, logprobs=False)
            reply = await self.ask(COMPLETIONS, request_body(plain, self.model, self.capabilities), read_completion)
            self._rejects_logprobs = not reply.refused
        return reply

    async def ask(self, path: str, body: Mapping[str, Any], read: Callable[[Any], ChatReply]) -> ChatReply:
        """Send `body` to `path` and parse the answer with `read`. Waits and raises as `chat`."""
        tries, first_failure = 0, None
        while True:
            reply = await self._post(path, body, read)
            if reply.denied and (plain := await self._post_plain()).denied:
                raise ServerError(
                    f"{self.endpoint} rejects a plain request too: {plain.error}. Finished answers are kept. Check "
                    f"that it serves {self.model!r} and --api-key-env, and run the same command again to resume"
                )
            if not reply.retry:
                self._check_model(reply.model)
                return reply if self.any_model else replace(reply, model=None)
            tries, now = tries + 1, time.monotonic()
            first_failure = first_failure or now
            is_last = now - first_failure > self.wait
            if reply.retry_after is None:
                is_last |= tries >= TRIES
            else:  # other requests may take the places of a busy server
                is_last &= now - self._last_answer > min(SILENCE, self.wait)
            if is_last and await self.is_healthy():
                error = f"{reply.error}, {tries} times while a plain request was answered"
                return replace(reply, error=error, retry=False)
            await self._pause(tries, first_failure, reply.retry_after or 0.0)

    async def is_healthy(self) -> bool:
        """Whether the server answers a plain request."""
        reply = await self._post_plain()
        return not reply.retry and not reply.refused

    async def _pause(self, tries: int, first_failure: float, retry_after: float = 0.0) -> None:
        """Pause before the next try. Raises ServerError if the server has been silent for `wait` seconds."""
        silent = time.monotonic() - max(self._last_answer, first_failure)
        if silent > self.wait:
            raise ServerError(
                f"{self.endpoint} has not answered for {silent:.0f} s ({self._problem}). Finished answers are kept. "
                "Start the server and run the same command again to resume"
            )
        if silent > SILENCE and not self._has_warned:
            self._has_warned = True
            _log.warning("%s: %s. Waiting up to %.0f s for it (--wait)", self.endpoint, self._problem, self.wait)
        pause = min(FIRST_PAUSE * 2 ** min(tries - 1, 16), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
        await asyncio.sleep(max(pause, min(retry_after, self.wait)))

    async def _post_plain(self) -> ChatReply:
        """The reply to a harmless request. Concurrent callers share one request."""
        if self._check is None or self._check.done():
            assert self.capabilities is not None, "connect to the server first"
            body = request_body(_PROBE, self.model, self.capabilities)
            self._check = asyncio.ensure_future(self._post(COMPLETIONS, body, read_completion))
        return await asyncio.shield(self._check)

    async def _probe(self) -> None:
        """Find the model and the capabilities. Waits for a server that is still loading."""
        self._faults = 0
        listed = await self._repeat(self._list_models)
        self.models = [str(item.get("id")) for item in listed]
        self.model = self.model or self._find_only_model()
        reply = await self._repeat(self._try_capabilities)
        assert self.capabilities is not None
        is_ignored = self.capabilities.schema != REFUSED and not _has_number(reply.text)
        if is_ignored and self.capabilities != self.known:
            self.capabilities = replace(self.capabilities, schema=IGNORED)
        self._check_model(reply.model)
        owners = {str(item.get("owned_by")) for item in listed if item.get("owned_by")}
        self.description |= {"model": self.model, "schema": self.capabilities.schema, "seed": self.capabilities.seed}
        self.description["served_by"] = ", ".join(sorted(owners)) or "unknown server"

    async def _repeat(self, attempt: Callable[[], Awaitable[T | None]]) -> T:
        """Repeat `attempt` with growing pauses until it returns something. Raises ServerError after `wait` seconds."""
        tries, started = 0, time.monotonic()
        while (found := await attempt()) is None:
            tries += 1
            await self._pause(tries, started)
        return found

    async def _list_models(self) -> list[dict[str, Any]] | None:
        """The entries of the list of models, possibly none; None if the server should be asked again."""
        self._status, content, _ = await self._send("GET", "/models")
        self._faults += self._status in FAULTS  # some servers always answer 500
        is_loading = self._status in {NO_ANSWER, *BUSY} or (not self.model and self._status in {502, 504})
        if is_loading or (self._status in FAULTS and self._faults < LIST_TRIES):
            return None
        body = parse_json(content) if self._status == 200 else None
        data = body.get("data") if isinstance(body, dict) else None
        return [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []

    def _find_only_model(self) -> str:
        if len(self.models) != 1:
            found = ", ".join(self.models) or f"none (status {self._status})"
            raise ConfigError(f"{self.endpoint} lists these models: {found}. Name one with --model.")
        return self.models[0]

    async def _try_capabilities(self) -> ChatReply | None:
        """Set the first capabilities that the server accepts, and return its reply; None if it is busy or down.

        Some servers answer 500 to a feature that they do not support.
        """
        fault = False
        candidates = [self.known, *_CANDIDATES] if self.known else _CANDIDATES
        for self.capabilities in candidates:
            for _ in range(TRIES if self.capabilities == self.known else 2):  # a fault may be a coincidence
                reply = await self._post_plain()
                if not reply.retry:
                    break
            if reply.retry and reply.status not in FAULTS:
                return None
            fault |= reply.retry
            is_useless = self.capabilities.schema == OBJECT and not _has_number(reply.text)
            if not reply.retry and not reply.refused and not (is_useless and self.capabilities != self.known):
                return reply
        if fault:
            return None
        raise ServerError(
            f"{self.endpoint} rejects a plain request: {reply.error}. Check --model, --api-key-env and the server's log"
        )

    def _check_model(self, name: str | None) -> None:
        """Raise ServerError if a reply names another model."""
        if name and not self.any_model and not is_same_model(self.model, name):
            raise ServerError(
                f"{self.endpoint} replied with model {name[:200]!r} instead of {self.model!r}. Finished answers are "
                f"kept. Name the model with --model, or accept other models with --any-model"
            )

    async def _post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], ChatReply]) -> ChatReply:
        status, content, retry_after = await self._send("POST", path, body)
        if status == NO_ANSWER:
            return ChatReply(None, self._problem, retry=True)
        if status in BUSY | FAULTS:
            seconds = float(retry_after) if re.fullmatch(r"\d{1,5}", retry_after, re.ASCII) else 0.0
            is_busy = status in BUSY or retry_after != ""
            return ChatReply(
                None, f"status {status}", retry=True, status=status, retry_after=seconds if is_busy else None
            )
        self._last_answer = time.monotonic()
        if status != 200:
            reason = parse_error_reason(parse_json(content))
            if self.api_key:
                reason = reason.replace(self.api_key, "…")
            refusal = f"refused with status {status}: {reason}"
            return ChatReply(None, refusal, refused=True, denied=status in DENIED, status=status)
        if content is None:
            return ChatReply(None, f"an answer of more than {LONGEST_BODY:,} bytes")
        return read(parse_json(content))

    async def _send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes | None, str]:
        """Status (or NO_ANSWER), body (None if it is too long) and `Retry-After` of an answer."""
        address = self.endpoint.rstrip("/") + path
        try:
            async with self._http.request(method, address, json=body, allow_redirects=False) as response:
                self._problem = f"status {response.status}"
                return response.status, await _read(response), response.headers.get("Retry-After", "")
        except aiohttp.InvalidURL:
            raise ConfigError(f"server {self.endpoint!r} is not a URL. Expected something like {_EXAMPLE}.") from None
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            self._problem = f"no answer ({type(error).__name__})"
            return NO_ANSWER, None, ""


_EXAMPLE = "http://127.0.0.1:8000/v1"


def is_same_model(asked: str, replied: str) -> bool:
    """Whether a reply's model is the one asked for, which servers may name with a folder, tag, commit or date."""

    def strip(name: str) -> str:
        return re.sub(r"(@[^/]+|:latest|-\d{4}-?\d\d-?\d\d)$", "", name.strip()).rpartition("/")[2].lower()

    return strip(asked) == strip(replied)


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


def _has_number(text: str | None) -> bool:
    found = parse_json((text or "").encode())
    return isinstance(found, dict) and isinstance(found.get("number"), int)
