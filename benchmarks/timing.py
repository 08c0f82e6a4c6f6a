"""Timing, memory and result files for the benchmarks in this folder.

Every benchmark compares ways of doing the same work in one run and writes `results/NAME.json`: figures, ratios and the
machine's kind (never its host name). Wall time on a shared machine drifts, so rivals are run in turn, round after
round.
"""

import json
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def time_in_turn(ways: Mapping[str, Callable[[], Any]], rounds: int = 9) -> dict[str, float]:
    """Median seconds of each way.

    Every round calls each way once, so that a slow spell of the machine affects all. One untimed round warms the
    caches.
    """
    for function in ways.values():
        function()
    seconds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, function in ways.items():
            seconds[name].append(_time_once(function))
    return {name: statistics.median(values) for name, values in seconds.items()}


def measure_in_child(function: Callable[..., Any], *args: Any) -> tuple[Any, float, int]:
    """Call `function(*args)` in a fresh process.

    `function` is defined at the top of a module; a script guards its start with `if __name__ == "__main__"`.

    Returns:
        What the function returned (small, it is copied between processes), its seconds, and the child's peak resident
        memory in bytes, interpreter and imports included.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, function, args).result()


def machine() -> dict[str, str | int]:
    """What the figures depend on: processor, usable cores, memory, system and Python version."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def write_result(name: str, figures: dict[str, Any]) -> Path:
    """Write `figures` and the machine's kind to `results/NAME.json`, keys sorted so that reruns make small diffs."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    text = json.dumps({**figures, "machine": machine()}, indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _time_once(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _measure(function: Callable[..., Any], args: tuple) -> tuple[Any, float, int]:
    start = time.perf_counter()
    result = function(*args)
    return result, time.perf_counter() - start, _peak_memory()


def _peak_memory() -> int:
    # ru_maxrss of a child starts at what its parent held when it was started, so Linux's own high-water mark is read.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes on macOS, KiB elsewhere


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
