"""Writes requests to `/chat/completions` and reads the replies."""

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from medvqa_core.llm.chat import LENGTH, ChatReply, ChatRequest, Message, Usage
from medvqa_core.llm.json_reply import MAX_CHARACTERS, NOT_STORABLE, is_storable, split_reasoning

# Finish reasons of replies that were broken off by a filter or a fault. Their text may look complete.
BROKEN_OFF = frozenset({"abort", "aborted", "cancelled", "content_filter", "error", "insufficient_system_resource"})
_AT_LENGTH = frozenset({LENGTH, "max_tokens", "model_length"})  # spellings of the token limit


ENFORCED, IGNORED, OBJECT, REFUSED = "enforced", "ignored", "enforced by json_object", "refused"


@dataclass(frozen=True)
class ServerCapabilities:
    """What a server supports beyond messages, model, max_tokens and temperature.

    Attributes:
        schema: ENFORCED or IGNORED (sent as `json_schema`), OBJECT (sent with `json_object`), or REFUSED (not sent).
        seed: whether `seed` is accepted.
    """

    schema: str
    seed: bool


def request_body(request: ChatRequest, model: str, capabilities: ServerCapabilities) -> dict[str, Any]:
    """The body of a POST to `/chat/completions` for a server with `capabilities`."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
    }
    if request.logprobs:
        body["logprobs"] = True
    if capabilities.seed:
        body["seed"] = request.seed
    if request.schema is not None and capabilities.schema == OBJECT:
        body["response_format"] = {"type": "json_object", "schema": dict(request.schema)}
    elif request.schema is not None and capabilities.schema != REFUSED:
        schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def read_completion(body: Any) -> ChatReply:
    """A `chat.completion` object as a reply. A reply that was cut or broken off is an error."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content = message.get("content")
        finish = _finish(choice.get("finish_reason"))
        failed = bool(body.get("error") or choice.get("error"))
    except (TypeError, KeyError, IndexError, AttributeError):
        return ChatReply(None, "the server's reply is no chat completion")
    usage = _usage(body.get("usage"))
    if failed:
        return ChatReply(None, "the server reports an error beside its reply", finish, usage)
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    logprob = _mean_logprob(choice.get("logprobs"))
    return replace(as_reply(content, finish, usage, thoughts), model=read_model(body), logprob=logprob)


def read_model(body: Mapping[str, Any]) -> str | None:
    """The model that a reply names, or None."""
    model = body.get("model")
    return model if isinstance(model, str) else None


def as_reply(content: Any, finish: str | None, usage: Usage, thoughts: Any = None) -> ChatReply:
    """The text that a model wrote as a reply, without its thoughts; an error if it is incomplete or empty.

    Args:
        finish: why it ended, such as LENGTH or one of BROKEN_OFF.
        thoughts: given if the server separates them.
    """
    thoughts = thoughts if isinstance(thoughts, str) and is_storable(thoughts) else None
    if finish in BROKEN_OFF:
        return ChatReply(None, f"finish_reason={finish}: the server broke the reply off", finish, usage, thoughts)
    if not isinstance(content, str) or not content.strip():
        why = "cut by the token limit within its thoughts" if finish == LENGTH else "empty reply"
        return ChatReply(None, why, finish, usage, thoughts)
    if len(content) > MAX_CHARACTERS:
        return ChatReply(
            None, f"a reply of {len(content)} characters; at most {MAX_CHARACTERS} are read", finish, usage
        )
    inner, text = split_reasoning(content)
    if finish == LENGTH:
        return ChatReply(
            None, f"finish_reason=length: cut after {usage.completion or 'its last'} tokens", finish, usage
        )
    if not is_storable(content):
        return ChatReply(None, NOT_STORABLE, finish, usage)
    if not text:
        return ChatReply(None, "nothing but thoughts", finish, usage, thoughts or inner)
    return ChatReply(text, None, finish, usage, thoughts or inner)


def _mean_logprob(stated: Any) -> float | None:
    """The mean log-probability of the tokens in `logprobs` of a choice, or None if they are not all stated."""
    tokens = stated.get("content") if isinstance(stated, dict) else None
    values: list[Any] = (
        [token.get("logprob") for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []
    )
    if not values or not all(isinstance(value, int | float) and value <= 0 for value in values):
        return None
    mean = sum(values) / len(values)
    return mean if math.isfinite(mean) else None


def _finish(stated: Any) -> str | None:
    """The finish reason in one spelling, or None."""
    word = stated.strip().lower() if isinstance(stated, str) else None
    return LENGTH if word in _AT_LENGTH else word


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


def parse_json(content: bytes | None) -> Any:
    """The value of a body, or None if it is not JSON."""
    try:
        return json.loads(content or b"")
    except (ValueError, RecursionError):
        return None


def parse_error_reason(body: Any) -> str:
    """The reason of a rejection in one line, if it is short. A long message may quote the request."""
    error = body.get("error", body.get("detail")) if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    if not message:
        return "no reason given"
    line = " ".join(message.split()) if isinstance(message, str) else ""
    if line and len(line) <= 200 and line.isprintable():  # no control characters
        return line
    return "a reason that cannot be shown; see the server's log"
