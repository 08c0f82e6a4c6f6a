"""Adapts the number of concurrent requests to a server (additive increase, multiplicative decrease)."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """At most `limit` holders at a time, where `limit` varies between 1 and `most`. Waiters are served in order.

    A busy signal (429, 503, a time-out) halves the limit, at most once per round of holders. A round without one adds a
    slot.
    """

    def __init__(self, most: int) -> None:
        self.most = self.limit = most
        self._held = 0
        self._since_change = 0
        self._waiters: deque[asyncio.Future] = deque()

    @property
    def held(self) -> int:
        """Number of slots in use."""
        return self._held

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold a slot for the block."""
        await self._acquire()
        try:
            yield
        finally:
            self._held -= 1
            self._wake()

    def report(self, busy: bool) -> None:
        """Report whether a request got a busy signal."""
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
            if turn.done() and not turn.cancelled():  # it already had its slot
                self._held -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._held < self.limit and self._waiters:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                self._held += 1
