"""Asking: groups in order, many in flight, asked again, failures, stops; and what a stopped run leaves."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply, reply_listener
from medvqa_core.runs import inference, journal
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import PredictionStore

SETTINGS = {"engine": "scripted"}


@dataclass(frozen=True)
class Question:
    id: str
    group: int
    text: str = "?"


class Scripted:
    """Replies what `reply` says, a group after its delay; remembers what it was asked and how many were under way."""

    def __init__(self, reply=lambda q: f"to {q.id}", delay=lambda group: 0):
        self.reply, self.delay, self.calls, self.now, self.most = reply, delay, [], 0, 0

    async def answer(self, requests):
        self.calls.append([q.id for q in requests])
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.delay(requests[0].group))
            replies = [self.reply(q) for q in requests]
        finally:
            self.now -= 1
        return [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies]


def run(folder, engine, groups=4, size=2, in_flight=3, **options):
    """Asks; returns how many were asked, and the records as (id, answer, error) in the order of the file."""
    with PredictionStore(folder / "p.jsonl", Governance.OPEN, SETTINGS) as store:
        asked = ask_all(
            ({store.key(id=f"{g}-{n}"): Question(f"{g}-{n}", g) for n in range(size)} for g in range(groups)),
            engine.answer,
            store,
            in_flight=in_flight,
            description="asking",
            **options,
        )
    return asked


def records(path):
    path = path / "p.jsonl" if path.is_dir() else path
    with PredictionStore(path, Governance.OPEN, read_only=True) as store:
        return [(p.id, p.answer, p.error) for p in store.predictions()]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=6, max_size=6), st.integers(1, 8), st.integers(1, 8))
def test_the_file_does_not_depend_on_who_finishes_first(tmp_path_factory, delays, in_flight, groups_per_sync):
    folder = tmp_path_factory.mktemp("run")
    engine = Scripted(delay=lambda group: delays[group] / 1000)
    assert run(folder, engine, groups=6, in_flight=in_flight, groups_per_sync=groups_per_sync) == 12
    assert records(folder) == [(f"{g}-{n}", f"to {g}-{n}", None) for g in range(6) for n in range(2)]
    assert engine.most <= in_flight and sorted(map(len, engine.calls)) == [2] * 6


def test_as_many_groups_as_allowed_are_under_way(tmp_path):
    engine = Scripted(delay=lambda group: 0.01)
    run(tmp_path, engine, groups=9, in_flight=4)
    assert engine.most == 4


def test_groups_are_read_as_the_work_goes_on(tmp_path):
    read = []

    def groups(store):
        for g in range(20):
            read.append(g)
            yield {store.key(id=g): Question(str(g), g)}

    def reply(q):
        if q.group == 0:
            assert len(read) <= 3  # not the whole data set
        return "a"

    with PredictionStore(tmp_path / "p.jsonl", Governance.OPEN, SETTINGS) as store:
        assert ask_all(groups(store), Scripted(reply).answer, store, in_flight=3, description="asking") == 20


def test_what_is_recorded_is_not_asked_again_but_failures_on_request(tmp_path):
    run(tmp_path, Scripted(lambda q: Reply(None, "busy") if q.id == "1-0" else "a"))
    engine = Scripted()
    assert run(tmp_path, engine) == 0 and engine.calls == []
    assert run(tmp_path, engine, retry_failed=True) == 1 and engine.calls == [["1-0"]]
    assert ("1-0", "to 1-0", None) in records(tmp_path) and len(records(tmp_path)) == 8


def test_a_review_has_answers_asked_again_in_other_words(tmp_path):
    """Twice at most here: the second reply stands, whatever it is."""

    def review(request, reply, attempt):
        bad = reply.answer is not None and reply.answer.startswith("bad")
        return {"attempt": attempt, "bad": bad}, replace(request, text="again") if bad else None

    def reply(q):
        return {"0-0": "bad", "0-1": "good"}.get(q.id) or ("bad" if q.text == "?" else "better")

    engine = Scripted(lambda q: "bad still" if q.id == "0-0" and q.text == "again" else reply(q))
    run(tmp_path, engine, groups=2, review=review, attempts=2)
    assert sorted(engine.calls) == [["0-0"], ["0-0", "0-1"], ["1-0", "1-1"], ["1-0", "1-1"]]
    with PredictionStore(tmp_path / "p.jsonl", Governance.OPEN, read_only=True) as store:
        found = [(p.id, p.answer, dict(p.details)) for p in store.predictions()]
    assert found == [
        ("0-0", "bad still", {"attempt": 2, "bad": True}),
        ("0-1", "good", {"attempt": 1, "bad": False}),
        ("1-0", "better", {"attempt": 2, "bad": False}),
        ("1-1", "better", {"attempt": 2, "bad": False}),
    ]


def test_material_that_cannot_be_used_fails_its_group_and_the_run_goes_on(tmp_path):
    def reply(q):
        if q.group == 1:
            raise InputError("the image\nis broken")
        return "a"

    assert run(tmp_path, Scripted(reply)) == 8
    assert [(id, error) for id, answer, error in records(tmp_path) if answer is None] == [
        ("1-0", "the image is broken"),
        ("1-1", "the image is broken"),
    ]


@pytest.mark.parametrize("failing", range(4))
def test_any_other_error_stops_the_run_and_keeps_what_is_finished(tmp_path, failing):
    """The failing group is the slowest: the others are finished by then, those behind it too."""

    def reply(q):
        if q.group == failing:
            raise OSError("no server")
        return "a"

    with pytest.raises(OSError, match="no server"):
        run(tmp_path, Scripted(reply, delay=lambda g: 0.05 if g == failing else 0), in_flight=8)
    kept = [f"{g}-{n}" for g in range(4) if g != failing for n in range(2)]
    assert [id for id, *_ in records(tmp_path)] == kept[: 2 * failing]
    ahead = tmp_path / "p.ahead.jsonl"
    assert [id for id, *_ in records(ahead)] == kept[2 * failing :] if failing < 3 else not ahead.exists()
    again = Scripted()
    assert run(tmp_path, again) == 2 and again.calls == [[f"{failing}-0", f"{failing}-1"]]
    assert [id for id, *_ in records(tmp_path)] == [f"{g}-{n}" for g in range(4) for n in range(2)]
    assert not ahead.exists()


def test_a_run_stopped_by_ctrl_c_goes_on_to_the_same_file(tmp_path):
    def interrupt(q):
        if q.id == "2-1":
            signal.raise_signal(signal.SIGINT)
        return f"to {q.id}"

    (tmp_path / "stopped").mkdir(), (tmp_path / "whole").mkdir()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", Scripted(interrupt), in_flight=1)
    assert 4 <= len(records(tmp_path / "stopped")) < 8
    run(tmp_path / "stopped", Scripted())
    run(tmp_path / "whole", Scripted())
    assert (tmp_path / "stopped/p.jsonl").read_bytes() == (tmp_path / "whole/p.jsonl").read_bytes()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_replies_is_a_defect_and_no_record(tmp_path, count):
    class Miscounting(Scripted):
        async def answer(self, requests):
            return [Reply("a")] * count

    with pytest.raises(RuntimeError, match=f"returned {count} replies to 2 requests"):
        run(tmp_path, Miscounting())
    assert records(tmp_path) == []


def test_an_engine_that_blocks_works_in_threads(tmp_path):
    class Blocking(Scripted):
        async def answer(self, requests):
            def work():
                both_here.wait(60)
                return [Reply("a") for _ in requests]

            return await asyncio.to_thread(work)

    both_here = threading.Barrier(2)  # broken by a single thread
    run(tmp_path, Blocking(), in_flight=4)
    assert len(records(tmp_path)) == 8


def test_finished_groups_are_written_in_time_while_the_next_one_is_slow(tmp_path, monkeypatch):
    """Without it a killed run of fewer than `groups_per_sync` groups would keep nothing."""
    monkeypatch.setattr(inference, "SYNC_SECONDS", 0.01)

    async def wait_for_the_first(requests):
        while requests[0].group == 1 and b'"0-1"' not in (tmp_path / "p.jsonl").read_bytes():
            await asyncio.sleep(0.005)
        return [Reply("yes", model="other") for _ in requests]

    engine = Scripted()
    engine.answer = lambda requests: asyncio.wait_for(wait_for_the_first(requests), 30)
    assert run(tmp_path, engine, groups=2, in_flight=8, groups_per_sync=64) == 4
    with PredictionStore(tmp_path / "p.jsonl", Governance.OPEN, read_only=True) as store:
        found = list(store.predictions())
    assert [p.id for p in found] == ["0-0", "0-1", "1-0", "1-1"]
    assert all(p.answer == "yes" and p.details == {"reply_model": "other"} for p in found)


KILLED = """
import sys
from pathlib import Path
from test_asking import hang_on_the_first, Scripted, run
folder = Path(sys.argv[1])
engine = Scripted()
engine.answer = lambda requests: hang_on_the_first(folder, engine, requests)
run(folder, engine, groups=40, in_flight=8)
"""


async def hang_on_the_first(folder, engine, requests):
    """Group 0 hangs. Once all that can run meanwhile are in the journal, the process kills itself."""
    if requests[0].group == 0:
        ahead = folder / "p.ahead.jsonl"
        while not ahead.exists() or ahead.read_bytes().count(b"\n") < 1 + 2 * 39:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    return [Reply(f"to {q.id}") for q in requests]


def test_groups_behind_a_slow_one_survive_a_kill_and_the_file_is_that_of_an_undisturbed_run(tmp_path):
    (tmp_path / "killed").mkdir(), (tmp_path / "whole").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "killed"], env=environment, timeout=120)
    assert killed.returncode == -signal.SIGKILL and records(tmp_path / "killed") == []
    engine = Scripted()
    assert run(tmp_path / "killed", engine, groups=40) == 2 and engine.calls == [["0-0", "0-1"]]
    run(tmp_path / "whole", Scripted(), groups=40)
    assert (tmp_path / "killed/p.jsonl").read_bytes() == (tmp_path / "whole/p.jsonl").read_bytes()
    assert not (tmp_path / "killed/p.ahead.jsonl").exists()


def test_a_journal_is_kept_while_it_is_needed_and_its_failures_are_asked_again_on_request(tmp_path):
    def reply(q):
        if q.group == 0:
            raise OSError("no server")
        return Reply(None, "busy") if q.group == 3 else "a"

    with pytest.raises(OSError, match="no server"):
        run(tmp_path, Scripted(reply), groups=4, in_flight=8)
    few = Scripted()
    assert run(tmp_path, few, groups=1) == 2 and (tmp_path / "p.ahead.jsonl").exists()
    again = Scripted()
    assert run(tmp_path, again, retry_failed=True) == 2 and again.calls == [["3-0", "3-1"]]
    assert not (tmp_path / "p.ahead.jsonl").exists() and all(error is None for *_, error in records(tmp_path))


def test_a_run_that_was_killed_before_the_first_record_of_its_journal_resumes(tmp_path):
    def reply(q):
        if q.group == 0:
            raise OSError("no server")
        return "a"

    with pytest.raises(OSError, match="no server"):
        run(tmp_path, Scripted(reply), groups=4, in_flight=8)
    ahead = tmp_path / "p.ahead.jsonl"
    ahead.write_bytes(ahead.read_bytes().splitlines(keepends=True)[0])  # the header alone
    with pytest.raises(OSError, match="no server"):
        run(tmp_path, Scripted(reply), groups=4, in_flight=8)
    assert ahead.read_bytes().count(b"\n") == 1 + 2 * 3
    assert run(tmp_path, Scripted(), groups=4) == 2


def test_slow_groups_do_not_empty_the_slots(tmp_path):
    """Group 0 answers once the others are done, of which 3 run at a time."""
    engine = Scripted()

    async def answer(requests):
        engine.calls.append(requests[0].group)
        while requests[0].group == 0 and len(engine.calls) < 30:
            await asyncio.sleep(0.001)
        return [Reply("a") for _ in requests]

    engine.answer = lambda requests: asyncio.wait_for(answer(requests), 30)
    assert run(tmp_path, engine, groups=30, in_flight=3) == 60
    assert [id for id, *_ in records(tmp_path)] == [f"{g}-{n}" for g in range(30) for n in range(2)]


class OneByOne(Scripted):
    """Answers a group's requests one after another, and stops the run at `stop`."""

    def __init__(self, stop=None):
        super().__init__()
        self.stop, self.asked = stop, []

    async def answer(self, requests):
        replies = []
        for request in requests:
            if request.id == self.stop:
                raise OSError("no server")
            self.asked.append(request.id)
            replies.append(Reply(f"to {request.id}"))
            reply_listener.get()(request, replies[-1])
            await asyncio.sleep(0)
        return replies


