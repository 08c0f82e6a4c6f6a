"""Loads batches in a fixed order, with worker processes that decode their images."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset

from medvqa_core.errors import MedvqaError

MAX_WORKERS = 16  # more only cost memory


def choose_workers(wanted: int | None) -> int:
    """Number of processes that read images for each training process: `wanted`, or all of its cores but one."""
    if wanted is not None:
        return wanted
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # set by torchrun and accelerate
    return max(1, min(cores // processes - 1, MAX_WORKERS))


def load_batches(batches: Dataset, numbers: Sequence[int], workers: int) -> DataLoader:
    """Load the batches of `numbers` in this order. n processes share a run: process r takes r, r + n, …"""
    return DataLoader(
        batches,
        batch_sampler=BatchSampler(numbers, 1, drop_last=False),  # skipped by accelerate when a run is resumed
        collate_fn=take_only,
        num_workers=workers,
        pin_memory=torch.cuda.is_available(),
    )


@contextmanager
def without_worker_traceback() -> Iterator[None]:
    """Restore the text of an error from a worker, which DataLoader replaces by the worker's traceback."""
    try:
        yield
    except MedvqaError as error:
        name = f"{type(error).__module__}.{type(error).__qualname__}: "
        if "in DataLoader worker process" not in str(error) or name not in str(error):
            raise
        raise type(error)(str(error).rpartition(name)[2].strip()) from error


def take_only(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Collate function for items that are batches already."""
    (batch,) = items
    return batch
