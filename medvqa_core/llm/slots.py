"""How many requests a server bears at once: found while it works, by adding slowly and halving quickly (AIMD)."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """At most `limit` holders at a time; `limit` moves between 1 and `most`.

    A busy signal (429, 503, a time-out) halves the limit, at most once per round of holders; a full round without one
    adds one slot. Waiters are served in order.
    """

    def __init__(self, most: int) -> None:
        self.most = self.limit = most
        self._held = 0
        self._since_change = 0
        self._waiters: deque[asyncio.Future] = deque()

    @property
    def held(self) -> int:
        """How many hold a slot now."""
        return self._held

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold a slot for the length of the block."""
        await self._acquire()
        try:
            yield
        finally:
            self._held -= 1
            self._wake()

    def report(self, busy: bool) -> None:
        """Say how a request went."""
        self._since_change += 1
        if busy and self._since_change >= self.limit // 2:
            self.limit, self._since_change = max(1, self.limit // 2), 0
        elif not busy and self._since_change >= self.limit and self.limit < self.most:
            self.limit, self._since_change = self.limit + 1, 0
            self._wake()

    async def _acquire(self) -> None:
        if self._held < self.limit and not self._waiters:
            self._held += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its slot was handed over already
                self._held -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        """Hand free slots to those who wait, in their order."""
        while self._held < self.limit and self._waiters:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                self._held += 1
