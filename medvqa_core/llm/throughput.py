"""Counts replies and tokens of a run, for the progress line and the estimate of the remaining time."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from medvqa_core.llm.chat import ChatReply, ChatRequest
from medvqa_core.llm.chat_model import ChatModel, Session


@dataclass
class Throughput:
    """Counts since the first request.

    Attributes:
        prompt, cached, completion: tokens read, of these cached (None: unknown), and written.
        answered, flagged, failed: set by the engine that reads the replies.
    """

    requests: int = 0
    prompt: int = 0
    cached: int | None = None
    completion: int = 0
    answered: int = 0
    flagged: int = 0
    failed: int = 0
    started: float | None = None
    ended: float = field(default_factory=time.monotonic)

    def add(self, reply: ChatReply) -> None:
        """Count a reply."""
        self.requests += 1
        self.prompt += reply.usage.prompt or 0
        self.completion += reply.usage.completion or 0
        if reply.usage.cached is not None:
            self.cached = (self.cached or 0) + reply.usage.cached
        self.ended = time.monotonic()

    @property
    def seconds(self) -> float:
        """From the first request to the last reply."""
        return max(self.ended - self.started, 1e-9) if self.started is not None else 0.0

    def __str__(self) -> str:
        if not self.seconds:
            return ""
        done = self.answered + self.failed
        said = [f"{done / self.seconds:.1f} answers/s"]
        if self.prompt or self.completion:
            said.append(f"{(self.prompt + self.completion) / self.seconds:,.0f} tokens/s")
        if self.cached is not None and self.prompt:
            said.append(f"{self.cached / self.prompt:.0%} cached")
        return ", ".join([*said, f"{self.flagged:,} flagged", f"{self.failed:,} failed"])


class MeteredSession:
    """A session whose replies are counted."""

    def __init__(self, session: Session, counts: Throughput) -> None:
        self._session, self._counts = session, counts

    async def chat(self, request: ChatRequest) -> ChatReply:
        """The session's reply."""
        if self._counts.started is None:
            self._counts.started = time.monotonic()
        reply = await self._session.chat(request)
        self._counts.add(reply)
        return reply


@asynccontextmanager
async def metered_session(model: ChatModel, counts: Throughput) -> AsyncIterator[Any]:
    """A session at `model` whose replies are added to `counts`."""
    async with model.session() as session:
        yield MeteredSession(session, counts)
