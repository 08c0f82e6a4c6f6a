"""Sends many requests to an engine, with many groups in flight, and records every reply.

The requests of a group share their material (a study, an image). Groups are recorded in their order, so an interrupted
and resumed run writes the same bytes. Replies whose group is not complete, or has to wait for an earlier one, are kept
in a journal, which a resumed run uses. A killed run loses at most the requests in flight and the last SYNC_SECONDS.

    the request has a record                      it is skipped (with `retry_failed`: only if that is an answer)
    the reply has an error                        the request fails with that reason
    `review` returns another request              that is sent, at most `attempts` times in all
    the engine raises InputError                  the whole group fails with that reason
    the engine raises another exception           the run stops and keeps its records
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from itertools import chain
from typing import Any, TypeVar

from medvqa_core.errors import InputError, one_line
from medvqa_core.llm.engines import Reply, Request, reply_listener
from medvqa_core.progress import track
from medvqa_core.runs.journal import Journal
from medvqa_core.runs.predictions import Prediction, PredictionStore

SYNC_SECONDS = 2.0  # finished groups are written after at most this time
WAITING = 16  # finished groups per group in flight that may wait for an earlier one
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
    """Send all requests that lack a record in `store` yet, and record the replies.

    Args:
        groups: requests by content key, read lazily.
        answer: an engine's `answer`.
        in_flight: number of concurrent groups.
        description, total: of the progress bar, in groups.
        groups_per_sync: most groups that are written together.
        retry_failed: send requests again whose record is a failure.
        review: checks each reply and returns the details for its record. None: those of the reply.
        attempts: how often a request is sent at most.
        note: shown on the progress line.
        session: entered on the run's event loop if it is an async context manager, such as an engine.

    Returns:
        The number of requests that were sent, not counting repetitions.

    Raises:
        OutputError: the records cannot be written.
        Exception: any exception of the engine but InputError.
    """
    asked = 0

    def open_groups() -> Iterator[dict[str, R]]:
        for group in track(groups, description, total, note):
            todo = {key: request for key, request in group.items() if store.is_open(key, retry_failed)}
            if todo:
                yield todo

    async def ask(group: dict[str, R], journal: Journal) -> list[Prediction]:
        nonlocal asked
        made = {key: found for key in group if (found := journal.find(key, retry_failed)) is not None}
        asked += len(group) - len(made)
        return await _ask_group(group, made, answer, review, attempts, journal)

    async def run() -> None:
        async with session if isinstance(session, AbstractAsyncContextManager) else nullcontext():
            with Journal(store) as journal:
                groups = (ask(group, journal) for group in open_groups())
                await _keep_in_flight(groups, store, journal, in_flight, groups_per_sync)

    asyncio.run(run())
    return asked


async def _keep_in_flight(
    groups: Iterator[Coroutine[Any, Any, list[Prediction]]],
    store: PredictionStore,
    journal: Journal,
    in_flight: int,
    groups_per_sync: int,
) -> None:
    """Run `in_flight` groups concurrently and append finished ones in order, and other new records to the journal."""
    under_way: deque[asyncio.Task[list[Prediction]]] = deque()
    finished: list[list[Prediction]] = []
    running, changed, synced = 0, asyncio.Event(), time.monotonic()

    def count_down(_: asyncio.Task[list[Prediction]]) -> None:
        nonlocal running
        running -= 1
        changed.set()

    def collect() -> None:
        while under_way and (task := under_way[0]).done() and not task.cancelled() and not task.exception():
            finished.append(task.result())
            under_way.popleft()

    def sync() -> None:
        nonlocal synced
        store.append(chain.from_iterable(finished))
        finished.clear()
        journal.write()
        synced = time.monotonic()

    async def wait() -> None:
        changed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), max(0.0, synced + SYNC_SECONDS - time.monotonic()))
        collect()
        if under_way and under_way[0].done():
            under_way[0].result()  # raises the exception that stops the run
        if len(finished) >= groups_per_sync or time.monotonic() - synced >= SYNC_SECONDS:
            sync()

    try:
        for group in groups:
            under_way.append(asyncio.ensure_future(group))
            under_way[-1].add_done_callback(count_down)
            running += 1
            while running >= in_flight or len(under_way) >= WAITING * in_flight:
                await wait()
        while under_way:
            await wait()
    finally:  # also after errors and Ctrl-C: keep all finished groups
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        collect()
        sync()


async def _ask_group(
    group: Mapping[str, R],
    made: dict[str, Prediction],
    answer: Callable[[Sequence[R]], Awaitable[Sequence[Reply]]],
    review: Review[R] | None,
    attempts: int,
    journal: Journal,
) -> list[Prediction]:
    """Predictions for the requests of a group, in their order, after all attempts. `made` are those that exist."""
    todo = {key: request for key, request in group.items() if key not in made}
    for attempt in range(1, attempts + 1):
        again: dict[str, R] = {}
        keys = {id(request): key for key, request in todo.items()}

        def take(request: R, reply: Reply, attempt: int = attempt, again: dict = again, keys: dict = keys) -> None:
            key = keys.pop(id(request))
            details, next_request = review(request, reply, attempt) if review is not None else (reply.details, None)
            if reply.model is not None:
                details = {**details, "reply_model": reply.model}
            made[key] = Prediction(key, request.id, reply.answer, reply.error, details)
            if next_request is not None:
                again[key] = next_request
            else:
                journal.add(made[key])

        reply_listener.set(take)
        replies = await _replies(answer, list(todo.values())) if todo else []
        for request, reply in zip(todo.values(), replies, strict=True):
            if id(request) in keys:
                take(request, reply)
        todo = {key: again[key] for key in todo if key in again}
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
