"""An engine on a Ray cluster: workers with an engine each, behind the interface that every run asks.

The run itself (order, records, asking again, resuming) stays in the one process that asks (`asking.py`), so that a run
on a cluster leaves the bytes of a run on one machine. A worker that dies is started again by Ray, and what it was asked
is asked again; a driver that is killed goes on from its records.
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
from medvqa_core.llm.engines import Engine, Reply

LOCAL = "local"
_CLIENT = "ray://"
_ALLOWED = f"allowed are {LOCAL}, auto where a cluster runs on this machine, and {_CLIENT}HOST:PORT"


class Worker:
    """One engine in a process of its own; what Ray makes an actor of.

    Args:
        make_engine: makes the engine of the worker of a number (0, 1, …); runs in the worker.
    """

    def __init__(self, make_engine: Callable[[int], Engine], number: int) -> None:
        self._make, self._number = make_engine, number
        self._lock = asyncio.Lock()
        self._engine: Engine | None = None
        self._open = False

    async def describe(self) -> dict[str, Any]:
        """What the run needs to know of the engine."""
        engine = await self._made()
        return {"name": engine.name, "settings": dict(engine.settings), "in_flight": engine.in_flight}

    async def answer(self, requests: Sequence[Any]) -> list[Reply]:
        """See `Engine.answer`."""
        engine = await self._made()
        async with self._lock:
            if not self._open and isinstance(engine, AbstractAsyncContextManager):
                await engine.__aenter__()  # left open: it goes with the process
            self._open = True
        return await engine.answer(requests)

    async def _made(self) -> Engine:
        async with self._lock:
            if self._engine is None:  # in a thread: meeting a server needs a loop of its own
                self._engine = await asyncio.to_thread(self._make, self._number)
            return self._engine


class RayEngine:
    """The engines of `workers` workers as one; use within `with`. See `Engine` for the attributes.

    Args:
        make_engine: as `Worker`; Ray carries it there.
        address: of the cluster (`ray://HOST:PORT`, `auto`), or LOCAL for processes of this machine alone.
        gpus: of each worker.
        attestation: names the hosts of clusters that may have credentialed texts.

    Raises:
        ConfigError: no address of a cluster, the extra `ray` is missing, the cluster cannot be reached, a worker is
            lost for good, or the workers' engines differ.
        GovernanceError: credentialed texts, and the cluster is not this machine alone.
        What `make_engine` raises.
    """

    endpoint = None  # what a worker's engine connects to is checked where it is made

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
            # `NAME://` has Ray import a package NAME, which goes wherever it likes with what stands behind it
            raise ConfigError(f"--ray {address}: no address of a cluster; {_ALLOWED}")
        scheme = "https" if os.environ.get("RAY_USE_TLS") == "1" else "http"  # Ray speaks in the clear otherwise
        named = attestation is not None and attestation.covers(f"{scheme}://{parse_host(address)}")
        if governance is Governance.CREDENTIALED and address != LOCAL and not named:
            raise GovernanceError(
                f"credentialed texts would go to the Ray cluster {address!r}: allowed are --ray {LOCAL}, processes of "
                "this machine, and clusters whose host --attestation FILE names (as http://HOST where RAY_USE_TLS "
                "is not 1: Ray sends in the clear); or several machines take a part "
                "each: --shard i/n"
            )
        self._make, self._address, self._count, self._gpus = make_engine, address, workers, gpus

    def __enter__(self) -> "RayEngine":
        ray = self._ray
        self._start()
        # An actor with async methods answers many requests at once; Ray asks again what a dead one left.
        options = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": 4096, "num_gpus": self._gpus}
        actor = ray.remote(num_cpus=0 if self._address == LOCAL else 1)(Worker)
        self._workers = [actor.options(**options).remote(self._make, number) for number in range(self._count)]
        self._busy: Counter[int] = Counter()
        try:
            described = [self._get(worker.describe.remote()) for worker in self._workers]
        except BaseException:
            ray.shutdown()
            raise
        for other in described[1:]:
            if (other["name"], other["settings"]) != (described[0]["name"], described[0]["settings"]):
                ray.shutdown()
                raise ConfigError(f"the workers' engines differ: {described[0]['settings']} and {other['settings']}")
        self.name: str = described[0]["name"]
        self.settings: Mapping[str, Any] = described[0]["settings"]
        self.in_flight: int = sum(one["in_flight"] for one in described)
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    async def answer(self, requests: Sequence[Any]) -> list[Reply]:
        """See `Engine.answer`; the least busy worker answers."""
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
            _demand_a_token()
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reports its use to its makers otherwise
        try:
            import ray
        except ImportError:
            raise ConfigError("--ray needs the extra ray: pip install 'medvqa-hub[ray]'") from None
        return ray

    def _start(self) -> None:
        local = {"include_dashboard": False} if self._address == LOCAL else {}
        ray = self._ray
        try:
            ray.init(address=self._address, log_to_driver=False, logging_level="ERROR", **local)
        except Exception as error:  # Ray raises bare ones too, where a machine is too busy to start it
            raise ConfigError(f"--ray {self._address}: cannot be used ({one_line(error)}); {_ALLOWED}") from None

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise self._raised(error) from error

    def _raised(self, error: Any) -> Exception:
        """What a worker raised, to be raised here; of Ray's own troubles an error that a user can read."""
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception) and not isinstance(cause, self._ray.exceptions.RayError):
            return cause
        said = str(cause or error).strip().partition("\n")[0]
        return ConfigError(
            f"--ray {self._address}: a worker was lost ({type(cause or error).__name__}: {said}); what is answered is "
            "kept, the same command goes on"
        )


def _demand_a_token() -> None:
    """Have Ray's processes, which listen on every interface, hear only those that hold this run's token.

    Whoever reached them could run code beside the texts otherwise. Ray reads both variables when it is imported.

    Raises:
        ConfigError: Ray was imported before, without a token.
    """
    if os.environ.get("RAY_AUTH_MODE") == "token" and os.environ.get("RAY_AUTH_TOKEN"):
        return
    if "ray" in sys.modules:
        raise ConfigError("ray was imported before its processes could be locked: set RAY_AUTH_MODE=token and a token")
    os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