@pytest.mark.parametrize("most", [1, 100])
def test_replies_of_a_group_that_is_not_complete_are_kept(tmp_path, most, monkeypatch):
    monkeypatch.setattr(journal, "MOST", most)
    (tmp_path / "stopped").mkdir(), (tmp_path / "whole").mkdir()
    folder, asked = tmp_path / "stopped", []
    for stop in ("0-2", "0-4", "2-1", "3-3"):
        engine = OneByOne(stop)
        with pytest.raises(OSError, match="no server"):
            run(folder, engine, size=5, in_flight=1)
        asked += engine.asked
    last = OneByOne()
    run(folder, last, size=5, in_flight=1)
    assert asked + last.asked == [f"{g}-{n}" for g in range(4) for n in range(5)], "each was asked once"
    run(tmp_path / "whole", Scripted(), size=5)
    assert (folder / "p.jsonl").read_bytes() == (tmp_path / "whole/p.jsonl").read_bytes()
    assert [path.name for path in folder.iterdir()] == ["p.jsonl"]


def test_a_reply_that_is_asked_again_is_not_kept_before_it_is_final(tmp_path):
    def review(request, reply, attempt):
        again = replace(request, text="again") if request.text == "?" and request.id == "0-0" else None
        return {"attempt": attempt}, again

    with pytest.raises(OSError, match="no server"):
        run(tmp_path, OneByOne("0-2"), size=3, review=review, attempts=2)
    engine = OneByOne()
    run(tmp_path, engine, size=3, groups=1, review=review, attempts=2)
    assert engine.asked == ["0-0", "0-2", "0-0"]
    with PredictionStore(tmp_path / "p.jsonl", Governance.OPEN, read_only=True) as store:
        assert [dict(p.details) for p in store.predictions()] == [{"attempt": 2}, {"attempt": 1}, {"attempt": 1}]
