"""A progress bar on standard error. Without a terminal it prints a line now and then."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")
PLAIN_INTERVAL = 10.0  # seconds between lines without a terminal


def track(
    items: Iterable[T], description: str, total: int | None = None, note: Callable[[], object] | None = None
) -> Iterator[T]:
    """Yield `items` and show how many are done, the rate, the time left, and the result of `note`.

    A terminal shows a bar. Otherwise a line is printed every 10 s. Processes whose RANK (torchrun, accelerate) is not
    0 print nothing.
    """
    if os.environ.get("RANK", "0") not in ("", "0"):
        yield from items
        return
    total = len(items) if total is None and isinstance(items, Sized) else total
    if sys.stderr.isatty():
        yield from _track_on_terminal(items, description, total, note)
    else:
        yield from _track_in_lines(items, description, total, note)


def _track_on_terminal(
    items: Iterable[T], description: str, total: int | None, note: Callable[[], object] | None
) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, note="")
        for item in items:
            yield item
            bar.update(task, advance=1, note=str(note()) if note else "")


def _track_in_lines(
    items: Iterable[T], description: str, total: int | None, note: Callable[[], object] | None
) -> Iterator[T]:
    start = last = time.monotonic()
    for done, item in enumerate(items):
        yield item
        now = time.monotonic()
        if now - last >= PLAIN_INTERVAL:
            last = now
            rate = (done + 1) / (now - start)
            left = f", {(total - done - 1) / rate:.0f} s left" if total else ""
            more = f"; {note()}" if note else ""
            print(f"{description}: {done + 1}/{total or '?'}, {_show_rate(rate)}{left}{more}", file=sys.stderr)


def _show_rate(rate: float) -> str:
    if rate >= 10:
        return f"{rate:.0f}/s"
    return f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:.1f} s each"
