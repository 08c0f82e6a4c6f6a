"""A request to a language model and its reply, whichever server or process answers it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STOP, LENGTH = "stop", "length"  # finish reasons; others are kept as the server reports them, in lower case


@dataclass(frozen=True)
class Image:
    """An image of a message: the bytes of a file and their media type (`image/jpeg`)."""

    data: bytes
    media_type: str


@dataclass(frozen=True)
class Message:
    """A message of a role (system, user, assistant). Its images come before the text."""

    role: str
    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True)
class ChatRequest:
    """A request.

    Attributes:
        schema: JSON schema of the reply. Not every server enforces it.
        max_tokens: of the reply, including reasoning.
        temperature: 0.0 is greedy.
        logprobs: ask for the probabilities of the reply's tokens. Not every server states them.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    logprobs: bool = False


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with exactly these properties."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@dataclass(frozen=True)
class Usage:
    """Token counts as the server reports them, or None."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None


@dataclass(frozen=True)
class ChatReply:
    """A reply: either `text`, or `error`, the reason why there is none.

    Attributes:
        reasoning: thoughts of a reasoning model, separate from its answer.
        retry: whether the same request may succeed later (a busy or restarting server).
        refused: whether the server rejected the request (status 400, 422, …).
        denied: whether it may reject all requests (status 401, 403, 404).
        status: of the HTTP response, if it is not 200.
        retry_after: seconds that a busy server asks to wait; None for other failures.
        model: name in the reply, if replies of any model are accepted.
        logprob: mean log-probability of the generated tokens, if it was asked for and is known.
    """

    text: str | None
    error: str | None = None
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    reasoning: str | None = None
    retry: bool = False
    refused: bool = False
    denied: bool = False
    status: int | None = None
    retry_after: float | None = None
    model: str | None = None
    logprob: float | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.error is None):
            raise ValueError("a ChatReply has either a text or an error")
