"""What every engine over a language model has in common: where its texts go, how much is under way, its connections."""

from types import TracebackType
from typing import Self

from medvqa_core.attestation import Attestation
from medvqa_core.llm.chat_model import ChatModel


class ModelEngine:
    """An engine that asks `model`; see `medvqa_core.llm.engines.Engine` for what the attributes are."""

    model: ChatModel

    @property
    def name(self) -> str:
        """The kind of model."""
        return self.model.kind

    @property
    def endpoint(self) -> str | None:
        """Where texts and images go."""
        return self.model.endpoint

    @property
    def attestation(self) -> Attestation | None:
        """Who says that `endpoint` may have credentialed texts, where it is another machine."""
        return self.model.attestation

    @property
    def in_flight(self) -> int:
        """Groups (studies, images) under way."""
        return self.model.in_flight

    async def __aenter__(self) -> Self:
        await self.model.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.model.__aexit__(kind, problem, trace)
