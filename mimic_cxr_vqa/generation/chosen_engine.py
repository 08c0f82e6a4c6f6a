"""The engine that a command line chooses: made here, or once in every worker of a Ray cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from medvqa_core.attestation import read_attestation
from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.llm.connecting import SERVER, is_model_engine
from medvqa_core.llm.engines import Engine
from medvqa_core.llm.options import (
    DEFAULT_SLOTS,
    DEFAULT_WAIT,
    SPELLED,
    LoadIn,
    check_model_options,
    connect,
    one_engine,
)
from medvqa_core.runs.ray_workers import RayEngine
from mimic_cxr_vqa.generation.engines import ENGINES
from mimic_cxr_vqa.generation.language_model import LanguageModel, parse_question_count
from mimic_cxr_vqa.generation.prompts import Prompt, read_prompt


@dataclass(frozen=True)
class ChosenEngine:
    """What a command was told about its engine; make it with `choose`.

    Attributes:
        prompt, questions_per_request: of a language model, as `LanguageModel`.
        connection: of a language model, the arguments of `medvqa_core.llm.options.connect` that follow the class.
    """

    engines: Sequence[str]
    prompt: Prompt
    questions_per_request: int
    connection: dict[str, Any]

    @classmethod
    def choose(
        cls,
        engines: Sequence[str],
        *,
        prompt_file: Path | None = None,
        questions_per_request: str = "1",
        model: str | None = None,
        slots: int = DEFAULT_SLOTS,
        wait: str = DEFAULT_WAIT,
        load_in: LoadIn | None = None,
        own_server: bool = False,
        attestation: Path | None = None,
        record: Path | None = None,
    ) -> "ChosenEngine":
        """The options of a command, checked as far as they can be before an engine is made.

        Args:
            engines: as typed: one of `ENGINES`, or language models.
            model, slots, wait, load_in, own_server, attestation, record: as `medvqa_core.llm.options.connect`.

        Raises:
            ConfigError: the engine is unknown, options of language models come with another engine, or one of them
                is spelled wrongly.
            InputError: the prompt file cannot be read.
        """
        connection = {"model": model, "slots": slots, "wait": wait, "load_in": load_in}
        connection |= {"own_server": own_server, "attestation": attestation, "record": record}
        if is_model_engine(engines):
            prompt = read_prompt(prompt_file) if prompt_file else Prompt()
            return cls(engines, prompt, parse_question_count(questions_per_request), connection)
        name = one_engine(engines)
        if name not in ENGINES:
            raise ConfigError(f"engine {name!r} is unknown; available: {', '.join(ENGINES)}, {SPELLED}")
        check_model_options(
            name,
            model=model,
            prompt_file=prompt_file,
            questions_per_request=questions_per_request != "1",
            slots=slots != DEFAULT_SLOTS,
            wait=wait != DEFAULT_WAIT,
            load_in=load_in,
            i_run_this_server=own_server,
            attestation=attestation,
        )
        return cls(engines, Prompt(), 1, {})

    def make(self, governance: Governance) -> Engine:
        """The engine, ready for texts of a class. Raises as `connect`."""
        if not is_model_engine(self.engines):
            return ENGINES[self.engines[0]]()
        return LanguageModel(
            connect(self.engines, governance, **self.connection), self.prompt, self.questions_per_request
        )

    def make_for(self, governance: Governance, worker: int) -> Engine:
        """The engine of a worker: of several servers, one."""
        return self._only(self.engines[worker % len(self.engines)], record=None).make(governance)

    def _only(self, engine: str, **connection: Any) -> "ChosenEngine":
        return replace(self, engines=[engine], connection={**self.connection, **connection} if self.connection else {})

    @contextmanager
    def on_ray(self, governance: Governance, address: str, workers: int | None, gpus: float) -> Iterator[Engine]:
        """The engine as workers of a Ray cluster.

        Args:
            workers: how many; None: one for each of `engines`.

        Raises:
            GovernanceError: credentialed texts, and the cluster is neither this machine nor named by the attestation.
            ConfigError: Ray cannot be used, the workers' engines differ, or there are more engines than workers.
        """
        count = workers or len(self.engines)
        if count < len(self.engines):
            raise ConfigError(
                f"--ray-workers {count}: {len(self.engines)} engines need a worker each; name fewer engines"
            )
        chosen = self
        if self.engines[0].startswith(f"{SERVER}:"):
            for name in self.engines:  # refused here, or the user's word for it is kept: workers need not ask for it
                self._only(name).make(governance)
            chosen = replace(self, connection={**self.connection, "own_server": True})
        file = self.connection.get("attestation")
        attestation = read_attestation(file) if file else None
        with RayEngine(partial(chosen.make_for, governance), address, count, governance, gpus, attestation) as engine:
            yield engine
