"""The engine interface: a reply is an answer or a failure, and which objects are engines."""

import pytest

from medvqa_core.llm.engines import Engine, Reply


@pytest.mark.parametrize(("answer", "error", "given"), [(None, None, "neither"), ("yes", "no", "both")])
def test_a_reply_is_an_answer_or_a_failure(answer, error, given):
    with pytest.raises(ValueError, match=f"got {given}"):
        Reply(answer, error)


def test_an_empty_answer_is_an_answer():
    assert Reply("").error is None


class Parrot:
    name, settings, endpoint, in_flight = "parrot", {"engine": "parrot"}, None, 1

    async def answer(self, requests):
        return [Reply(request.question) for request in requests]


def test_an_engine_is_told_by_its_attributes():
    assert isinstance(Parrot(), Engine) and not isinstance("text", Engine)
