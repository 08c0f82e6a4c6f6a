"""Adaptive slots against a fixed number of them, at a simulated server with a simulated clock."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from medvqa_core.llm import server as servers
from medvqa_core.llm.chat import ChatReply, ChatRequest, Message
from medvqa_core.llm.completions import ServerCapabilities
from medvqa_core.llm.slots import Slots

LATENCY, CLIENTS, REQUESTS = 0.2, 64, 2000


class SimulatedClock(asyncio.SelectorEventLoop):
    """An event loop that does not wait: its time jumps to the next event."""

    def __init__(self):
        super().__init__()
        self.now, select = 0.0, self._selector.select

        def jump(timeout):
            self.now += timeout or 0.0
            return select(0)

        self._selector.select = jump

    def time(self):
        return self.now

    monotonic = time


class FixedSlots:
    """What would replace `Slots`."""

    def __init__(self, most):
        self.free = asyncio.Semaphore(most)

    @asynccontextmanager
    async def hold(self):
        async with self.free:
            yield

    def report(self, busy):
        pass


class SimulatedServer(servers.ChatServer):
    """Answers `capacity` requests at a time and rejects others with 429."""

    capacity, retry_after, under_way = 0, 0.0, 0

    async def _post(self, path, body, read):
        if self.under_way >= self.capacity:
            await asyncio.sleep(0.002)
            return ChatReply(None, "status 429", retry=True, status=429, retry_after=self.retry_after)
        self.under_way += 1
        await asyncio.sleep(random.uniform(0.5, 1.5) * LATENCY)
        self.under_way -= 1
        self._last_answer = asyncio.get_running_loop().time()
        return ChatReply("fine")


def rate(slots, capacity, retry_after, monkeypatch):
    """Answers per simulated second."""
    random.seed(0)
    clock = SimulatedClock()
    monkeypatch.setattr(servers, "time", clock)
    server = SimulatedServer("http://x", "m", CLIENTS, capabilities=ServerCapabilities("refused", False))
    server.capacity, server.retry_after, server._last_answer, server._check = capacity, retry_after, 0.0, None

    async def one():
        async with server.session():
            assert (await server.chat(ChatRequest((Message("user", "u"),)))).text == "fine"

    async def run():
        server.free = slots(CLIENTS)
        await asyncio.gather(*(one() for _ in range(REQUESTS)))

    try:
        clock.run_until_complete(run())
        return REQUESTS / clock.time()
    finally:
        clock.close()


@pytest.mark.parametrize("retry_after", [0.0, 1.0])
def test_adaptive_slots_beat_a_semaphore(retry_after, monkeypatch):
    """By more than 5%; otherwise `Slots` should be a semaphore."""
    for capacity in (16, 32):
        adaptive = rate(Slots, capacity, retry_after, monkeypatch)
        assert adaptive > 1.05 * rate(FixedSlots, capacity, retry_after, monkeypatch)
        assert adaptive < capacity / LATENCY
    assert rate(Slots, CLIENTS, retry_after, monkeypatch) > 0.9 * CLIENTS / LATENCY
