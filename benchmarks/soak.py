"""Sends many requests to a server that fails in many ways, kills the run, and compares it with an undisturbed one.

Both runs must write the same bytes, with a reply or the reason of a failure for each request.

    python benchmarks/soak.py                                  100,000 requests, 20 kills
    python benchmarks/soak.py --requests 2000 --kills 5
"""

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from medvqa_core.governance import Governance
from medvqa_core.llm import server as servers
from medvqa_core.llm.chat import ChatRequest, Message
from medvqa_core.llm.chat_model import ModelEngine
from medvqa_core.llm.connecting import connect_model
from medvqa_core.llm.engines import Reply
from medvqa_core.llm.json_reply import ReplyError, parse_object, read_text
from medvqa_core.llm.options import EngineOptions
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import PredictionStore

PER_GROUP = 4
ANSWER = {"answer": "No edema is seen."}
# Of 100 requests: the statuses before the answer, and how often each is given; then the answer.
PASSING: dict[int, tuple[int, int]] = {2: (500, 2), 3: (502, 1), 4: (503, 3), 5: (429, 4), 6: (0, 2), 7: (408, 1)}
ALWAYS = {0: 500, 1: 400, 8: 403}
TEXTS = {
    10: "half a \ud800 pair",
    11: "a \0 byte",
    12: "I'm sorry, I cannot help with that.",
    13: '{"answer": "cut',
    14: "<think>only thoughts",
}
BROKEN_BODY, CUT, SLOW = 15, 16, 17


class BadServer:
    """A server on a free port of this machine whose behaviour depends on the request's text and its repetitions."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, or fail."""
        body = json.loads(await request.read())
        text = body["messages"][-1]["content"]
        self.seen[text] += 1
        if not text.startswith("Question "):
            return self.reply('{"number": 1}')
        kind = int(text.split()[1]) * 37 % 100
        status, times = PASSING.get(kind, (0, 0))
        if self.seen[text] <= times:
            if not status:
                request.transport.close()
            return web.json_response({}, status=status or 500, headers={"Retry-After": "0"} if status == 503 else {})
        if kind in ALWAYS:
            return web.json_response({"error": {"message": f"no {kind}"}}, status=ALWAYS[kind])
        if kind == BROKEN_BODY:
            return web.Response(text='{"choices": [')
        if kind == SLOW:
            await asyncio.sleep(0.5)
        return self.reply(TEXTS.get(kind, json.dumps(ANSWER)), "length" if kind == CUT else "stop")

    def reply(self, text: str, finish: str = "stop") -> web.Response:
        """A completion."""
        choice = {"finish_reason": finish, "message": {"role": "assistant", "content": text}}
        return web.json_response({"model": "bad", "choices": [choice]})

    async def models(self, _: web.Request) -> web.Response:
        """Fail once, then list the model."""
        self.seen["models"] += 1
        body = {"data": [{"id": "bad", "owned_by": "soak"}]}
        return web.json_response(body, status=500 if self.seen["models"] % 2 else 200)

    async def serve(self) -> None:
        """Print the port and serve."""
        app = web.Application()
        app.add_routes([web.post("/v1/chat/completions", self.chat), web.get("/v1/models", self.models)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()


@dataclass(frozen=True)
class Question:
    """A request."""

    id: str


class Engine(ModelEngine):
    """Asks the server."""

    def __init__(self, endpoint: str) -> None:
        options = EngineOptions((f"server:{endpoint}",), slots=64, wait="2m")
        self.model = connect_model(options, Governance.OPEN)

    async def answer(self, questions: Sequence[Question]) -> list[Reply]:
        """One reply per question."""
        async with self.model.session() as session:
            return [await self._ask(session, question) for question in questions]

    async def _ask(self, session: Any, question: Question) -> Reply:
        reply = await session.chat(ChatRequest((Message("user", f"Question {question.id}"),)))
        try:
            return (
                Reply(None, reply.error) if reply.text is None else Reply(read_text(parse_object(reply.text), "answer"))
            )
        except ReplyError as error:
            return Reply(None, str(error))


def ask(endpoint: str, path: Path, requests: int) -> None:
    """Send the requests that lack a record."""
    servers.FIRST_PAUSE, servers.LONGEST_PAUSE = 0.01, 0.05
    engine = Engine(endpoint)
    settings = {"model": engine.model.model, "revision": engine.model.revision}
    with PredictionStore(path, Governance.OPEN, settings) as store:
        groups = (
            {store.key(id=str(n)): Question(str(n)) for n in range(start, min(start + PER_GROUP, requests))}
            for start in range(0, requests, PER_GROUP)
        )
        ask_all(groups, engine.answer, store, in_flight=256, description="Soak", groups_per_sync=64, session=engine)


def soak(folder: Path, requests: int, kills: int, seed: int) -> dict[str, Any]:
    """Run both and return what happened. Raises AssertionError if their files differ."""
    files, found = [], {}
    for name, wanted in (("undisturbed", 0), ("killed", kills)):
        server = _start("serve", stdout=subprocess.PIPE)
        try:
            endpoint = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
            path, started = folder / f"{name}.jsonl", time.monotonic()
            found[name] = {"kills": _kill(endpoint, path, requests, wanted, len(files[0]) if files else 0, seed)}
            process = _start("ask", endpoint, str(path), str(requests), stderr=subprocess.PIPE)
            said = process.communicate()[1].strip().rpartition("\n")[2]
            assert process.returncode == 0, f"the run {name} failed: {said}"
            found[name]["seconds"] = round(time.monotonic() - started)
            files.append(path.read_bytes())
            assert not path.with_name(f"{name}.ahead.jsonl").exists()
        finally:
            server.kill()
    records = [json.loads(line) for line in files[0].splitlines()[1:]]
    assert [record["id"] for record in records] == [str(n) for n in range(requests)]
    assert files[0] == files[1], "the files differ"
    return found | {"reasons": Counter(record["error"] or "answered" for record in records)}


def _kill(endpoint: str, path: Path, requests: int, kills: int, size: int, seed: int) -> int:
    """Start the run and kill it, at moments that are spread over the file. Returns how many kills struck."""
    moments, struck = random.Random(seed), 0
    for number in range(kills):
        process = _start("ask", endpoint, str(path), str(requests))
        until = size * (number + moments.random()) / (kills + 1)
        while process.poll() is None and (not path.exists() or path.stat().st_size < until):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        struck += process.wait() == -signal.SIGKILL
    return struck


def _start(*arguments: str, **options: Any) -> subprocess.Popen:
    options = {"stderr": subprocess.DEVNULL if "ask" in arguments else None, **options}
    return subprocess.Popen([sys.executable, __file__, *arguments], text=True, **options)


def main() -> None:
    """Parse the options and print what happened."""
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(BadServer().serve())
    elif sys.argv[1:2] == ["ask"]:
        ask(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--requests", type=int, default=100_000)
        parser.add_argument("--kills", type=int, default=20)
        parser.add_argument("--seed", type=int, default=0)
        given = parser.parse_args()
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(soak(Path(folder), given.requests, given.kills, given.seed), indent=2))


if __name__ == "__main__":
    main()
