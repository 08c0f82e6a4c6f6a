"""The engine chosen on the command line, made in this process or once in every worker of a Ray cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from medvqa_core.attestation import read_attestation
from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.llm.chat_model import check_engine_allowed
from medvqa_core.llm.connecting import SERVER, connect_model
from medvqa_core.llm.engines import Engine
from medvqa_core.llm.options import SPELLED, EngineOptions
from medvqa_core.registry import load_entry
from medvqa_core.runs.ray_workers import RayEngine
from mimic_cxr_vqa.generation.engines import ENGINES
from mimic_cxr_vqa.generation.language_model import LanguageModel, parse_question_count
from mimic_cxr_vqa.generation.prompts import Prompt, read_prompt


@dataclass(frozen=True)
class ChosenEngine:
    """The engine of a command and its settings. Make it with `choose`.

    Attributes:
        prompt, questions_per_request: of a language model, as `LanguageModel`.
        record: as `connect_model`.
    """

    options: EngineOptions
    prompt: Prompt
    questions_per_request: int
    record: Path | None

    @classmethod
    def choose(
        cls,
        options: EngineOptions,
        *,
        prompt_file: Path | None = None,
        questions_per_request: str | None = None,
        record: Path | None = None,
    ) -> "ChosenEngine":
        """Check the options of a command as far as possible before an engine is made.

        Args:
            options: name one of `ENGINES`, or language models.

        Raises:
            ConfigError: the engine is unknown, options of language models come with another engine, or one of them
                is invalid.
            InputError: the prompt file cannot be read.
        """
        if options.is_language_model:
            prompt = read_prompt(prompt_file) if prompt_file else Prompt()
            return cls(options, prompt, parse_question_count(questions_per_request or "1"), record)
        name = options.get_single_engine()
        if name not in ENGINES:
            raise ConfigError(f"engine {name!r} is unknown. Expected {', '.join(ENGINES)}, {SPELLED}.")
        options.check_unused(name, prompt_file=prompt_file, questions_per_request=questions_per_request)
        return cls(options, Prompt(), 1, None)

    def make(self, governance: Governance) -> Engine:
        """The engine, ready for texts of a class. Raises as `connect_model`."""
        if not self.options.is_language_model:
            own: Engine = load_entry(ENGINES[self.options.engines[0]])()
            check_engine_allowed(governance, own)  # also in the workers of a Ray cluster
            return own
        model = connect_model(self.options, governance, self.record)
        return LanguageModel(model, self.prompt, self.questions_per_request)

    def make_for(self, governance: Governance, worker: int) -> Engine:
        """The engine of one worker, which uses one of several servers."""
        engines = self.options.engines
        return replace(self._select(engines[worker % len(engines)]), record=None).make(governance)

    def _select(self, engine: str) -> "ChosenEngine":
        return replace(self, options=replace(self.options, engines=(engine,)))

    @contextmanager
    def on_ray(self, governance: Governance, address: str, workers: int | None, gpus: float) -> Iterator[Engine]:
        """The engine as workers of a Ray cluster.

        Args:
            workers: their number. Defaults to one for each engine.

        Raises:
            GovernanceError: the texts are credentialed, and the cluster is neither local nor attested.
            ConfigError: Ray cannot be used, the workers' engines differ, or there are more engines than workers.
        """
        engines = self.options.engines
        count = workers or len(engines)
        if count < len(engines):
            raise ConfigError(f"--ray-workers {count} is too small: each of the {len(engines)} engines needs a worker")
        chosen = self
        if engines[0].startswith(f"{SERVER}:"):
            for name in engines:  # checked and recorded here, so that workers need not ask
                self._select(name).make(governance)
            chosen = replace(self, options=replace(self.options, i_run_this_server=True))
        file = self.options.attestation
        attestation = read_attestation(file) if file else None
        with RayEngine(partial(chosen.make_for, governance), address, count, governance, gpus, attestation) as engine:
            yield engine
