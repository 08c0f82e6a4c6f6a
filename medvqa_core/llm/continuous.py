"""Continuous batching by transformers, with cached shared prefixes."""

import asyncio
import itertools
from typing import Any

from medvqa_core.errors import MedvqaError
from medvqa_core.llm.chat import ChatReply
from medvqa_core.llm.loading import LoadedModel


class ContinuousBatching:
    """Greedy generation on a thread of transformers. Create and close it on the event loop that uses it."""

    def __init__(self, loaded: LoadedModel) -> None:
        from transformers import ContinuousBatchingConfig

        config = loaded.model.generation_config
        config.do_sample = False
        if loaded.model.device.type == "cuda":
            settings = ContinuousBatchingConfig(seed=0)
        else:  # room for a few requests
            settings = ContinuousBatchingConfig(seed=0, page_size=32, num_blocks=1024, max_batch_tokens=512)
        self._ends = list(loaded.end_ids) or -1
        self._numbers = itertools.count()
        self._manager = loaded.model.init_continuous_batching(
            generation_config=config, continuous_batching_config=settings
        )
        self._manager.start()

    async def generate(self, ids: list[int], max_tokens: int) -> list[int] | ChatReply:
        """Generate the tokens that follow `ids`, or return a reply with an error. Raises MedvqaError if it stopped."""
        made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def deliver(result: Any) -> None:
            if not made.done():
                made.set_result(result)

        name = f"request-{next(self._numbers)}"
        self._refuse_stopped()
        self._manager.register_result_handler(name, deliver)
        if self._manager.add_request(ids, name, max_new_tokens=max_tokens, eos_token_id=self._ends) is None:
            raise MedvqaError("the model stopped; finished answers are kept. Run the same command again to resume.")
        result = await made
        if result.error is not None:
            self._refuse_stopped()
            return ChatReply(None, f"generation failed: {' '.join(str(result.error).split())[:150]}")
        return result.generated_tokens

    def close(self) -> None:
        """Stop the thread and abandon open requests."""
        self._manager.stop(block=True, hard_stop=True)

    def _refuse_stopped(self) -> None:
        error = self._manager.background_thread_status.fatal_error
        if error is not None:
            reason = " ".join(str(error).split())[:150]
            raise MedvqaError(
                f"the model stopped ({reason}); finished answers are kept. Run the same command again to resume."
            )
