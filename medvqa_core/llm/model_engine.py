"""The base class of engines that use a language model."""

from types import TracebackType
from typing import Self

from medvqa_core.attestation import Attestation
from medvqa_core.llm.chat_model import ChatModel


class ModelEngine:
    """An engine that uses `model`. See `medvqa_core.llm.engines.Engine` for the attributes."""

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
