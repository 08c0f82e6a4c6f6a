"""A language model behind an OpenAI-compatible server: vLLM, SGLang, transformers serve, llama.cpp, Ollama.

What the server takes (a JSON schema, a seed) is probed once with a harmless request and recorded; what it refuses is
not sent. Busy and broken answers are tried again with growing pauses, and a server that is gone is waited for; a
request that the server refuses is that request's failure. Logs and errors hold statuses and lengths, never texts.
"""

import asyncio
import base64
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from medvqa_core.errors import ConfigError, MedvqaError
from medvqa_core.llm.chat import LENGTH, ChatReply, ChatRequest, Message, Usage
from medvqa_core.llm.json_reply import split_reasoning
from medvqa_core.llm.loopback import loopback_socket
from medvqa_core.llm.slots import Slots

BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 529}
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds
TRIES = 6  # of one request that fails while the server answers others
CONNECT_SECONDS, READ_SECONDS = 10.0, 600.0
_PROBE_SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
    "additionalProperties": False,
}
_PROBE = ChatRequest((Message("user", "Say hello."),), schema=_PROBE_SCHEMA, max_tokens=24)


class ServerError(MedvqaError):
    """The server is gone, or takes no request of this kind; what was answered before is kept."""


@dataclass(frozen=True)
class Dialect:
    """What one server takes beyond messages, model, max_tokens and temperature.

    Attributes:
        schema: `enforced`, `ignored` (taken without a word), or `refused` (not sent).
        seed: whether `seed` is taken.
    """

    schema: str
    seed: bool


@dataclass
class ChatServer:
    """A server at `endpoint` (`http://127.0.0.1:8000/v1`); use it within `async with`.

    Args:
        model: name as the server knows it; None takes the only one it lists.
        slots: most requests at once; adapts below that.
        wait: seconds that a server which stopped answering is waited for.
        loopback_only: refuse to connect to anything but this machine, whatever a name resolves to.

    Raises:
        ConfigError: the address is none, or the server has no such model.
        ServerError: it cannot be reached for `wait` seconds, or refuses plain requests.
    """

    endpoint: str
    model: str | None = None
    slots: int = 64
    wait: float = 600.0
    loopback_only: bool = True
    api_key: str | None = field(default=None, repr=False)
    dialect: Dialect | None = None
    description: dict[str, Any] = field(default_factory=dict)

    async def __aenter__(self) -> "ChatServer":
        if not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(f"server {self.endpoint!r}: an address is needed, such as http://127.0.0.1:8000/v1")
        # trust_env stays off: proxy variables would carry even loopback traffic to another machine
        connector = aiohttp.TCPConnector(limit=0, socket_factory=loopback_socket if self.loopback_only else None)
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout, trust_env=False)
        self.free = Slots(self.slots)
        self._last_sign_of_life = time.monotonic()
        try:
            if self.dialect is None:
                await self._meet()
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def meet(self) -> None:
        """Find out model and dialect before a run begins: they are part of its settings. Raises as the class does."""

        async def open_and_close() -> None:
            async with self:
                pass

        asyncio.run(open_and_close())

    async def chat(self, request: ChatRequest) -> ChatReply:
        """One reply; holds no slot itself, so that whoever asks several times in a row keeps one (`free.one()`).

        Raises:
            ServerError: the server is gone for longer than `wait`.
        """
        assert self.dialect is not None, "use the server within `async with`"
        pause, tries, started = FIRST_PAUSE, 0, time.monotonic()
        while True:
            reply = await self._post(self._body(request, self.dialect))
            tries += 1
            self.free.report(busy=reply.retry)
            if not reply.retry:
                self._last_sign_of_life = time.monotonic()
                return reply
            if tries >= TRIES and self._last_sign_of_life > started:  # it answers others: this request breaks it
                return replace(reply, error=f"{reply.error}, {tries} times while others were answered", retry=False)
            silent = time.monotonic() - self._last_sign_of_life
            if silent > self.wait:
                raise ServerError(
                    f"{self.endpoint} has answered nothing for {silent:.0f} s ({reply.error}); everything answered "
                    "before is kept: start the server again and run the same command"
                )
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _meet(self) -> None:
        """Find the model and the dialect; wait for a server that is still loading."""
        if self.model is None:
            self.model = await self._only_model()
        for dialect in (Dialect("enforced", True), Dialect("refused", True), Dialect("refused", False)):
            self.dialect = dialect
            reply = await self.chat(_PROBE)
            if not reply.refused:  # whatever the model said to it
                if dialect.schema != "refused" and not _has_number(reply.text):
                    self.dialect = replace(dialect, schema="ignored")
                break
        else:
            raise ServerError(f"{self.endpoint} refuses a plain request: {reply.error}; check --model and its log")
        self.description |= {"model": self.model, "schema": self.dialect.schema, "seed": self.dialect.seed}
        status, body = await self._get("/models")
        listed = body.get("data") if isinstance(body, dict) and status == 200 else None
        owners = {str(item.get("owned_by")) for item in listed or [] if isinstance(item, dict) and item.get("owned_by")}
        self.description["served_by"] = ", ".join(sorted(owners)) or "unknown server"

    async def _only_model(self) -> str:
        status, body = await self._get("/models")
        names = [item.get("id") for item in body.get("data", [])] if isinstance(body, dict) else []
        if len(names) != 1:
            listed = ", ".join(map(str, names)) or f"none (status {status})"
            raise ConfigError(f"{self.endpoint} lists these models: {listed}; name one with --model")
        return str(names[0])

    async def _get(self, path: str) -> tuple[int, Any]:
        deadline, pause = time.monotonic() + self.wait, FIRST_PAUSE
        while True:
            try:
                async with self._session.get(self.endpoint.rstrip("/") + path, allow_redirects=False) as response:
                    if response.status not in BUSY:
                        return response.status, _parse(await response.read())
                    problem = f"status {response.status}"
            except aiohttp.InvalidURL:
                raise ConfigError(f"server {self.endpoint!r} is no address; such as http://127.0.0.1:8000/v1") from None
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                problem = type(error).__name__
            if time.monotonic() > deadline:
                raise ServerError(f"{self.endpoint} cannot be reached ({problem}); start the server, or see --wait")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _body(self, request: ChatRequest, dialect: Dialect) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [_message(message) for message in request.messages],
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        }
        if dialect.seed:
            body["seed"] = request.seed
        if request.schema is not None and dialect.schema != "refused":
            schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    async def _post(self, body: Mapping[str, Any]) -> ChatReply:
        address = self.endpoint.rstrip("/") + "/chat/completions"
        try:
            async with self._session.post(address, json=body, allow_redirects=False) as response:
                content = await response.read()
                status = response.status
        except aiohttp.InvalidURL:
            raise ConfigError(f"server {self.endpoint!r} is no address; such as http://127.0.0.1:8000/v1") from None
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            return ChatReply(None, f"no answer ({type(error).__name__})", retry=True)
        if status in BUSY:
            return ChatReply(None, f"status {status}", retry=True)
        if status != 200:
            reason = _reason(_parse(content))
            return ChatReply(None, f"refused with status {status}: {reason}", refused=True)
        return read_completion(_parse(content))


