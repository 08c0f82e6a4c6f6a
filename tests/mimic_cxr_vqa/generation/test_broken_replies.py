"""3,000 replies of every broken kind go the whole way from a server's body to the record: each one accounted for."""

import json
import random
from collections import Counter, defaultdict
from contextlib import asynccontextmanager

import pytest

from medvqa_core.governance import Governance
from medvqa_core.llm.completions import read_completion
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import ANSWERS, PredictionStore
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.answers import _review
from mimic_cxr_vqa.generation.language_model import ALL, LanguageModel
from mimic_cxr_vqa.generation.retries import ATTEMPTS_AT_LENGTH, MAX_ATTEMPTS

REPLIES, A_STUDY = 3_000, 8
GOOD, FLAGGED = "answered", "flagged"
SEEN = ("No edema is seen.", 'A "ground glass" opacity, 3 {mm}, is seen.', "Öedeme \\ sichtbar \u2028 \U0001fac1", "1")


def said(content, finish="stop", **message):
    """A server's body."""
    return {"choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}]}


def whole(chance, question):
    return json.dumps({"question": question, "answer": chance.choice(SEEN)}, ensure_ascii=chance.random() < 0.5)


def cut(chance, question):
    text = whole(chance, question)
    return text[: chance.randrange(1, text.rindex('"'))]


def garbled(chance, question):
    """Characters struck out or doubled, so that what is left may be anything: no outcome is expected but a record."""
    text = list(whole(chance, question))
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(text))
        text[place] = chance.choice(["", '"', "{", "}", "\\", "\0", "\ud800", text[place] * 2])
    return "".join(text)


# kind -> (the body of a reply, what becomes of the question; None: an answer or a named failure)
KINDS = {
    "plain": (lambda c, q: said(whole(c, q)), GOOD),
    "fenced": (lambda c, q: said(f"```json\n{whole(c, q)}\n```"), GOOD),
    "in prose": (lambda c, q: said(f"Sure! Here {{it}} is: {whole(c, q)} I hope that helps."), GOOD),
    "after thoughts": (lambda c, q: said(f'<think>{{"answer": "draft"}} hm</think>{whole(c, q)}'), GOOD),
    "drafts before": (lambda c, q: said(f'{{"answer": "a draft"}} no: {whole(c, q)}'), GOOD),
    "thoughts apart": (lambda c, q: said(whole(c, q), reasoning_content="hm"), GOOD),
    "no echo": (lambda c, q: said(json.dumps({"answer": "None."})), GOOD),
    "breaks a rule": (lambda c, q: said(json.dumps({"answer": "No new edema; unchanged."})), FLAGGED),
    "speaks of the report": (lambda c, q: said(json.dumps({"answer": "The report mentions it."})), FLAGGED),
    "cut": (lambda c, q: said(cut(c, q)), "cut off|no JSON object"),
    "cut by the limit": (lambda c, q: said(cut(c, q), "length"), "finish_reason=length"),
    "whole but at the limit": (lambda c, q: said(whole(c, q), "length"), "finish_reason=length"),
    "thoughts without end": (lambda c, q: said("<think>" + whole(c, q)), "nothing but thoughts"),
    "another question's": (lambda c, q: said(whole(c, "Is the aorta tortuous?")), "another question"),
    "empty": (lambda c, q: said(c.choice(["", " \n", None])), "empty reply"),
    "empty answer": (lambda c, q: said(json.dumps({"answer": c.choice(["", "  "])})), "the answer is empty"),
    "refusal": (lambda c, q: said("I'm sorry, I cannot help with medical images."), "refused"),
    "prose": (lambda c, q: said("No edema is seen."), "no JSON object"),
    "no answer in it": (lambda c, q: said(json.dumps({"question": q})), "'answer' is missing"),
    "no text in it": (lambda c, q: said(json.dumps({"answer": c.choice([None, 3, True, ["No."], {}])})), "'answer' is"),
    "a list": (lambda c, q: said(json.dumps([whole(c, q)])), None),
    "NaN": (lambda c, q: said('{"answer": NaN}'), "'answer' is a NoneType"),
    "deep": (lambda c, q: said('{"a":' * 30_000), "nested too deeply|cut off"),
    "endless": (lambda c, q: said("x" * 300_000), "at most 200000 are read"),
    "content of parts": (lambda c, q: said([{"type": "text", "text": whole(c, q)}]), "empty reply"),
    "garbled": (lambda c, q: said(garbled(c, q)), None),
    "no completion": (
        lambda c, q: c.choice([None, [], {}, {"choices": []}, {"choices": [3]}, {"choices": [{"message": None}]}, "x"]),
        "no chat completion",
    ),
    "odd bookkeeping": (
        lambda c, q: said(whole(c, q), c.choice([None, 3, ["stop"]])) | {"usage": c.choice([None, 3, [], {"x": 1}])},
        GOOD,
    ),
    "odd thoughts": (lambda c, q: said(whole(c, q), reasoning=c.choice([3, [], {"a": 1}, True])), GOOD),
}


