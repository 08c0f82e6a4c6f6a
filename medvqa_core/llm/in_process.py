"""A language model in this process, with the interface of a server: `--engine transformers:FOLDER_OR_ID`.

Waiting requests are answered in batches. A text model on a GPU uses continuous batching of transformers. Otherwise
requests of similar length are padded, which is faster on a CPU and the only way for image-text models. Greedy replies
do not depend on the batch, up to rounding. Requests with a temperature are generated alone.
"""

import asyncio
import io
import itertools
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from medvqa_core.attestation import Attestation
from medvqa_core.errors import ConfigError, MedvqaError, one_line
from medvqa_core.llm.chat import LENGTH, STOP, ChatReply, ChatRequest, Image, Message, Usage
from medvqa_core.llm.completions import as_reply
from medvqa_core.llm.greedy_logprobs import GreedyLogprobs
from medvqa_core.llm.loading import LoadedModel
from medvqa_core.pillow_errors import PILLOW_ERRORS

GATHER_SECONDS = 0.005  # that a batch waits for more requests
_STOPPED = "the model stopped{}; finished answers are kept. Run the same command again to resume."
BATCHES = 4  # per set of slots, so that the next batch is full


@dataclass
class _Job:
    """A waiting request."""

    request: ChatRequest
    text: str
    ids: list[int]  # of the text, without images
    images: list[Any]  # of Pillow
    reply: asyncio.Future[ChatReply]


