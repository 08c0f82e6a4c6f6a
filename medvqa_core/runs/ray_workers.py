"""An engine on a Ray cluster: workers with an engine each, behind the engine interface.

The driver (`inference.py`) keeps the order, records and retries, so a run on a cluster writes the same bytes as on one
machine. Ray restarts a worker that dies and repeats its calls. A killed driver resumes from its records.
"""

import asyncio
import os
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import Any

from medvqa_core.addresses import parse_host
from medvqa_core.attestation import Attestation
from medvqa_core.errors import ConfigError, GovernanceError, one_line
from medvqa_core.governance import Governance
from medvqa_core.install_hint import install
from medvqa_core.llm.engines import Engine, Reply

LOCAL = "local"
_CLIENT = "ray://"
_ALLOWED = f"allowed are {LOCAL}, auto where a cluster runs on this machine, and {_CLIENT}HOST:PORT"


class Worker:
    """One engine in a process of its own, as a Ray actor.

    Args:
        make_engine: creates the engine of a worker by its number (0, 1, …); runs in the worker.
    """

    def __init__(self, make_engine: Callable[[int], Engine], number: int) -> None:
        self._make, self._number = make_engine, number
        self._lock = asyncio.Lock()
        self._engine: Engine | None = None

    async def describe(self) -> dict[str, Any]:
        """Describe the engine for the driver."""
        engine = await self._made()
        return {"name": engine.name, "settings": dict(engine.settings), "in_flight": engine.in_flight}

    async def answer(self, requests: Sequence[Any]) -> Sequence[Reply]:
        """See `Engine.answer`."""
        return await (await self._made()).answer(requests)

    async def _made(self) -> Engine:
        async with self._lock:
            if self._engine is None:  # in a thread: connecting needs its own event loop
                engine = await asyncio.to_thread(self._make, self._number)
                if isinstance(engine, AbstractAsyncContextManager):
                    await engine.__aenter__()  # closed with the process
                self._engine = engine
            return self._engine


class RayEngine:
    """The engines of several workers as one. Use it as a context manager. See `Engine` for the attributes.

    Args:
        make_engine: as `Worker`; it is pickled by Ray.
        address: of the cluster (`ray://HOST:PORT`, `auto`), or LOCAL for processes of this machine.
        gpus: of each worker.
        attestation: allows clusters on other hosts to receive credentialed texts.

    Raises:
        ConfigError: the address is invalid, the extra `ray` is missing, the cluster cannot be reached, a worker is
            lost, or the workers' engines differ.
        GovernanceError: the texts are credentialed and the cluster is not limited to this machine.
        Exceptions of `make_engine`.
    """

    endpoint = None  # checked by each worker

    def __init__(
        self,
        make_engine: Callable[[int], Engine],
        address: str,
        workers: int,
        governance: Governance,
        gpus: float = 0.0,
        attestation: Attestation | None = None,
    ) -> None:
        if address.partition("://")[1] and not address.startswith(_CLIENT):
            # For `NAME://` Ray imports a package NAME, which may connect anywhere.
            raise ConfigError(f"--ray {address}: not an address of a cluster; {_ALLOWED}")
        scheme = "https" if os.environ.get("RAY_USE_TLS") == "1" else "http"  # otherwise Ray is not encrypted
        named = attestation is not None and attestation.covers(f"{scheme}://{parse_host(address)}")
        if governance is Governance.CREDENTIALED and address != LOCAL and not named:
            raise GovernanceError(
                f"credentialed texts would go to the Ray cluster {address!r}. Allowed are --ray {LOCAL} and clusters "
                "whose host --attestation FILE names (as http://HOST unless RAY_USE_TLS is 1). --shard i/n splits the "
                "work without Ray"
            )
        self._make, self._address, self._count, self._gpus = make_engine, address, workers, gpus

    def __enter__(self) -> "RayEngine":
        ray = self._ray
        self._start()
        # Async actors answer many requests at once. Ray repeats the calls of a dead worker.
        options = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": 4096, "num_gpus": self._gpus}
        actor = ray.remote(num_cpus=0 if self._address == LOCAL else 1)(Worker)
        self._workers = [actor.options(**options).remote(self._make, number) for number in range(self._count)]
        self._busy: Counter[int] = Counter()
        try:
            described = [self._get(worker.describe.remote()) for worker in self._workers]
            self.name: str = described[0]["name"]
            self.settings: Mapping[str, Any] = described[0]["settings"]
            self.in_flight: int = sum(one["in_flight"] for one in described)
            for other in described:
                if (other["name"], other["settings"]) != (self.name, self.settings):
                    raise ConfigError(f"the workers' engines differ: {self.settings} and {other['settings']}")
        except BaseException:
            ray.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    async def answer(self, requests: Sequence[Any]) -> Sequence[Reply]:
        """See `Engine.answer`. The least busy worker answers."""
        number = min(range(self._count), key=self._busy.__getitem__)
        self._busy[number] += 1
        try:
            return await self._workers[number].answer.remote(list(requests))
        except self._ray.exceptions.RayError as error:
            raise self._raised(error) from error
        finally:
            self._busy[number] -= 1

    @cached_property
    def _ray(self) -> Any:
        if self._address == LOCAL:
            _require_token()
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
        try:
            import ray
        except ImportError:
            raise ConfigError(f"--ray needs the extra ray: {install('ray')}") from None
        return ray

    def _start(self) -> None:
        local = {"include_dashboard": False} if self._address == LOCAL else {}
        ray = self._ray
        try:
            ray.init(address=self._address, log_to_driver=False, logging_level="ERROR", **local)
        except Exception as error:  # Ray also raises bare exceptions
            raise ConfigError(f"--ray {self._address}: cannot be used ({one_line(error)}); {_ALLOWED}") from None

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise self._raised(error) from error

    def _raised(self, error: Any) -> Exception:
        """The exception of a worker, or a readable error for a problem of Ray."""
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception) and not isinstance(cause, self._ray.exceptions.RayError):
            return cause
        said = str(cause or error).strip().partition("\n")[0]
        return ConfigError(
            f"--ray {self._address}: a worker was lost ({type(cause or error).__name__}: {said}). Finished "
            "answers are kept. Run the same command again to resume"
        )


def _require_token() -> None:
    """Require a token from clients of Ray's processes, which listen on all interfaces and run code.

    Ray reads both variables when it is imported. Raises ConfigError if it was imported before, without a token.
    """
    if os.environ.get("RAY_AUTH_MODE") == "token" and os.environ.get("RAY_AUTH_TOKEN"):
        return
    if "ray" in sys.modules:
        raise ConfigError("ray was imported before a token was set. Set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN")
    os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
