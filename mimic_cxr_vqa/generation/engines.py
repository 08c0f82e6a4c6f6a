"""The engine interface: what answers questions, whatever does it (rules, an in-process model, a server).

A call carries the questions of one or more studies; a study's questions come together, so that an engine can pay for
the report once. This file decides nothing about prompts, parsing or re-asking: it only says what goes in and what
comes out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from medvqa_core.replies import Reply


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


class AnswerReply(Reply):
    """Reply to an AnswerRequest."""


@runtime_checkable
class Engine(Protocol):
    """What the answering stage needs of an engine; the attributes go into each row's provenance.

    Attributes:
        name: the kind of engine, as the command line spells it.
        model: the model's name at its source.
        revision: the exact version of the model (commit, digest, package version).
        prompt_version: changes whenever the same request could be asked in other words.
        temperature: sampling temperature; 0.0 is greedy.
        seed: seed of the sampling.
        endpoint: address that the text is sent to; None where nothing leaves the process.
    """

    name: str
    model: str
    revision: str
    prompt_version: str
    temperature: float
    seed: int
    endpoint: str | None

    async def answer(self, requests: Sequence[AnswerRequest]) -> list[AnswerReply]:
        """Answer `requests`, in their order, one reply each. A failure inside one request becomes its reply's error."""
        ...
