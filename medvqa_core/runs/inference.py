"""Sends many requests to an engine, with many groups in flight, and records every reply.

The requests of a group share their material (a study, an image). Groups are recorded in their order, so an interrupted
and resumed run writes the same bytes. A run that is stopped by an error or Ctrl-C also records finished groups ahead of
that order.

    the request has a record                      it is skipped (with `retry_failed`: only if that is an answer)
    the reply has an error                        the request fails with that reason
    `review` returns another request              that is sent, at most `attempts` times in all
    the engine raises InputError                  the whole group fails with that reason
    the engine raises another exception           the run stops and keeps its records
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import chain
from typing import Any, TypeVar

from medvqa_core.errors import InputError, one_line
from medvqa_core.llm.engines import Reply, Request
from medvqa_core.progress import track
from medvqa_core.runs.predictions import Prediction, PredictionStore

SYNC_SECONDS = 2.0  # finished groups are written after at most this time
R = TypeVar("R", bound=Request)
# (request, reply, attempt) -> details for the record, and the request to send instead, or None.
Review = Callable[[R, Reply, int], tuple[Mapping[str, Any], R | None]]


def ask_all(
    groups: Iterable[Mapping[str, R]],
    answer: Callable[[Sequence[R]], Awaitable[Sequence[Reply]]],
    store: PredictionStore,
    *,
    in_flight: int,
    description: str,
    total: int | None = None,
    groups_per_sync: int = 1,
    retry_failed: bool = False,
    review: Review[R] | None = None,
    attempts: int = 1,
    session: object = None,
    note: Callable[[], object] | None = None,
) -> int:
    """Send all requests that have no record in `store` yet, and record the replies.

    Args:
        groups: requests by content key, read lazily.
        answer: an engine's `answer`.
        in_flight: number of concurrent groups.
        description, total: of the progress bar, in groups.
        groups_per_sync: most groups that are written together.
        retry_failed: send requests again whose record is a failure.
        review: checks each reply; its details become part of the record.
        attempts: how often a request is sent at most.
        note: shown on the progress line.
        session: entered on the run's event loop if it is an async context manager, such as an engine.

    Returns:
        The number of requests that were sent, not counting repetitions.

    Raises:
        OutputError: the records cannot be written.
        Exceptions of the engine except InputError.
    """
    asked = 0

    def open_groups() -> Iterator[dict[str, R]]:
        nonlocal asked
        for group in track(groups, description, total, note):
            todo = {key: request for key, request in group.items() if store.is_open(key, retry_failed)}
            if todo:
                asked += len(todo)
                yield todo

    async def ask(group: dict[str, R]) -> list[Prediction]:
        return await _ask_group(group, answer, review, attempts)

    async def run() -> None:
        async with session if isinstance(session, AbstractAsyncContextManager) else nullcontext():
            await _keep_in_flight(open_groups(), ask, store, in_flight, groups_per_sync)

    asyncio.run(run())
    return asked


async def _keep_in_flight(
    groups: Iterator[dict[str, R]],
    ask: Callable[[dict[str, R]], Awaitable[list[Prediction]]],
    store: PredictionStore,
    in_flight: int,
    groups_per_sync: int,
) -> None:
    """Run `in_flight` groups concurrently and append finished ones in order, at least every SYNC_SECONDS."""
    under_way: deque[asyncio.Task[list[Prediction]]] = deque()
    finished: list[list[Prediction]] = []
    synced = time.monotonic()

    def sync() -> None:
        nonlocal synced
        store.append(chain.from_iterable(finished))
        finished.clear()
        synced = time.monotonic()

    async def finish_first() -> None:
        if finished:
            await asyncio.wait([under_way[0]], timeout=max(0.0, synced + SYNC_SECONDS - time.monotonic()))
            if not under_way[0].done() or time.monotonic() - synced >= SYNC_SECONDS:
                sync()
        finished.append(await under_way[0])
        under_way.popleft()
        if len(finished) >= groups_per_sync:
            sync()

    try:
        for group in groups:
            under_way.append(asyncio.ensure_future(ask(group)))
            if len(under_way) >= in_flight:
                await finish_first()
        while under_way:
            await finish_first()
    finally:  # also after errors and Ctrl-C: keep all finished groups
        for task in under_way:
            task.cancel()
        outcomes = await asyncio.gather(*under_way, return_exceptions=True)
        finished.extend(outcome for outcome in outcomes if not isinstance(outcome, BaseException))
        sync()


async def _ask_group(
    group: Mapping[str, R],
    answer: Callable[[Sequence[R]], Awaitable[Sequence[Reply]]],
    review: Review[R] | None,
    attempts: int,
) -> list[Prediction]:
    """Predictions for the requests of a group, in their order, after all attempts."""
    made: dict[str, Prediction] = {}
    todo = dict(group)
    for attempt in range(1, attempts + 1):
        replies = await _replies(answer, list(todo.values()))
        again = {}
        for (key, request), reply in zip(todo.items(), replies, strict=True):
            details, next_request = review(request, reply, attempt) if review is not None else ({}, None)
            if reply.model is not None:
                details = {**details, "reply_model": reply.model}
            made[key] = Prediction(key, request.id, reply.answer, reply.error, details)
            if next_request is not None:
                again[key] = next_request
        todo = again
        if not todo:
            break
    return [made[key] for key in group]


async def _replies(
    answer: Callable[[Sequence[R]], Awaitable[Sequence[Reply]]], requests: Sequence[R]
) -> Sequence[Reply]:
    try:
        replies = await answer(requests)
    except InputError as error:
        return [Reply(None, one_line(error))] * len(requests)
    if len(replies) != len(requests):
        raise RuntimeError(f"the engine returned {len(replies)} replies to {len(requests)} requests")
    return replies
