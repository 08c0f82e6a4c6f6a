"""Counts replies and tokens of a run, for the progress line and the estimate of the remaining time."""

import time
from dataclasses import dataclass, field

from medvqa_core.llm.chat import ChatReply, ChatRequest
from medvqa_core.llm.chat_model import Session


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

    async def chat(self, session: Session, request: ChatRequest) -> ChatReply:
        """The session's reply, which is counted."""
        if self.started is None:
            self.started = time.monotonic()
        reply = await session.chat(request)
        self.requests += 1
        self.prompt += reply.usage.prompt or 0
        self.completion += reply.usage.completion or 0
        if reply.usage.cached is not None:
            self.cached = (self.cached or 0) + reply.usage.cached
        self.ended = time.monotonic()
        return reply

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
