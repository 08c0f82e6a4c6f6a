"""The interface of engines, which answer questions by rules, with a model in this process, or with a server.

One call has the questions that share their material, such as all questions about a study, so that an engine reads the
material once. Several calls run concurrently. Each dataset has its own requests, prompts and parsing.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Reply:
    """The reply to a request: an answer, or the reason why there is none. Exactly one of the two is set.

    Attributes:
        details: further fields of its record, such as its reasoning and token counts.
    """

    answer: str | None
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict, compare=False)
    model: str | None = field(default=None, kw_only=True)  # that replied, if any model is accepted

    def __post_init__(self) -> None:
        if (self.answer is None) == (self.error is None):
            given = "neither" if self.answer is None else "both"
            raise ValueError(f"{type(self).__name__} takes either an answer or an error, got {given}")


# Called by an engine that answers the requests of a call one after another, with a request and its reply, so that a
# killed run keeps the reply before the others are there. `medvqa_core.runs.inference` sets it for each call.
reply_listener: ContextVar[Callable[[Any, Reply], None]] = ContextVar("reply_listener", default=lambda *_: None)


class Request(Protocol):
    """A request to an engine: a frozen dataclass of a dataset."""

    @property
    def id(self) -> str:
        """The row that the request belongs to."""
        ...


class Backend(Protocol):
    """The attributes of engines and judges. One that keeps connections open is also an async context manager.

    Attributes:
        name: the kind of engine, as on the command line, or a judge's folder: letters, digits, dots and dashes.
        settings: all that replies depend on besides the request: model, revision, prompt, sampling. They are part of
            every content key, of the header of answer files and of the rows' provenance.
        endpoint: address that texts are sent to; None for this process.
        in_flight: number of concurrent calls, on one event loop.
    """

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def endpoint(self) -> str | None: ...

    @property
    def in_flight(self) -> int: ...


@runtime_checkable
class Engine(Backend, Protocol):
    """The engine interface."""

    async def answer(self, requests: Sequence[Any]) -> Sequence[Reply]:
        """Return one reply for each of `requests`, in their order. A failure of one request is its reply's error.

        Blocking work belongs into a thread: `await asyncio.to_thread(…)`. An exception other than InputError stops
        the run, which keeps its records.

        Raises:
            InputError: the shared material cannot be used. All these requests fail and the run continues.
        """
        ...
