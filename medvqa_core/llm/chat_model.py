"""The interface of a language model (behind a server, behind several servers, or in this process) and of its users."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from medvqa_core.addresses import parse_host
from medvqa_core.attestation import Attestation
from medvqa_core.errors import GovernanceError
from medvqa_core.governance import Governance, check_endpoint_allowed
from medvqa_core.llm.chat import ChatReply, ChatRequest
from medvqa_core.llm.engines import Backend


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


def check_engine_allowed(governance: Governance, engine: Backend, what: str = "engine") -> None:
    """Check that an engine or a judge may get texts of a class.

    Raises:
        GovernanceError: the texts are credentialed, and the engine sends them to another machine without an
            attestation, or to a server that `connect_model` did not connect, so that the user has not confirmed it.
    """
    attestation = getattr(engine, "attestation", None)
    check_endpoint_allowed(governance, engine.endpoint, f"{what} {engine.name}", attestation)
    if governance is not Governance.CREDENTIALED or engine.endpoint is None or isinstance(engine, ModelEngine):
        return
    if attestation is None or not attestation.covers(engine.endpoint):
        raise GovernanceError(
            f"{what} {engine.name} would send credentialed text to a server at {parse_host(engine.endpoint)}, which "
            "could forward it and cannot be confirmed for this kind of engine. Use --engine server:URL with "
            "--i-run-this-server, or add a kind of language model (CONTRIBUTING.md)"
        )
