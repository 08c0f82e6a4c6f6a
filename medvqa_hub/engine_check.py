"""`medvqa-hub doctor --engine URL`: what a server supports, its models, a test reply, and the time per request.

Only harmless texts and a grey square are sent, nothing of a dataset.
"""

import asyncio
import io
import time
from collections.abc import Iterator
from dataclasses import replace

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.llm.chat import ChatReply, ChatRequest, Image, Message
from medvqa_core.llm.completions import ENFORCED, IGNORED, OBJECT, REFUSED
from medvqa_core.llm.connecting import connect_model
from medvqa_core.llm.options import EngineOptions
from medvqa_core.llm.server import ChatServer, is_same_model
from medvqa_hub.doctor import Check

AT_ONCE = 8
WAIT = "10s"
_TEXT = "Say hello."
_SHOWN = 60  # characters of the test reply
_SCHEMA = {
    ENFORCED: "json_schema is followed",
    OBJECT: "json_object with a schema is followed",
    IGNORED: "json_schema is accepted and ignored: replies are checked anyway",
    REFUSED: "not supported: replies are checked anyway",
}


def examine_engine(options: EngineOptions) -> Iterator[Check]:
    """Yield what is found about the server of `options`.

    Raises:
        ConfigError: `options` do not name one server.
        ServerError: the server does not answer, or rejects plain requests.
    """
    name = options.get_single_engine()
    if "://" in name and not name.startswith("server:"):
        name = f"server:{name}"
    options = replace(options, engines=(name,), wait=options.wait or WAIT, any_model=True)
    server = connect_model(options, Governance.OPEN)
    if not isinstance(server, ChatServer):
        raise ConfigError(f"--engine {name} is not a server. Expected something like http://127.0.0.1:8000/v1.")
    yield from asyncio.run(_examine(server))


async def _examine(server: ChatServer) -> list[Check]:
    assert server.capabilities is not None
    request = ChatRequest((Message("user", _TEXT),), max_tokens=32)
    async with server:
        started = time.monotonic()
        reply = await server.chat(request)
        alone = time.monotonic() - started
        started = time.monotonic()
        await asyncio.gather(*(server.chat(request) for _ in range(AT_ONCE)))
        together = time.monotonic() - started
        shown = [await server.chat(_show_square(compression)) for compression in (9, 0)]
    schema = server.capabilities.schema
    return [
        Check("server", f"{server.endpoint} ({server.description['served_by']})"),
        Check("models", ", ".join(server.models) or "the server does not list them"),
        _check_model(server.model, reply.model),
        Check("schema", _SCHEMA[schema], optional=schema in (IGNORED, REFUSED)),
        Check(
            "seed", "accepted" if server.capabilities.seed else "not supported", optional=not server.capabilities.seed
        ),
        await _check_key(server),
        _check_images(reply, *shown),
        Check("test reply", _show(reply), problem=reply.text is None),
        Check("time per request", f"{alone:.2f} s alone, {together / AT_ONCE:.2f} s with {AT_ONCE} at once"),
    ]


def _check_model(asked: str, replied: str | None) -> Check:
    if replied is None or is_same_model(asked, replied):
        return Check("model", asked)
    return Check("model", f"{asked}, but replies name {replied}: runs need --any-model", optional=True)


async def _check_key(server: ChatServer) -> Check:
    if server.api_key is None:
        return Check("key", "not sent and not required")
    async with replace(server, api_key=None) as stranger:
        is_required = not await stranger.is_healthy()
    return Check("key", "sent and required" if is_required else "sent, but not required")


def _check_images(plain: ChatReply, small: ChatReply, large: ChatReply) -> Check:
    """Servers may ignore images, or read their bytes as text. An image costs tokens by its pixels, not by its bytes."""
    if small.status is not None:
        return Check("images", f"not supported ({small.error})", optional=True)
    without, first, second = (reply.usage.prompt for reply in (plain, small, large))
    if without is None or first is None:
        return Check("images", "accepted")
    if first != second:
        return Check("images", "not supported: read as text", optional=True)
    more = first - without
    return Check("images", f"accepted, {more} tokens" if more > 0 else "accepted and ignored", optional=more <= 0)


def _show_square(compression: int) -> ChatRequest:
    """A request with a grey square of 32 by 32 pixels as PNG."""
    from PIL import Image as Pillow

    file = io.BytesIO()
    Pillow.new("L", (32, 32), 128).save(file, "PNG", compress_level=compression)
    return ChatRequest((Message("user", _TEXT, (Image(file.getvalue(), "image/png"),)),), max_tokens=32)


def _show(reply: ChatReply) -> str:
    if reply.text is None:
        return f"none: {reply.error}"
    line = " ".join(reply.text.split())
    return repr(line[:_SHOWN] + "…" * (len(line) > _SHOWN))