@dataclass
class InProcessModel:
    """A ChatModel over a loaded model.

    Args:
        slots: most concurrent requests.
        continuous: use continuous batching; None: on a single GPU, for text models.
    """

    loaded: LoadedModel
    slots: int = 64
    continuous: bool | None = None
    kind: ClassVar[str] = "transformers"
    endpoint: ClassVar[None] = None
    attestation: ClassVar[Attestation | None] = None
    # A call of a fast tokenizer sets its padding, so two threads must not call it at once.
    _tokenizing: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _waiting: list[_Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        on_one_gpu = self.loaded.model.device.type == "cuda" and len(_devices(self.loaded.model)) == 1
        if self.continuous is None:
            self.continuous = on_one_gpu and not self.loaded.takes_images
        self.model, self.revision = self.loaded.name, self.loaded.revision
        self.batch = self.slots if self.continuous else max(1, self.slots // BATCHES)
        way = "continuous" if self.continuous else "by length"
        self.description = {"model": self.model, "schema": "ignored", "batching": way, **self.loaded.description}

    @property
    def in_flight(self) -> int:
        """Number of concurrent groups, so that slow ones leave no slot empty."""
        return 4 * self.slots

    @asynccontextmanager
    async def session(self) -> AsyncIterator["InProcessModel"]:
        """A slot, for requests one after another."""
        async with self._free:
            yield self

    async def __aenter__(self) -> "InProcessModel":
        self._free, self._arrived = asyncio.Semaphore(self.slots), asyncio.Event()
        self._waiting.clear()
        self._manager: Any = self._start_continuous() if self.continuous else None
        self._worker = asyncio.ensure_future(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)
        if self._manager is not None:  # open requests are abandoned
            await asyncio.to_thread(self._manager.stop, block=True, hard_stop=True)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """One reply.

        Raises:
            ConfigError: the request has images and the model takes none.
            MedvqaError: the model stopped working.
        """
        files = [image for message in request.messages for image in message.images]
        if files and not self.loaded.takes_images:
            raise ConfigError(f"model {self.model!r} does not accept images. An image-text model is needed")
        try:
            images = await asyncio.to_thread(_read_images, files) if files else []
        except PILLOW_ERRORS as error:
            return ChatReply(None, f"an image cannot be read ({type(error).__name__})", refused=True)
        text = self._render(request.messages)
        job = _Job(request, text, self._tokens(text), images, asyncio.get_running_loop().create_future())
        if refusal := self._refuse_long(len(job.ids), request):
            return refusal
        if self._manager is not None and request.temperature == 0:
            return await self._generate_continuously(job)
        if self._worker.done():
            self._worker.result()  # raises what stopped it
        self._waiting.append(job)
        self._arrived.set()
        return await job.reply

    def count_tokens(self, request: ChatRequest) -> int:
        """Number of text tokens of a request."""
        return len(self._tokens(self._render(request.messages)))

    def _start_continuous(self) -> Any:
        """A thread of transformers that generates greedily and caches shared prefixes."""
        from transformers import ContinuousBatchingConfig

        config = self.loaded.model.generation_config
        config.do_sample = False
        on_gpu = self.loaded.model.device.type == "cuda"  # otherwise room for a few requests
        room = {} if on_gpu else {"page_size": 32, "num_blocks": 1024, "max_batch_tokens": 512}
        settings = ContinuousBatchingConfig(seed=0, **room)
        manager = self.loaded.model.init_continuous_batching(
            generation_config=config, continuous_batching_config=settings
        )
        manager.start()
        self._numbers = itertools.count()
        return manager

    async def _generate_continuously(self, job: _Job) -> ChatReply:
        """The reply by continuous batching. Raises MedvqaError if its thread stopped."""

        def deliver(result: Any) -> None:
            if not job.reply.done():
                job.reply.set_result(result)

        name, manager = f"request-{next(self._numbers)}", self._manager
        self._check_running()
        manager.register_result_handler(name, deliver)
        ends, limit = list(self.loaded.end_ids) or -1, job.request.max_tokens
        if manager.add_request(job.ids, name, max_new_tokens=limit, eos_token_id=ends) is None:
            raise MedvqaError(_STOPPED.format(""))
        result: Any = await job.reply
        if result.error is not None:
            self._check_running()
            return ChatReply(None, f"generation failed: {one_line(result.error)[:150]}")
        return self._read(result.generated_tokens, len(job.ids), job.request)

    def _check_running(self) -> None:
        if (error := self._manager.background_thread_status.fatal_error) is not None:
            raise MedvqaError(_STOPPED.format(f" ({one_line(error)[:150]})"))

    async def _work(self) -> None:
        """Answer waiting requests batch by batch until the model is closed."""
        try:
            while True:
                await self._arrived.wait()
                await asyncio.sleep(GATHER_SECONDS)
                batch = self._next_batch()
                replies = await asyncio.to_thread(self._answer, batch)
                for job, reply in zip(batch, replies, strict=True):
                    if not job.reply.done():
                        job.reply.set_result(reply)
        except Exception as error:
            for job in [*batch, *self._waiting]:
                if not job.reply.done():
                    job.reply.set_exception(error)
            raise

    def _next_batch(self) -> list[_Job]:
        """The longest waiting request and those nearest to it in length. A sampled request is a batch of its own."""
        first = self._waiting[0]
        if first.request.temperature > 0:
            batch = [first]
        else:
            alike = [
                job for job in self._waiting if job.request.temperature == 0 and len(job.images) == len(first.images)
            ]
            nearest = sorted(alike, key=lambda job: abs(len(job.ids) - len(first.ids)))[: self.batch]
            batch = sorted(nearest, key=lambda job: len(job.ids))
        chosen = set(map(id, batch))
        self._waiting = [job for job in self._waiting if id(job) not in chosen]
        if not self._waiting:
            self._arrived.clear()
        return batch

    def _answer(self, batch: Sequence[_Job]) -> list[ChatReply]:
        """Reply to a batch, or to its halves if the GPU memory is too small."""
        import torch

        try:
            return self._generate(batch)
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise ConfigError(
                    f"model {self.model!r}: the GPU memory is too small for one request. Try --load-in 4bit"
                ) from None
        torch.cuda.empty_cache()
        half = self.batch = len(batch) // 2
        return [*self._answer(batch[:half]), *self._answer(batch[half:])]

    def _generate(self, batch: Sequence[_Job]) -> list[ChatReply]:
        import torch

        with self._tokenizing:
            inputs = self._inputs(batch)
        lengths = inputs["attention_mask"].sum(1).tolist()  # with images
        refused = [self._refuse_long(length, job.request) for length, job in zip(lengths, batch, strict=True)]
        if any(refused):
            kept = [job for job, refusal in zip(batch, refused, strict=True) if refusal is None]
            made = iter(self._generate(kept) if kept else ())
            return [refusal or next(made) for refusal in refused]
        first = batch[0].request
        limit = max(job.request.max_tokens for job in batch)
        sampling: dict[str, Any] = {"do_sample": False}
        if first.temperature > 0:
            sampling = {"do_sample": True, "temperature": first.temperature, "top_k": 0, "top_p": 1.0}
        logprobs = GreedyLogprobs() if first.temperature == 0 and first.logprobs else None
        if logprobs is not None:
            sampling["logits_processor"] = [logprobs]
        with torch.inference_mode(), torch.random.fork_rng(_devices(self.loaded.model)):
            torch.manual_seed(first.seed)
            tokens = self.loaded.model.generate(**inputs, max_new_tokens=limit, **sampling)
        rows = tokens[:, inputs["input_ids"].shape[1] :].tolist()
        replies = []
        for number, (row, length, job) in enumerate(zip(rows, lengths, batch, strict=True)):
            reply = self._read(row, length, job.request)
            if logprobs is not None and reply.usage.completion:
                reply = replace(reply, logprob=logprobs.mean(number, reply.usage.completion))
            replies.append(reply)
        return replies

    def _inputs(self, jobs: Sequence[_Job]) -> dict[str, Any]:
        """Inputs padded on the left, on the model's device."""
        if jobs[0].images:
            texts = [job.text for job in jobs]
            special = not texts[0].startswith(self.loaded.tokenizer.bos_token or "\0")
            made = self.loaded.processor(
                text=texts,
                images=[job.images for job in jobs],
                padding=True,
                padding_side="left",
                add_special_tokens=special,
                return_tensors="pt",
            )
        else:
            made = self.loaded.tokenizer.pad({"input_ids": [job.ids for job in jobs]}, return_tensors="pt")
        return dict(made.to(self.loaded.model.device))

    def _render(self, messages: Sequence[Message]) -> str:
        """Apply the chat template. A system text is put before the user's if the template does not support it."""
        if not self.loaded.system_role:
            system = "\n\n".join(message.text for message in messages if message.role == "system")
            said = [message for message in messages if message.role != "system"]
            messages = [Message(said[0].role, f"{system}\n\n{said[0].text}".strip(), said[0].images), *said[1:]]
        listed: list[dict[str, Any]] = []
        for message in messages:
            parts = [*({"type": "image"} for _ in message.images), {"type": "text", "text": message.text}]
            listed.append({"role": message.role, "content": parts if self.loaded.takes_images else message.text})
        return self.loaded.processor.apply_chat_template(listed, tokenize=False, add_generation_prompt=True)

    def _tokens(self, text: str) -> list[int]:
        with self._tokenizing:
            return self.loaded.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _refuse_long(self, tokens: int, request: ChatRequest) -> ChatReply | None:
        positions = self.loaded.positions
        if positions is None or tokens + request.max_tokens <= positions:
            return None
        error = f"{tokens} tokens and {request.max_tokens} for the reply. The model has {positions} positions"
        return ChatReply(None, error, refused=True)

    def _read(self, tokens: Sequence[int], prompt: int, request: ChatRequest) -> ChatReply:
        """Generated tokens as a reply, cut at the end token or at the request's limit."""
        written = list(tokens[: request.max_tokens])
        end = next((n for n, token in enumerate(written) if token in self.loaded.end_ids), None)
        written = written if end is None else written[: end + 1]
        text = self.loaded.tokenizer.decode(written, skip_special_tokens=True).strip()
        return as_reply(text, LENGTH if end is None else STOP, Usage(prompt, None, len(written)))


def _read_images(files: Sequence[Image]) -> list[Any]:
    from PIL import Image as Pictures

    return [Pictures.open(io.BytesIO(file.data)).convert("RGB") for file in files]


def _devices(model: Any) -> list[int]:
    """The GPUs that hold a model."""
    return sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
