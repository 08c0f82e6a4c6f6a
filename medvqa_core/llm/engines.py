"""The engine interface: what answers questions, whatever does it (rules, an in-process model, a server).

A call carries the questions that share their material, such as all questions about one study or one image, so that an
engine pays for the material once; several calls are under way together. Nothing here decides about prompts, parsing or
asking again: this file only says what goes in and what comes out. Each dataset has its own requests.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from medvqa_core.errors import ConfigError


@dataclass(frozen=True)
class Reply:
    """What an engine says to one request: an answer, or the reason why there is none. Exactly one of the two is set.

    Raises:
        ValueError: both fields are set, or neither.
    """

    answer: str | None
    error: str | None = None

    def __post_init__(self) -> None:
        if (self.answer is None) == (self.error is None):
            given = "neither" if self.answer is None else "both"
            raise ValueError(f"{type(self).__name__} takes either an answer or an error, got {given}")


class Request(Protocol):
    """What an engine is asked; frozen dataclasses of the datasets."""

    @property
    def id(self) -> str:
        """The row that the request is made for."""
        ...


@runtime_checkable
class Engine(Protocol):
    """What a run needs of an engine.

    Attributes:
        name: the kind of engine, as the command line spells it.
        settings: everything that its answers depend on besides the request: model, revision, prompt, sampling. They are
            part of every content key, of the header of the file of answers, and of the rows' provenance.
        endpoint: address that the text is sent to; None where nothing leaves the process.
        in_flight: calls of `answer` that may be under way together, on one event loop.

    An engine that holds something open while it is asked (connections) is an async context manager too.
    """

    name: str
    settings: Mapping[str, Any]
    endpoint: str | None
    in_flight: int

    async def answer(self, requests: Sequence[Any]) -> list[Reply]:
        """Answer `requests`, in their order, one reply each. A failure inside one request is its reply's error.

        An engine that blocks runs its work in a thread: `await asyncio.to_thread(…)`.

        Raises:
            InputError: the material that the requests share cannot be used: all of them fail, and the run goes on.
            Whatever else is raised stops the run; what is recorded is kept.
        """
        ...


E = TypeVar("E")


def load_engine(engines: Mapping[str, Callable[[], E]], name: str) -> E:
    """Make the engine called `name` of a dataset's table of engines. Raises ConfigError where there is none."""
    if name not in engines:
        raise ConfigError(f"engine {name!r} is unknown; available: {', '.join(engines)}")
    return engines[name]()
