"""What an engine is asked about a study (`medvqa_core.llm.engines` says what an engine is), and the bundled engines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.llm.engines import Engine
from mimic_cxr_vqa.schema import PROVENANCE_TYPE


@dataclass(frozen=True)
class AnswerRequest:
    """One question about one study.

    Attributes:
        qa_id: stable key of the question (`schema.QUESTION_SCHEMA`).
        category: one of `schema.CATEGORIES`.
        indication: why the study was made, where the report says so.
        findings: the findings section; never empty for a question that the pipeline made.
        violations: lint rules that the previous reply broke (`lint.lint`); non-empty on a re-ask.
    """

    qa_id: str
    study_id: int
    category: str
    question: str
    indication: str | None
    findings: str
    violations: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The qa_id, under the name that every request has it."""
        return self.qa_id


# What an engine's settings say, each a value in the rows' provenance; `attempts` and `lint` come from the run.
SETTINGS = tuple(field.name for field in PROVENANCE_TYPE if field.name not in ("attempts", "lint"))


def check_settings(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`settings` in their order, if they are those of an engine that answers for this dataset.

    Raises:
        ConfigError: one is missing, or there is one that the rows' provenance has no place for.
    """
    if set(settings) != set(SETTINGS):
        raise ConfigError(f"{where}: settings {', '.join(settings) or 'none'}; needed are {', '.join(SETTINGS)}")
    return {name: settings[name] for name in SETTINGS}


def _extractive() -> Engine:
    from mimic_cxr_vqa.generation.extractive import ExtractiveEngine

    return ExtractiveEngine()


ENGINES: dict[str, Callable[[], Engine]] = {"extractive": _extractive}
