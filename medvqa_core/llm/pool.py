"""Several servers of one model as one: each study goes to the least busy, and to another where its server is gone.

Servers that stop answering are looked at now and then and take part again once they answer. What rows say of their
origin must not hang on which server was free, so that all have to serve the same model in the same capabilities.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from medvqa_core.addresses import is_loopback, parse_host
from medvqa_core.attestation import Attestation
from medvqa_core.errors import ConfigError
from medvqa_core.llm.chat import ChatReply, ChatRequest
from medvqa_core.llm.server import ChatServer, ServerError

PATIENCE = 15.0  # seconds without an answer after which a server's studies go to others
FIRST_LOOK, LONGEST_LOOK = 1.0, 30.0  # seconds between looks at a server that is gone


class ServerPool:
    """A ChatModel over servers that were met.

    Args:
        wait: seconds that are waited while every server is gone.

    Raises:
        ConfigError: they serve different models, or take different things.
    """

    kind = "server"

    def __init__(self, servers: Sequence[ChatServer], wait: float) -> None:
        self.servers, self.wait = tuple(servers), wait
        first = self.servers[0]
        for other in self.servers[1:]:
            if (other.model, other.revision, other.capabilities) != (first.model, first.revision, first.capabilities):
                raise ConfigError(
                    f"{_say(first)}, {_say(other)}: servers that share the work have to be alike, so that no answer "
                    "depends on which of them was free"
                )
        for server in self.servers:
            server.wait = min(wait, PATIENCE)
        self.model, self.revision = first.model, first.revision
        self.description: dict[str, Any] = {**first.description, "servers": len(self.servers)}
        self.gone: set[ChatServer] = set()

    @property
    def endpoint(self) -> str:
        """One of the addresses; of another machine, if there is one."""
        addresses = [server.endpoint for server in self.servers]
        return next((address for address in addresses if not is_loopback(address)), addresses[0])

    @property
    def attestation(self) -> Attestation | None:
        """The same for all."""
        return self.servers[0].attestation

    @property
    def in_flight(self) -> int:
        """Groups under way at all servers together."""
        return sum(server.in_flight for server in self.servers)

    @asynccontextmanager
    async def session(self) -> AsyncIterator["PooledSession"]:
        """A slot of the least busy server, and of another one should that be gone."""
        session = PooledSession(self)
        try:
            await session.take()
            yield session
        finally:
            await session.leave()

    async def __aenter__(self) -> "ServerPool":
        self.gone.clear()
        self._looking: list[asyncio.Task[None]] = []
        self._turns: deque[asyncio.Future[None]] = deque()
        self._open = AsyncExitStack()
        for server in self.servers:
            await self._open.enter_async_context(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)
        await self._open.aclose()

    async def free_server(self) -> ChatServer:
        """The least busy server, once one has a free slot. Raises ServerError where all are gone for `wait` seconds."""
        is_first = True
        while True:
            there = [server for server in self.servers if server not in self.gone]
            free = [server for server in there if server.free.held < server.free.limit]
            if free and not (is_first and self._turns):  # nobody overtakes those who wait
                return min(free, key=lambda server: server.free.held / server.free.limit)
            turn = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            try:
                left = None if there else self._all_gone_since + self.wait - time.monotonic()
                await asyncio.wait_for(turn, left if left is None else max(left, 0.0))
            except TimeoutError:
                names = ", ".join(parse_host(server.endpoint) for server in self.servers)
                raise ServerError(
                    f"none of {names} has answered for {self.wait:.0f} s; everything answered before is kept: start "
                    "the servers again and run the same command"
                ) from None
            is_first = False

    def wake(self, how_many: int = 1) -> None:
        """Let those who wait longest look again."""
        while how_many and self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                how_many -= 1

    def mark_down(self, server: ChatServer) -> None:
        """Leave a server out until it answers again."""
        if server in self.gone:
            return
        self.gone.add(server)
        self._all_gone_since = time.monotonic()
        self._looking.append(asyncio.ensure_future(self._look_for(server)))
        self.wake(len(self._turns))

    async def _look_for(self, server: ChatServer) -> None:
        pause = FIRST_LOOK
        while not await server.is_healthy():
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK)
        self.gone.discard(server)
        self.wake(len(self._turns))


class PooledSession:
    """A slot of one server at a time, kept while it answers."""

    def __init__(self, pool: ServerPool) -> None:
        self._pool, self._held = pool, AsyncExitStack()
        self._server: ChatServer | None = None

    async def take(self) -> None:
        """A slot of the least busy server, in place of the one that is held."""
        await self.leave()
        server = await self._pool.free_server()
        await self._held.enter_async_context(server.session())
        self._server = server

    async def leave(self) -> None:
        """Give the slot up."""
        if self._server is not None:
            self._server = None
            await self._held.aclose()
        self._pool.wake()

    async def chat(self, request: ChatRequest) -> ChatReply:
        """One reply, from another server where this one is gone. Raises ServerError where all are gone for long."""
        while True:
            assert self._server is not None, "use the session within `async with`"
            try:
                return await self._server.chat(request)
            except ServerError:
                self._pool.mark_down(self._server)
                await self.take()


def _say(server: ChatServer) -> str:
    return f"{parse_host(server.endpoint)} serves {server.model} ({server.revision}, seed {server.description['seed']})"
