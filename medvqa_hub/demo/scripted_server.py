"""A scripted OpenAI-compatible server on loopback that answers well: what stands in for a language model in the demo.

It reads the prompts as a model would get them. Questions are answered by the extractive engine's rules, but for one in
`ONE_WRONG_IN`, which it answers the wrong way round; pairs are judged by the rule judge, but for one error in
`ONE_MISSED_IN`, which it lets pass. So judge and people have something to find, and the judge is to be corrected.
"""

import asyncio
import json
import re
import threading
from types import TracebackType
from typing import Any

from aiohttp import web

from medvqa_core.digests import digest
from mimic_cxr_vqa.generation.engines import AnswerRequest
from mimic_cxr_vqa.generation.extractive import answer_from
from mimic_cxr_vqa.generation.prompts import NO_INDICATION
from mimic_cxr_vqa.judging.dimensions import BEST
from mimic_cxr_vqa.judging.error_injection import NEGATED, plant
from mimic_cxr_vqa.judging.judge_prompt import PREAMBLE
from mimic_cxr_vqa.judging.pairs import Pair
from mimic_cxr_vqa.judging.rule_judge import judge_by_rules
from mimic_cxr_vqa.labeling.mentions import analyse
from mimic_cxr_vqa.question_list import QUESTIONS

MODEL = "scripted"
ONE_WRONG_IN, ONE_MISSED_IN = 20, 5
_CATEGORY = {question: category for category, questions in QUESTIONS.items() for question in questions}
_ASKED = re.compile(r"indication: (.*)\nradiograph: (.*)\nquestion: ([^\n]*)", re.DOTALL)
_JUDGED = re.compile(
    r"indication: (.*)\nfindings: (.*?)(?:\nimpression: .*?)?\nquestion: ([^\n]*)\nanswer: (.*)", re.DOTALL
)


class ScriptedServer:
    """Use within `with`; `endpoint` is its address."""

    def __enter__(self) -> "ScriptedServer":
        self._loop, started = asyncio.new_event_loop(), threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_post("/v1/chat/completions", _complete)
        app.router.add_get("/v1/models", _models)
        runner = web.AppRunner(app, access_log=None)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
        self._port = runner.addresses[0][1]
        started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()


def reply_to(system: str, user: str) -> dict[str, Any]:
    """What the script says to a prompt, as the object that a model would write."""
    if system.startswith(PREAMBLE) and (asked := _JUDGED.fullmatch(user)):
        return _judge(*asked.groups())
    if asked := _ASKED.match(user):
        return {"question": asked[3], "answer": _answer(*asked.groups())}
    return {"number": 1}  # the client's harmless first request


def _answer(indication: str, findings: str, question: str) -> str:
    request = _request(indication, findings, question)
    answer = answer_from(analyse(findings), request)
    wrong = plant(NEGATED, request.qa_id, answer) if _draw(findings + question, ONE_WRONG_IN) else None
    return wrong or answer


def _judge(indication: str, findings: str, question: str, answer: str) -> dict[str, str]:
    if _draw(findings + answer, ONE_MISSED_IN):
        return dict(BEST)
    return judge_by_rules(Pair(_request(indication, findings, question), answer, "", ()))[0]


def _request(indication: str, findings: str, question: str) -> AnswerRequest:
    key = digest(findings + question)[:16]
    return AnswerRequest(
        key, 0, _CATEGORY[question], question, None if indication == NO_INDICATION else indication, findings
    )


def _draw(text: str, one_in: int) -> bool:
    return int(digest(text)[:12], 16) % one_in == 0


async def _complete(request: web.Request) -> web.Response:
    messages = {message["role"]: message["content"] for message in (await request.json())["messages"]}
    text = json.dumps(reply_to(messages.get("system", ""), messages["user"]))
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return web.json_response({"object": "chat.completion", "choices": [choice]})


async def _models(_: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": MODEL, "owned_by": "the demo"}]})
