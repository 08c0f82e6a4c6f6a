"""Inference with an engine, study by study, with every reply recorded.

`ChatReader` is the engine behind `--engine`. It encodes a study's images once and asks its questions in one session of
the model. A file of predictions is an engine of the same kind (`RecordedAnswers`).

If an image cannot be read, all questions of the study fail. A reply without an answer fails its question. If the model
cannot be reached any more the run ends, and recorded answers are kept.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from medvqa_core.governance import Governance
from medvqa_core.llm.chat import ChatReply
from medvqa_core.llm.chat_model import ChatModel, ModelEngine
from medvqa_core.llm.engines import Engine, Reply, reply_listener
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import PredictionStore
from medvqa_hub.evaluation.cxr.generating import Answers, digest_images, request_keys
from medvqa_hub.evaluation.cxr.prompts import StudyPrompt
from medvqa_hub.evaluation.cxr.studies import Study

EMPTY_QUESTION = "the question is empty"


@dataclass(frozen=True)
class StudyRequest:
    """One question about a study."""

    id: str
    study: Study
    row: Mapping[str, Any]


class StudyEngine(Engine, Protocol):
    """What the evaluation needs of an engine. `answer` gets StudyRequests about one study. InputError fails them all.

    Attributes:
        described: `model` and `generation` of the results.
    """

    @property
    def described(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]: ...

    def content(self, study: Study, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """What an answer depends on besides settings, images, views and question. It is part of the record's key."""
        ...


@dataclass
class ChatReader(ModelEngine):
    """An image-text model with a prompt. Both are part of the key of every answer."""

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
        """The text and all other settings of the prompt."""
        return {**self.prompt.settings, "text": self.prompt.text(study, row)}

    async def answer(self, requests: Sequence[StudyRequest]) -> list[Reply]:
        """Replies to a study's questions in one session. Raises InputError for its images."""
        study, replies = requests[0].study, []
        async with self.model.session() as session:
            images = await asyncio.to_thread(self.prompt.encode, study)
            for request in requests:
                if not request.row["question"].strip():
                    replies.append(Reply(None, EMPTY_QUESTION))
                    continue
                reply = await session.chat(self.prompt.request(study, images, request.row))
                replies.append(_as_record(reply))
                reply_listener.get()(request, replies[-1])
        return replies


def _as_record(reply: ChatReply) -> Reply:
    details: dict[str, Any] = {"tokens": reply.usage.completion} if reply.usage.completion is not None else {}
    if reply.logprob is not None:
        details["logprob"] = round(reply.logprob, 4)  # the batch changes the last digits
    if reply.reasoning:
        details["reasoning"] = reply.reasoning
    return Reply(None if reply.text is None else reply.text.strip(), reply.error, details, model=reply.model)


def ask_studies(
    engine: StudyEngine,
    studies: Sequence[Study],
    path: Path,
    governance: Governance,
    retry_failed: bool = False,
    digests: Mapping[Path, str] | None = None,
) -> Answers:
    """Answer every question of `studies` that lacks a prediction in `path` yet. Returns as `generate_predictions`.

    Args:
        path: `predictions.jsonl`.
        digests: of the images' content, if they are known already.

    Raises:
        ConfigError: the predictions in `path` were generated with other settings.
        GovernanceError: they are of a stricter class.
        InputError: an image file is missing, or a recorded line is broken.
        OutputError: the predictions cannot be written.
        ServerError: the model cannot be reached. Recorded answers are kept.
    """
    started = time.monotonic()
    digests = digest_images(studies) if digests is None else digests
    with PredictionStore(path, governance, engine.settings) as store:
        keys = request_keys(studies, store.settings, digests, engine.content)

        def groups() -> Iterator[dict[str, StudyRequest]]:
            seen: set[str] = set()  # with blank images many requests are equal
            for study, of_study in zip(studies, keys, strict=True):
                rows = [(key, row) for key, row in zip(of_study, study.rows, strict=True) if key not in seen]
                seen.update(of_study)
                yield {key: StudyRequest(row["qa_id"], study, row) for key, row in rows}

        asked = ask_all(
            groups(),
            engine.answer,
            store,
            in_flight=engine.in_flight,
            description="Answering, study by study",
            total=len(studies),
            retry_failed=retry_failed,
            session=engine,
        )
        found = [[store.read(key) for key in of_study] for of_study in keys]
    return found, {"asked": asked, "seconds": round(time.monotonic() - started, 1), "processes": 1}
