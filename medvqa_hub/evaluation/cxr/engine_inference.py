"""Asking an engine about studies: a study's questions together, in order; every reply recorded, resumed by content.

`ChatReader` is the engine behind `--engine`: it encodes a study's images once and asks its questions one after another
on one session of the model. Whatever else knows answers (a file of predictions) is an engine of the same kind.

What becomes of a request: an image that cannot be read fails the study's questions with that reason; a reply without
an answer fails its question; a model that is gone ends the run, and what is recorded is kept.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from medvqa_core.governance import Governance
from medvqa_core.llm.chat import ChatReply
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.engines import Reply
from medvqa_core.llm.model_engine import ModelEngine
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import Prediction, PredictionStore
from medvqa_hub.evaluation.cxr.generating import digest_images, request_keys
from medvqa_hub.evaluation.cxr.prompts import StudyPrompt
from medvqa_hub.evaluation.cxr.studies import Study

EMPTY_QUESTION = "the question is empty"


@dataclass(frozen=True)
class StudyRequest:
    """One question about a study."""

    id: str
    study: Study
    row: Mapping[str, Any]


@dataclass(frozen=True)
class StudyReply(Reply):
    """A reply with more fields for its record: tokens, a reasoning model's thoughts."""

    details: Mapping[str, Any] = field(default_factory=dict)


class StudyEngine(Protocol):
    """`medvqa_core.llm.engines.Engine` for StudyRequests that are all about one study.

    Attributes:
        settings: what a whole file of predictions depends on: which model.
        described: what results say of it, as `model` and as `generation`.
    """

    name: str
    settings: Mapping[str, Any]
    endpoint: str | None
    in_flight: int
    described: tuple[Mapping[str, Any], Mapping[str, Any]]

    def content(self, study: Study, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """What an answer depends on besides settings, images, views and question: another value is asked again."""
        ...

    async def answer(self, requests: Sequence[StudyRequest]) -> list[StudyReply]:
        """Replies in the order of the requests. Raises InputError, which fails them all."""
        ...


@dataclass
class ChatReader(ModelEngine):
    """Asks an image-text model. Model and prompt are part of every key: no two of them share an answer."""

    model: ChatModel
    prompt: StudyPrompt

    @property
    def settings(self) -> dict[str, Any]:
        return {"engine": self.name, "model": self.model.model, "revision": self.model.revision}

    @property
    def described(self) -> tuple[dict[str, Any], dict[str, Any]]:
        model = {"name": self.model.model, "kind": self.name, "fingerprint": self.model.revision}
        return {**model, "description": dict(self.model.description)}, self.prompt.settings

    def content(self, study: Study, row: Mapping[str, Any]) -> dict[str, Any]:
        """The text that is asked, and everything else about the prompt."""
        return {**self.prompt.settings, "text": self.prompt.text(study, row)}

    async def answer(self, requests: Sequence[StudyRequest]) -> list[StudyReply]:
        """Replies to a study's questions; all use one session. Raises InputError for its images."""
        study, replies = requests[0].study, []
        async with self.model.session() as session:
            images = await asyncio.to_thread(self.prompt.encode, study)
            for request in requests:
                if not request.row["question"].strip():
                    replies.append(StudyReply(None, EMPTY_QUESTION))
                    continue
                reply = await session.chat(self.prompt.request(study, images, request.row))
                replies.append(_as_record(reply))
        return replies


def _as_record(reply: ChatReply) -> StudyReply:
    details: dict[str, Any] = {"tokens": reply.usage.completion} if reply.usage.completion is not None else {}
    if reply.reasoning:
        details["reasoning"] = reply.reasoning
    return StudyReply(None if reply.text is None else reply.text.strip(), reply.error, details)


def ask_studies(
    engine: StudyEngine,
    studies: Sequence[Study],
    path: Path,
    governance: Governance,
    retry_failed: bool = False,
    digests: Mapping[Path, str] | None = None,
) -> tuple[list[list[Prediction]], Counter]:
    """A prediction for every question of `studies`, aligned with them and their rows; and counts, as
    `generate_predictions` gives them.

    Args:
        path: `predictions.jsonl`.
        digests: of the images' content, where they are known already.

    Raises:
        ConfigError: the predictions there were made with other settings.
        GovernanceError: they are of a stricter class.
        InputError: an image file vanished, or a recorded line is broken.
        OutputError: they cannot be written.
        ServerError: the model is gone; what was answered is kept.
    """
    started = time.monotonic()
    digests = digest_images(studies) if digests is None else digests
    with PredictionStore(path, governance, engine.settings) as store:
        keys = request_keys(studies, store.settings, digests, engine.content)

        def groups() -> Iterator[dict[str, StudyRequest]]:
            seen: set[str] = set()  # blank images make few distinct requests: each is made once
            for study, of_study in zip(studies, keys, strict=True):
                rows = [(key, row) for key, row in zip(of_study, study.rows, strict=True) if key not in seen]
                seen.update(of_study)
                yield {key: StudyRequest(row["qa_id"], study, row) for key, row in rows}

        asked = ask_all(
            groups(),
            engine.answer,
            store,
            in_flight=engine.in_flight,
            description="Asking, study by study",
            total=len(studies),
            retry_failed=retry_failed,
            review=lambda _request, reply, _attempt: (getattr(reply, "details", {}), None),
            session=engine,
        )
        found = [[store.find(key) for key in of_study] for of_study in keys]
    return found, Counter(asked=asked, seconds=round(time.monotonic() - started, 1), processes=1)
