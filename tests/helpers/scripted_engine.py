"""A workspace of a few studies, and an engine that replies as a test says."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from rows import FIRST_STUDY, study, study_table

from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from mimic_cxr_vqa.generation.answer_keys import iterate_requests
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.sources.study_set import StudySet
from mimic_cxr_vqa.workspace import Workspace

STUDIES = 6


def build(folder: Path, governance=Governance.OPEN, findings="Clear lungs, study {}.", studies=STUDIES) -> Workspace:
    """A workspace of studies that are asked the six questions of one label, a study without findings among them."""
    rows = [study(n, {"Edema": 0}, findings=findings.format(n)) for n in range(studies)]
    workspace = Workspace(folder)
    rows.append(study(99, {"Edema": 0}, findings=None))
    write_questions(StudySet("phantom", governance, study_table(*rows)), workspace, 0)
    return workspace


def number_of(request: AnswerRequest) -> int:
    return request.study_id - FIRST_STUDY


class ScriptedEngine:
    """Replies what `reply` says, after `delay` seconds, and remembers what it was asked."""

    name, in_flight = "scripted", 256

    def __init__(
        self,
        reply: Callable[[AnswerRequest], str | Reply] = lambda request: f"Answer to {request.qa_id}.",
        delay: Callable[[int], float] = lambda number: 0,
        endpoint: str | None = None,
        **settings,
    ) -> None:
        self.reply, self.delay, self.endpoint = reply, delay, endpoint
        self.calls: list[list[AnswerRequest]] = []
        self.under_way = self.most_under_way = 0
        self.settings = {
            **{"engine": self.name, "model": "m", "revision": "r1", "prompt_version": "p1"},
            **{"temperature": 0.0, "seed": 0},
            **settings,
        }

    @property
    def asked(self) -> list[str]:
        return [request.qa_id for call in self.calls for request in call]

    async def answer(self, requests) -> list[Reply]:
        self.calls.append(list(requests))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(self.delay(number_of(requests[0])))
        self.under_way -= 1
        replies = [self.reply(request) for request in requests]
        return [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies]


def records_of(workspace: Workspace) -> list[dict]:
    return [json.loads(line) for line in workspace.answers.read_text().splitlines()[1:]]


def all_ids(workspace: Workspace) -> list[str]:
    return [request.qa_id for group in iterate_requests(workspace) for request in group]
