"""The interface of a language model (behind a server, behind several servers, or in this process) and of its users."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from medvqa_core.attestation import Attestation
from medvqa_core.llm.chat import ChatReply, ChatRequest


class Session(Protocol):
    """A slot of a model. Requests of one session share a prefix (a report, an image) that the model may cache."""

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Return the reply, or a reply with an error. Raises ServerError if the model is down."""
        ...


class ChatModel(Protocol):
    """A connected language model. Enter it (`async with`) on the event loop that uses it.

    Attributes:
        kind: `server` or `transformers`, as `--engine` spells it.
        model: its name at the server or on the Hub, or the folder's name.
        revision: what else its replies depend on: who serves it, whether a schema is enforced, quantisation.
        endpoint: the address that texts are sent to; None for this process.
        attestation: allows another machine to receive credentialed texts.
        in_flight: number of concurrent groups of requests that keep it busy.
        description: its properties for provenance, as plain JSON values.
    """

    @property
    def kind(self) -> str: ...

    @property
    def description(self) -> Mapping[str, Any]: ...

    @property
    def model(self) -> str: ...

    @property
    def revision(self) -> str: ...

    @property
    def endpoint(self) -> str | None: ...

    @property
    def attestation(self) -> Attestation | None: ...

    @property
    def in_flight(self) -> int: ...

    def session(self) -> AbstractAsyncContextManager[Session]:
        """Wait for a free slot and hold it for the block. The requests of a study or an image use one session."""
        ...

    async def __aenter__(self) -> "ChatModel": ...

    async def __aexit__(self, *problem: object) -> None: ...


class ModelEngine:
    """The base class of engines that use `model`. See `medvqa_core.llm.engines.Backend` for the attributes."""

    model: ChatModel

    @property
    def name(self) -> str:
        """The kind of model."""
        return self.model.kind

    @property
    def endpoint(self) -> str | None:
        """The address that texts and images are sent to."""
        return self.model.endpoint

    @property
    def attestation(self) -> Attestation | None:
        """Allows another machine to receive credentialed texts."""
        return self.model.attestation

    @property
    def in_flight(self) -> int:
        """Number of concurrent groups (studies, images)."""
        return self.model.in_flight

    async def __aenter__(self) -> Self:
        await self.model.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.model.__aexit__(kind, problem, trace)
