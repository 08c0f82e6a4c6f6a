"""Several servers of one model as one. A study goes to the least busy server, or to another if its server is down.

Servers that are down are checked regularly and used again once they answer. All must serve the same model with the same
capabilities, because a row's provenance must not depend on which server was free.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from medvqa_core.addresses import is_loopback, parse_host
from medvqa_core.attestation import Attestation
from medvqa_core.errors import ConfigError
from medvqa_core.llm.chat import ChatReply, ChatRequest
from medvqa_core.llm.server import ChatServer, ServerError

PATIENCE = 15.0  # seconds without an answer before a server's studies go to others
FIRST_LOOK, LONGEST_LOOK = 1.0, 30.0  # seconds between health checks


class ServerPool:
    """A ChatModel over connected servers.

    Args:
        wait: seconds to wait while all servers are down.

    Raises:
        ConfigError: their models or capabilities differ.
    """

    kind = "server"

    def __init__(self, servers: Sequence[ChatServer], wait: float) -> None:
        self.servers, self.wait = tuple(servers), wait
        first = self.servers[0]
        for other in self.servers[1:]:
            if (other.model, other.revision, other.capabilities) != (first.model, first.revision, first.capabilities):
                raise ConfigError(
                    f"{_describe(first)}, {_describe(other)}: servers that share the work must have the same model and "
                    "capabilities"
                )
        for server in self.servers:
            server.wait = min(wait, PATIENCE)
        self.model, self.revision = first.model, first.revision
        self.description: dict[str, Any] = {**first.description, "servers": len(self.servers)}
        self.down: set[ChatServer] = set()

    @property
    def endpoint(self) -> str:
        """One of the addresses, of another machine if possible."""
        addresses = [server.endpoint for server in self.servers]
        return next((address for address in addresses if not is_loopback(address)), addresses[0])

    @property
    def attestation(self) -> Attestation | None:
        """The attestation of all servers."""
        return self.servers[0].attestation

    @property
    def in_flight(self) -> int:
        """Number of concurrent groups at all servers."""
        return sum(server.in_flight for server in self.servers)

    @asynccontextmanager
    async def session(self) -> AsyncIterator["PooledSession"]:
        """A slot of the least busy server, or of another one if that is down."""
        session = PooledSession(self)
        try:
            await session.take()
            yield session
        finally:
            await session.leave()

    async def __aenter__(self) -> "ServerPool":
        self.down.clear()
        self._checks: list[asyncio.Task[None]] = []
        self._held: Counter[ChatServer] = Counter()
        self._changed = asyncio.Condition()  # a slot is free, or a server is down or back
        self._open = AsyncExitStack()
        for server in self.servers:
            await self._open.enter_async_context(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._checks:
            task.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)
        await self._open.aclose()

    async def take(self) -> ChatServer:
        """Wait for a slot of the least busy server and hold it. Raises ServerError if all are down for `wait` s."""
        async with self._changed:
            while not (free := [one for one in self.servers if one not in self.down and self._held[one] < one.slots]):
                all_gone = len(self.down) == len(self.servers)
                left = max(0.0, self._all_gone_since + self.wait - time.monotonic()) if all_gone else None
                try:
                    async with asyncio.timeout(left):
                        await self._changed.wait()
                except TimeoutError:
                    names = ", ".join(parse_host(server.endpoint) for server in self.servers)
                    raise ServerError(
                        f"none of {names} has answered for {self.wait:.0f} s. Finished answers are kept. Start the "
                        "servers and run the same command again to resume"
                    ) from None
            server = min(free, key=lambda one: self._held[one] / one.slots)
            self._held[server] += 1
            return server

    async def release(self, server: ChatServer) -> None:
        """Release a slot of a server."""
        self._held[server] -= 1
        async with self._changed:
            self._changed.notify()

    async def mark_down(self, server: ChatServer) -> None:
        """Stop using a server until it is healthy again."""
        if server not in self.down:
            self.down.add(server)
            self._all_gone_since = time.monotonic()
            self._checks.append(asyncio.ensure_future(self._check_health(server)))
            async with self._changed:
                self._changed.notify_all()

    async def _check_health(self, server: ChatServer) -> None:
        pause = FIRST_LOOK
        while not await server.is_healthy():
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK)
        self.down.discard(server)
        async with self._changed:
            self._changed.notify_all()


class PooledSession:
    """A slot of one server at a time."""

    def __init__(self, pool: ServerPool) -> None:
        self._pool = pool
        self._server: ChatServer | None = None

    async def take(self) -> None:
        """Release the slot and take one of the least busy server."""
        await self.leave()
        self._server = await self._pool.take()

    async def leave(self) -> None:
        """Release the slot."""
        server, self._server = self._server, None
        if server is not None:
            await self._pool.release(server)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Return a reply, from another server if this one is down. Raises ServerError if all are."""
        while True:
            assert self._server is not None, "use the session within `async with`"
            try:
                return await self._server.chat(request)
            except ServerError:
                await self._pool.mark_down(self._server)
                await self.take()


def _describe(server: ChatServer) -> str:
    return f"{parse_host(server.endpoint)} serves {server.model} ({server.revision}, seed {server.description['seed']})"
