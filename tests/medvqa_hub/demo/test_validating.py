"""The demo's second act: what the scripted server says, and the whole act on a few studies, twice."""

import asyncio
import io
import json

import pytest
from rich.console import Console

from medvqa_core.llm.chat import ChatRequest, Message
from medvqa_core.llm.server import ChatServer
from medvqa_hub.demo import validating
from medvqa_hub.demo.scripted_server import MODEL, ScriptedServer, reply_to
from medvqa_hub.demo.validating import tell_how_it_is_checked
from mimic_cxr_vqa.generation.engines import AnswerRequest
from mimic_cxr_vqa.generation.prompts import SYSTEM, Prompt
from mimic_cxr_vqa.generation.reasking import say_again
from mimic_cxr_vqa.judging.dimensions import BEST
from mimic_cxr_vqa.judging.judge_prompt import system_prompt
from mimic_cxr_vqa.phantom.tree import write_phantom
from mimic_cxr_vqa.question_list import QUESTIONS

FINDINGS = "There is a small left pleural effusion."
QUESTION = "Is Pleural Effusion present?"


def test_the_script_answers_and_judges_as_the_prompts_ask():
    user = Prompt().fill("Cough.", FINDINGS, [QUESTION])
    assert reply_to(SYSTEM, user) == {"question": QUESTION, "answer": "Yes, there is a small left pleural effusion."}
    asked = AnswerRequest("q1", 1, "Effusion", QUESTION, None, FINDINGS, ("prohibited:new",), attempt=2)
    again = Prompt().fill(None, FINDINGS, [QUESTION], say_again(asked))
    assert reply_to(SYSTEM, again)["question"] == QUESTION
    judged = f"indication: Cough.\nfindings: {FINDINGS}\nquestion: {QUESTION}\nanswer: "
    assert reply_to(system_prompt(), judged + "Yes, there is a small left pleural effusion.") == BEST
    wrong = [reply_to(system_prompt(), f"{judged}No pleural effusion is seen{' ' * n}.") for n in range(60)]
    assert 40 <= sum(verdict["correctness"] == "Incorrect" for verdict in wrong) < 60  # and some it lets pass


def test_one_answer_in_twenty_is_the_wrong_way_round():
    said = [
        reply_to(SYSTEM, Prompt().fill(None, f"{FINDINGS} {'x' * n}", [question]))["answer"]
        for n in range(30)
        for question in QUESTIONS["Pleural Effusion"]
    ]
    wrong = sum("no small" in answer for answer in said)
    assert 1 <= wrong <= 20


def test_it_is_a_server():
    async def ask(endpoint):
        async with ChatServer(endpoint, MODEL) as server:
            return await server.chat(ChatRequest((Message("user", "hello"),)))

    with ScriptedServer() as server:
        assert json.loads(asyncio.run(ask(server.endpoint)).text) == {"number": 1}


@pytest.mark.slow
def test_the_act_tells_its_story_and_a_second_time_asks_nothing(tmp_path, monkeypatch):
    for name, value in {"STUDIES": 6, "ITEMS": 12, "PLANTED": 3}.items():
        monkeypatch.setattr(validating, name, value)
    write_phantom(tmp_path / "tree", 10, seed=0, size=64)
    told = []
    for _ in range(2):
        console = Console(file=io.StringIO(), width=200)
        places = tell_how_it_is_checked(console, tmp_path / "tree", tmp_path / "out", seed=0)
        told.append(console.file.getvalue())
    assert all(path.exists() for path in places.values())
    assert "the people are drawn" in told[0] and "Clinical Relevance" in told[0] and "corrected" in told[0]
    first, second = (text.partition("Errors planted:")[2] for text in told)
    assert first == second
