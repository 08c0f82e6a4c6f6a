"""Servers that share the work: each study keeps one, one that is gone loses its studies, all gone is one clear line."""

import asyncio
import threading
import time

import pytest
from chat_server import ChatServerDouble, completion, is_probe

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.llm import pool as pools
from medvqa_core.llm import server as servers
from medvqa_core.llm.chat import ChatRequest, Message
from medvqa_core.llm.connecting import connect_model
from medvqa_core.llm.options import EngineOptions
from medvqa_core.llm.pool import ServerPool
from medvqa_core.llm.server import ServerError


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(servers, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(servers, "LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(pools, "FIRST_LOOK", 0.01)
    monkeypatch.setattr(pools, "PATIENCE", 0.1)


def fine(body):
    return completion('{"number": 1}' if is_probe(body) else body["messages"][-1]["content"])


def connect(*doubles, **settings):
    return connect_model(EngineOptions(tuple(f"server:{d.endpoint}" for d in doubles), **settings), Governance.OPEN)


def texts_of(double):
    return [body["messages"][-1]["content"] for body in double.requests if not is_probe(body)]


async def ask_study(model, study, questions=4):
    async with model.session() as session:
        return [(await session.chat(ChatRequest((Message("user", f"{study}/{n}"),)))).text for n in range(questions)]


def ask(model, studies, meanwhile=None):
    async def run():
        async with model:
            extra = [meanwhile()] if meanwhile else []
            found = await asyncio.gather(*(ask_study(model, n) for n in range(studies)), *extra)
            return found[:studies]

    return asyncio.run(run())


def test_studies_are_spread_and_each_stays_with_its_server():
    with ChatServerDouble(fine, latency=0.005) as a, ChatServerDouble(fine, latency=0.005) as b:
        model = connect(a, b, slots=2)
        assert isinstance(model, ServerPool) and model.in_flight == 16
        found = ask(model, 20)
    assert found == [[f"{study}/{n}" for n in range(4)] for study in range(20)]
    studies = [{text.split("/")[0] for text in texts_of(double)} for double in (a, b)]
    assert not studies[0] & studies[1] and min(map(len, studies)) >= 3
    assert max(a.most_at_once, b.most_at_once) == 2


def test_what_rows_say_does_not_tell_which_server_answered():
    with ChatServerDouble(fine) as a, ChatServerDouble(fine) as b:
        one, two = connect(a), connect(a, b)
        assert (one.kind, one.model, one.revision) == (two.kind, two.model, two.revision)


def test_the_slower_server_gets_fewer_studies():
    others_done = threading.Event()

    def fast(body):
        if len(texts_of(a)) == 28 * 4:
            others_done.set()
        return fine(body)

    def slow(body):
        assert is_probe(body) or others_done.wait(60)
        return fine(body)

    with ChatServerDouble(fast) as a, ChatServerDouble(slow) as b:
        ask(connect(a, b, slots=2), 30)
    assert (len(texts_of(a)), len(texts_of(b))) == (28 * 4, 2 * 4)


def test_a_request_that_always_fails_does_not_mark_its_server_down():
    def reply(body):
        return (500, {}) if not is_probe(body) and body["messages"][-1]["content"] == "1/1" else fine(body)

    with ChatServerDouble(reply) as a, ChatServerDouble(reply) as b:
        model = connect(a, b, slots=2)
        found = ask(model, 4)
    assert [text for study in found for text in study].count(None) == 1 and not model.down


def test_the_studies_of_a_server_that_is_gone_go_to_the_others_and_nothing_is_lost():
    def dies(body):
        if is_probe(body) and len(b.requests) < 2:
            return fine(body)
        return (503, "{}") if len(b.requests) > 8 else fine(body)

    with ChatServerDouble(fine, latency=0.002) as a, ChatServerDouble(dies, latency=0.002) as b:
        found = ask(connect(a, b, slots=3, wait="5s"), 20)
    assert found == [[f"{study}/{n}" for n in range(4)] for study in range(20)]
    assert len(set(texts_of(a))) > 60


def test_a_server_that_comes_back_takes_part_again():
    is_back, was_down = threading.Event(), threading.Event()

    def waits_for_the_other(body):
        assert len(texts_of(a)) < 40 or is_back.wait(60)
        return fine(body)

    def restarts(body):
        if model.down:
            was_down.set()
        if len(b.requests) > 4 and not was_down.is_set():
            return 503, "{}"
        if was_down.is_set() and not is_probe(body):
            is_back.set()
        return fine(body)

    with ChatServerDouble(waits_for_the_other) as a, ChatServerDouble(fine) as b:
        model = connect(a, b, slots=1, wait="60s")
        b.reply = restarts
        found = ask(model, 40)
    assert found == [[f"{study}/{n}" for n in range(4)] for study in range(40)] and is_back.is_set()


def test_all_gone_are_waited_for_then_one_line():
    def gone(body):
        return fine(body) if is_probe(body) and dead["alive"] else (503, "{}")

    dead = {"alive": True}
    with ChatServerDouble(gone) as a, ChatServerDouble(gone) as b:
        model = connect(a, b, wait="0.3s")
        dead["alive"] = False
        started = time.monotonic()
        with pytest.raises(ServerError, match=r"127.0.0.1:\d+, 127.0.0.1:\d+ .*run the same command"):
            ask(model, 3)
        assert time.monotonic() - started >= 0.3, "gave up before the time it was told to wait"


def test_all_gone_and_one_back_in_time():
    all_gone = threading.Event()

    def gone(body):
        if len(model.down) == 2:
            all_gone.set()
        return fine(body) if all_gone.is_set() else (503, "{}")

    with ChatServerDouble(fine) as a, ChatServerDouble(fine) as b:
        model = connect(a, b, wait="60s")
        a.reply = b.reply = gone
        assert ask(model, 1) == [[f"0/{n}" for n in range(4)]] and all_gone.is_set()


def test_unlike_servers_are_refused():
    def no_schema(body):
        return (400, "{}") if "response_format" in body else fine(body)

    with ChatServerDouble(fine) as a, ChatServerDouble(no_schema) as b, ChatServerDouble(fine, models=("x",)) as c:
        with pytest.raises(ConfigError, match="schema enforced, seed True.*schema refused"):
            connect(a, b)
        with pytest.raises(ConfigError, match="serves tiny .* serves x "):
            connect(a, c)
