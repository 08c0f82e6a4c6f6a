"""The engine that a command line chooses: made here, or once in every worker of a Ray cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medvqa_core.attestation import read_attestation
from medvqa_core.governance import Governance
from medvqa_core.llm.connecting import SERVER, names_a_model
from medvqa_core.llm.engines import Engine, load_engine
from medvqa_core.llm.options import DEFAULT_SLOTS, DEFAULT_WAIT, LoadIn, connect, one_engine
from medvqa_core.runs.ray_workers import RayEngine
from mimic_cxr_vqa.generation.engines import ENGINES
from mimic_cxr_vqa.generation.language_model import LanguageModel
from mimic_cxr_vqa.generation.prompts import Prompt


@dataclass(frozen=True)
class ChosenEngine:
    """What `cxr answer` was told about its engine; the fields are those of `medvqa_core.llm.options.connect`.

    Attributes:
        prompt, questions_per_request: of a language model, as `LanguageModel`.
    """

    engines: Sequence[str]
    governance: Governance
    prompt: Prompt = Prompt()
    questions_per_request: int = 1
    model: str | None = None
    slots: int = DEFAULT_SLOTS
    wait: str = DEFAULT_WAIT
    own_server: bool = False
    attestation: Path | None = None
    load_in: LoadIn | None = None
    record: Path | None = None

    def make(self) -> Engine:
        """The engine, ready. Raises as `connect` and `load_engine`."""
        if not names_a_model(self.engines):
            return load_engine(ENGINES, one_engine(self.engines))
        word: dict[str, Any] = {"own_server": self.own_server, "attestation": self.attestation, "record": self.record}
        model = connect(self.engines, self.governance, self.model, self.slots, self.wait, load_in=self.load_in, **word)
        return LanguageModel(model, self.prompt, self.questions_per_request)

    def make_for(self, worker: int) -> Engine:
        """The engine of a worker: of several servers, one."""
        return replace(self, engines=[self.engines[worker % len(self.engines)]], record=None).make()

    @contextmanager
    def on_ray(self, address: str, workers: int | None, gpus: float) -> Iterator[Engine]:
        """The engine as workers of a Ray cluster.

        Args:
            workers: how many; None: one for each of `engines`.

        Raises:
            GovernanceError: credentialed texts, and the cluster is neither this machine nor named by the attestation.
            ConfigError: Ray cannot be used, or the workers' engines differ.
        """
        chosen = self
        if self.engines[0].startswith(f"{SERVER}:"):
            for name in self.engines:  # refused here, or the user's word for it is kept: workers need not ask for it
                replace(self, engines=[name]).make()
            chosen = replace(self, own_server=True)
        attestation = read_attestation(self.attestation) if self.attestation else None
        count = workers or len(self.engines)
        with RayEngine(chosen.make_for, address, count, self.governance, gpus, attestation) as engine:
            yield engine
