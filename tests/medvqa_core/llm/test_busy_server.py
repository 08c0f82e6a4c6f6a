"""A busy server, with a simulated clock: its places stay in use, and no request fails because others use them."""

import asyncio
import random

import pytest

from medvqa_core.llm import server as servers
from medvqa_core.llm.chat import ChatReply, ChatRequest, Message
from medvqa_core.llm.completions import ServerCapabilities

LATENCY, CLIENTS = 0.2, 64


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


class SimulatedServer(servers.ChatServer):
    """Answers `capacity` requests at a time and rejects others with 429. "poison" always gets 503."""

    capacity, retry_after, under_way = 0, 0.0, 0

    async def _post(self, path, body, read):
        await asyncio.sleep(0.002)
        is_poison = body["messages"][-1]["content"] == "poison"
        if is_poison or self.under_way >= self.capacity:
            status = 503 if is_poison else 429
            return ChatReply(None, f"status {status}", retry=True, status=status, retry_after=self.retry_after)
        self.under_way += 1
        await asyncio.sleep(random.uniform(0.5, 1.5) * LATENCY)
        self.under_way -= 1
        self._last_answer = asyncio.get_running_loop().time()
        return ChatReply("fine")


def ask(texts, monkeypatch, capacity, retry_after=0.0, wait=600.0):
    """The errors, and for each answered request when it was."""
    random.seed(0)
    clock, answered, errors = SimulatedClock(), [], []
    monkeypatch.setattr(servers, "time", clock)
    server = SimulatedServer("http://x", "m", CLIENTS, wait, capabilities=ServerCapabilities("refused", False))
    server.capacity, server.retry_after, server._last_answer, server._check = capacity, retry_after, 0.0, None

    async def one(text):
        async with server.session():
            reply = await server.chat(ChatRequest((Message("user", text),)))
        errors.append(reply.error) if reply.error else answered.append(clock.time())

    async def run():
        server._free = asyncio.Semaphore(CLIENTS)
        await asyncio.gather(*map(one, texts))

    try:
        clock.run_until_complete(run())
    finally:
        clock.close()
    return errors, answered


@pytest.mark.parametrize("retry_after", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("capacity", [4, 16, 48, 64])
def test_a_server_with_fewer_places_than_slots_is_kept_busy(capacity, retry_after, monkeypatch):
    """Halving the slots after a rejection, as TCP does, kept 82% of 16 places in use."""
    errors, answered = ask(["u"] * 2000, monkeypatch, capacity, retry_after)
    rate = 1800 / answered[1799]
    assert not errors and len(answered) == 2000
    assert rate > 0.93 * capacity / (LATENCY + 0.002)


def test_no_request_fails_while_others_take_the_places(monkeypatch):
    """Some wait for longer than `wait`."""
    errors, answered = ask(["u"] * 2000, monkeypatch, 1, wait=20.0)
    assert not errors and len(answered) == 2000


def test_a_request_that_is_always_busy_fails_once_the_server_is_idle(monkeypatch):
    errors, answered = ask(["u"] * 100 + ["poison"] + ["u"] * 500, monkeypatch, 16, wait=20.0)
    assert len(answered) == 600
    (error,) = errors
    assert error.startswith("status 503, ") and error.endswith("while a plain request was answered")