class Broken:
    """A ChatModel whose reply to a question is of the kind that its number says, however often it is asked."""

    kind, model, revision, endpoint, attestation, in_flight = "server", "m", "r", None, None, 16
    description: dict = {}

    def __init__(self, kinds):
        self.kinds, self.asked = kinds, defaultdict(list)  # number -> what stood behind its question, time by time

    @asynccontextmanager
    async def session(self):
        yield self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def chat(self, request):
        asked = request.messages[-1].text.partition("question: ")[2]
        if asked.startswith("\n"):  # several: a reply that gives some of them only
            return read_completion(said('{"answers": [{"number": 2, "answer": "Clear."}, {"number": 99}]}'))
        question, _, again = asked.partition("\n\n")
        number = int(question.split()[-1].rstrip("?"))
        self.asked[number].append(again)
        return read_completion(KINDS[self.kinds[number]][0](random.Random(number), question))


@pytest.mark.parametrize("size", [1, ALL])
def test_every_reply_is_an_answer_a_flagged_one_or_a_named_failure(tmp_path, size):
    chance = random.Random(13)
    kinds = [*KINDS, *chance.choices(list(KINDS), k=REPLIES - len(KINDS))]
    model = Broken(kinds)
    requests = [AnswerRequest(f"q{n}", n // A_STUDY, "Edema", f"Is it {n}?", None, "Clear.") for n in range(REPLIES)]
    with PredictionStore(tmp_path / "answers.jsonl", Governance.OPEN, {"model": "m"}, kind=ANSWERS) as store:
        keyed = [(store.key(id=request.id), request) for request in requests]
        studies = [dict(keyed[start : start + A_STUDY]) for start in range(0, REPLIES, A_STUDY)]
        engine = LanguageModel(model, questions_per_request=size)
        settings = {"in_flight": 16, "description": "Asking", "review": _review, "attempts": MAX_ATTEMPTS}
        assert ask_all(studies, engine.answer, store, groups_per_sync=64, **settings) == REPLIES
        found = list(store.predictions())
        assert len(store) == len(found) == REPLIES and [p.id for p in found] == [request.id for request in requests]
    outcomes = Counter()
    for number, prediction in enumerate(found):
        _, expected = KINDS[kinds[number]]
        outcome = "failed" if prediction.error else FLAGGED if prediction.details["lint"] else GOOD
        outcomes[outcome] += 1
        asked = model.asked[number]
        if size == ALL and number % A_STUDY == 1:  # given with the others
            assert prediction.answer == "Clear." and asked == [] and prediction.details["attempts"] == 1
            continue
        at_length = (prediction.error or "").startswith("finish_reason=length")
        attempts = 1 if outcome == GOOD else ATTEMPTS_AT_LENGTH if at_length else MAX_ATTEMPTS
        assert len(asked) == attempts == prediction.details["attempts"], kinds[number]
        assert asked[0] == "" and all(asked[1:]), "a reason is named"
        assert outcome == FLAGGED or len(set(asked)) == attempts, "no request is made twice"
        assert (prediction.answer or "").strip() or prediction.error.strip(), kinds[number]
        if expected in (GOOD, FLAGGED):
            assert outcome == expected, (kinds[number], prediction)
        elif expected is not None:
            assert prediction.error and any(part in prediction.error for part in expected.split("|")), prediction
        assert len(prediction.error or "") < 200, "an error quotes nothing of a reply"
    assert sum(outcomes.values()) == REPLIES and min(outcomes[name] for name in (GOOD, FLAGGED, "failed")) > 100
