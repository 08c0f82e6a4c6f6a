"""One question to a language model and what comes back, whichever server or process answers it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STOP, LENGTH = "stop", "length"  # why a model ended; any other reason is kept as the server says it, in small letters


@dataclass(frozen=True)
class Image:
    """An image of a message: its bytes as a file has them, and their media type (`image/jpeg`)."""

    data: bytes
    media_type: str


@dataclass(frozen=True)
class Message:
    """What one side says; `role` is system, user or assistant. Images stand before the text."""

    role: str
    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True)
class ChatRequest:
    """A request.

    Attributes:
        schema: JSON schema that the reply should have. Servers that can, enforce it; none is relied upon.
        max_tokens: of the reply, reasoning included.
        temperature: 0.0 is greedy.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counted them; None where it does not say: a count is never invented."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None


@dataclass(frozen=True)
class ChatReply:
    """What came back: `text`, or `error`, the reason why there is none. A failure is never a text.

    Attributes:
        reasoning: a reasoning model's thoughts, apart from its answer.
        retry: whether the same request may well succeed later (a busy or restarting server).
        refused: whether the server did not take the request at all (status 400, 422, …).
        denied: whether it may take no request at all now (status 401, 403, 404).
    """

    text: str | None
    error: str | None = None
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    reasoning: str | None = None
    retry: bool = False
    refused: bool = False
    denied: bool = False

    def __post_init__(self) -> None:
        if (self.text is None) == (self.error is None):
            raise ValueError("a ChatReply holds either a text or an error")
