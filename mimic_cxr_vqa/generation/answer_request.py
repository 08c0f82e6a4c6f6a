"""What an engine is asked about a study, and the settings that every engine reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medvqa_core.errors import ConfigError
from mimic_cxr_vqa.schema import PROVENANCE_TYPE


@dataclass(frozen=True)
class AnswerRequest:
    """One question about one study.

    Attributes:
        qa_id: stable key of the question (`schema.QUESTION_SCHEMA`).
        category: one of `schema.CATEGORIES`.
        indication: the reason for the study, if the report gives one.
        findings: the text to answer from. It is never empty for a question that the pipeline made.
        impression: the report's conclusion, if it is not part of `findings`. Answers do not quote it, but they do not
            deny what it affirms either.
        violations: lint rules that the previous reply broke, when the question is asked again because of them.
        failure: why the previous reply could not be read (a key of `retries.UNREAD`), when it is asked again for that.
        attempt: 1 for the first try.
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
        """The qa_id, under the name that `medvqa_core` uses for every request."""
        return self.qa_id


ANSWER_FROM = ("findings", "findings+impression")  # the first is the paper's choice
IMPRESSION, AS_CONTEXT, AS_TEXT = "impression", "context", "text"
# The settings of an engine that go into the rows' provenance. The run itself adds `attempts` and `lint`.
SETTINGS = tuple(field.name for field in PROVENANCE_TYPE if field.name not in ("attempts", "lint"))


def check_settings(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return an engine's `settings` in their fixed order.

    Besides `SETTINGS` they may contain `impression`: whether the engine gets the impression `AS_CONTEXT` or `AS_TEXT`.

    Raises:
        ConfigError: a setting is missing, unknown or has another value.
    """
    missing = [name for name in SETTINGS if name not in settings]
    unknown = [name for name in settings if name not in (*SETTINGS, IMPRESSION)]
    if missing or unknown:
        problems = {"missing": missing, "unknown": unknown}
        found = ", ".join(f"{problem}: {', '.join(names)}" for problem, names in problems.items() if names)
        raise ConfigError(f"{where}: the settings are wrong ({found}). Expected {', '.join(SETTINGS)}.")
    if settings.get(IMPRESSION, AS_TEXT) not in (AS_CONTEXT, AS_TEXT):
        value = settings[IMPRESSION]
        raise ConfigError(f"{where}: {IMPRESSION} is {value!r}. Expected {AS_CONTEXT!r} or {AS_TEXT!r}.")
    return {name: settings[name] for name in (*SETTINGS, IMPRESSION) if name in settings}


def answer_from_settings(settings: Mapping[str, Any], answer_from: str) -> dict[str, Any]:
    """The settings of a run that answers from `answer_from`, one of `ANSWER_FROM`. Raises ConfigError for another."""
    if answer_from not in ANSWER_FROM:
        raise ConfigError(f"answer_from={answer_from!r} is unknown. Expected {' or '.join(ANSWER_FROM)}.")
    return dict(settings) if answer_from == ANSWER_FROM[0] else {**settings, IMPRESSION: AS_TEXT}
