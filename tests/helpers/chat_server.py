"""A scripted OpenAI-compatible server on loopback, in a thread: tests say what it answers and when it fails."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from aiohttp import web

from medvqa_core.governance import Governance
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.connecting import connect_model
from medvqa_core.llm.options import EngineOptions


def completion(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A `chat.completion` body."""
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    return {"object": "chat.completion", "choices": [choice], "usage": usage}


@dataclass
class ChatServerDouble:
    """Use within `with`. `reply(body)` returns a completion body, or (status, body); it may be replaced at any time.

    Attributes:
        requests: bodies of all chat requests, in the order of arrival.
        most_at_once: the most requests that were under way together.
        decide: answers bodies to `/v1/systemone`; None: the server has no typed decisions.
        decisions: their bodies, in the order of arrival.
        key: API key that requests must have.
    """

    reply: Callable[[dict[str, Any]], Any]
    latency: float = 0.0
    models: tuple[str, ...] = ("tiny",)
    requests: list[dict[str, Any]] = field(default_factory=list)
    most_at_once: int = 0
    decide: Callable[[dict[str, Any]], Any] | None = None
    decisions: list[dict[str, Any]] = field(default_factory=list)
    key: str | None = None
    headers: ClassVar[dict[str, str]] = {}  # of failures
    _under_way: int = 0

    def __enter__(self) -> "ChatServerDouble":
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        if self.decide is not None:
            app.router.add_post("/v1/systemone", self._systemone)
        runner = web.AppRunner(app)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self.port = site._server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"object": "list", "data": [{"id": name, "owned_by": "double"} for name in self.models]}
        )

    async def _systemone(self, request: web.Request) -> web.Response:
        self.decisions.append(json.loads(await request.read()))
        return web.json_response(self.decide(self.decisions[-1]))

    async def _chat(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": {"message": "invalid key"}}, status=401)
        self.requests.append(body)
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            answer = self.reply(body)
        finally:
            self._under_way -= 1
        status, content = answer if isinstance(answer, tuple) else (200, answer)
        if content is None:  # hang up in the middle
            request.transport.close()
            return web.Response(status=500)
        text = content if isinstance(content, str) else json.dumps(content)
        headers = self.headers if status != 200 else {}
        return web.Response(status=status, text=text, content_type="application/json", headers=headers)


def is_probe(body: dict[str, Any]) -> bool:
    """Whether a request is the client's harmless first one."""
    return body["messages"][-1]["content"] == "Say hello."


def last_line(body: dict[str, Any], start: str) -> str:
    """What stands after `start` in the user message of a request."""
    lines = body["messages"][-1]["content"].splitlines()
    return next(line.removeprefix(start) for line in lines if line.startswith(start))


def connect_to(
    engine: Any, governance: Governance = Governance.OPEN, record: Path | None = None, **options: Any
) -> ChatModel:
    """The model of a server, given as a double or as `--engine` spells it; `options` are those of EngineOptions."""
    name = engine if isinstance(engine, str) else f"server:{engine.endpoint}"
    return connect_model(EngineOptions((name,), **options), governance, record)
