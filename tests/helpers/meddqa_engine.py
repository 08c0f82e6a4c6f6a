"""Questions about a few invented reports, and an engine that answers as a test says. No image is read."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from meddqa_data import write_folder

from medvqa_core.llm.engines import Reply
from rjua_meddqa.commands.generating import generate
from rjua_meddqa.generation.questions import Options
from rjua_meddqa.inference import engines as meddqa_engines
from rjua_meddqa.inference.engines import DocumentRequest
from rjua_meddqa.released import write_questions
from rjua_meddqa.schema import (
    ADVICE,
    CONTENT_TASKS,
    DISEASE,
    MULTIPLE_CHOICE,
    REASONING_TASKS,
    SHORT_ANSWER,
    ReasoningQuestion,
)

REASONING = (
    ("blood.png", "选项:A.低钾血症;B.肾结石", "A.低钾血症", DISEASE, MULTIPLE_CHOICE),
    ("blood.png", "有什么建议？", "补钾;限水", ADVICE, SHORT_ANSWER),
    ("scan.png", "选项:A.补钾;B.限水", "B.限水", ADVICE, MULTIPLE_CHOICE),
)


def build(root: Path, governance: str | None = "open", reasoning: bool = True) -> Path:
    """Three images with questions of every kind; two of an image's questions are unanswerable."""
    write_folder(root, governance)
    generate(root, root, Options(unanswerable=1))
    if reasoning:
        rows = [
            ReasoningQuestion(image, question, answer, task, kind, "背景知识", "photo", "high", "1")
            for image, question, answer, task, kind in REASONING
        ]
        write_questions(rows, root / "reasoning.jsonl")
    return root


class ScriptedEngine:
    """Answers what `reply` says and remembers what it was asked."""

    name = "scripted"
    tasks = frozenset((*CONTENT_TASKS, *REASONING_TASKS))
    reads_pages = False
    asking: dict = {}

    def __init__(
        self,
        reply: Callable[[DocumentRequest], str | Reply],
        endpoint: str | None = None,
        in_flight: int = 1,
        delay: Callable[[str], float] = lambda image: 0,
    ) -> None:
        self.reply, self.endpoint, self.in_flight, self.delay = reply, endpoint, in_flight, delay
        self.settings = {"engine": self.name, "revision": "1"}
        self.calls: list[list[DocumentRequest]] = []
        self.under_way = self.most_under_way = 0

    @property
    def asked(self) -> list[str]:
        return [request.id for call in self.calls for request in call]

    def asked_as(self, request) -> dict:
        return {}

    async def answer(self, requests) -> list[Reply]:
        self.calls.append(list(requests))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(self.delay(requests[0].image.name))
        self.under_way -= 1
        replies = [self.reply(request) for request in requests]
        return [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies]


def install(monkeypatch, engine: ScriptedEngine) -> ScriptedEngine:
    """Make `engine` what `--engine scripted` means."""
    monkeypatch.setitem(meddqa_engines.ENGINES, engine.name, f"{__name__}:installed")
    monkeypatch.setattr(sys.modules[__name__], "installed", lambda: engine, raising=False)
    return engine
