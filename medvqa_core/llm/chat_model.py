"""What a language model is to whoever asks one: behind a server, behind several, or in this process."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from medvqa_core.attestation import Attestation
from medvqa_core.llm.chat import ChatReply, ChatRequest


class Session(Protocol):
    """One place at a model: requests made on it one after another find what they share (a report, an image) read."""

    async def chat(self, request: ChatRequest) -> ChatReply:
        """One reply; a failure of this request is the reply's `error`.

        Raises:
            ServerError: the model is gone; what was answered before is kept by whoever asked.
        """
        ...


class ChatModel(Protocol):
    """A language model that is ready to be asked; entered (`async with`) on the event loop that asks.

    Attributes:
        kind: `server` or `transformers`, as `--engine` spells it.
        model: its name, as the server or the Hub knows it, or the folder's name.
        revision: what else its answers depend on, in words: who serves it, whether a schema is enforced, quantisation.
        endpoint: the address that texts go to; None where nothing leaves the process.
        attestation: who says that `endpoint` may have credentialed texts, where it is another machine.
        in_flight: groups of requests that keep it busy.
        description: all that is known of it, for provenance: plain JSON values.
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
        """A place, held for the length of the block; waits for a free one. A study or an image keeps one."""
        ...

    async def __aenter__(self) -> "ChatModel": ...

    async def __aexit__(self, *problem: object) -> None: ...