def read_completion(body: Any) -> ChatReply:
    """A `chat.completion` object as a reply; what is cut by the token limit is an error named so."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content = message.get("content")
        finish = choice.get("finish_reason")
    except (TypeError, KeyError, IndexError, AttributeError):
        return ChatReply(None, "the server's reply is no chat completion")
    usage = _usage(body.get("usage"))
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    if not isinstance(content, str) or not content.strip():
        why = "cut by the token limit within its thoughts" if finish == LENGTH else "empty reply"
        return ChatReply(None, why, finish, usage, thoughts)
    inner, text = split_reasoning(content)
    if finish == LENGTH:
        return ChatReply(
            None, f"finish_reason=length: cut after {usage.completion or 'its last'} tokens", finish, usage
        )
    if not text:
        return ChatReply(None, "nothing but thoughts", finish, usage, thoughts or inner)
    return ChatReply(text, None, finish, usage, thoughts or inner)


def _message(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    parts: list[dict[str, Any]] = []
    for image in message.images:
        data = base64.b64encode(image.data).decode("ascii")
        parts.append({"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}})
    return {"role": message.role, "content": [*parts, {"type": "text", "text": message.text}]}


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    counts = (usage.get("prompt_tokens"), cached, usage.get("completion_tokens"))
    return Usage(*(count if isinstance(count, int) else None for count in counts))


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _reason(body: Any) -> str:
    """What a server says of a refusal, if it is short: a long message may quote the request."""
    error = body.get("error", body.get("detail")) if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    if isinstance(message, str) and message and len(message) <= 200:
        return message
    return "no reason given" if not message else "a long reason; see the server's log"


def _has_number(text: str | None) -> bool:
    found = _parse((text or "").encode())
    return isinstance(found, dict) and isinstance(found.get("number"), int)
