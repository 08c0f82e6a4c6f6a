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
        findings: the text to answer from; never empty for a question that the pipeline made.
        impression: what the report concludes where that is not part of `findings`: no source of answers, but nothing
            that it affirms need be denied because the findings are silent.
        violations: lint rules that the previous reply broke (`lint.lint`), on a re-ask for them.
        failure: why nothing could be read of the previous reply (a key of `reasking.UNREAD`), on a re-ask for that.
        attempt: which time the question is asked.
    """

    qa_id: str
    study_id: int
    category: str
    question: str
    indication: str | None
    findings: str
    violations: tuple[str, ...] = ()
    impression: str | None = None
    failure: str | None = None
    attempt: int = 1

    @property
    def id(self) -> str:
        """The qa_id, under the name that every request has it."""
        return self.qa_id


ANSWER_FROM = ("findings", "findings+impression")  # the paper's, and both sections where the source gives both
IMPRESSION, AS_CONTEXT, AS_TEXT = "impression", "context", "text"
# What an engine's settings log, each a value in the rows' provenance; `attempts` and `lint` come from the run.
SETTINGS = tuple(field.name for field in PROVENANCE_TYPE if field.name not in ("attempts", "lint"))


def check_settings(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`settings` in their order, if they are those of an engine that answers for this dataset.

    `impression` may be there too: how the impression reaches the engine, `AS_CONTEXT` or `AS_TEXT`; without it, it does
    not.

    Raises:
        ConfigError: one is missing, or there is one that the rows' provenance has no place for.
    """
    if set(settings) - {IMPRESSION} != set(SETTINGS) or settings.get(IMPRESSION, AS_TEXT) not in (AS_CONTEXT, AS_TEXT):
        raise ConfigError(f"{where}: settings {', '.join(settings) or 'none'}; needed are {', '.join(SETTINGS)}")
    return {name: settings[name] for name in (*SETTINGS, IMPRESSION) if name in settings}


def answer_from_settings(settings: Mapping[str, Any], answer_from: str) -> dict[str, Any]:
    """The settings of a run that answers from `answer_from`, one of `ANSWER_FROM`. Raises ConfigError for another."""
    if answer_from not in ANSWER_FROM:
        raise ConfigError(f"answer_from={answer_from!r}: allowed are {' and '.join(ANSWER_FROM)}")
    return dict(settings) if answer_from == ANSWER_FROM[0] else {**settings, IMPRESSION: AS_TEXT}


def _extractive() -> Engine:
    from mimic_cxr_vqa.generation.extractive import ExtractiveEngine

    return ExtractiveEngine()


ENGINES: dict[str, Callable[[], Engine]] = {"extractive": _extractive}
