"""What is asked again, in which words and how often."""

from dataclasses import replace

import pytest

from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.retries import UNREAD, make_retry, retry_note

REQUEST = AnswerRequest("q", 1, "Edema", "Is Edema observed?", None, "Clear.")


@pytest.mark.parametrize("start", UNREAD)
def test_each_reason_is_named_in_other_words_each_time(start):
    said, request = [retry_note(REQUEST)], REQUEST
    while (request := make_retry(request, f"{start} 17", (), request.attempt)) is not None:
        said.append(retry_note(request))
    at_length = "length" in start or "limit" in start
    assert len(said) == len(set(said)) == (2 if at_length else 3) and said[0] == ""
    assert all(UNREAD[start][0] in text and UNREAD[start][1] in text for text in said[1:])


@pytest.mark.parametrize(
    "error",
    [
        "refused with status 400: maximum context length is 8192 tokens",
        "refused with status 400: no JSON object in it",  # the server's words, not ours
        "status 500, 6 times while others were answered",
        "timeout",
        "a prompt of 9000 tokens",
    ],
)
def test_what_a_repeat_cannot_help_is_not_asked_again(error):
    assert make_retry(REQUEST, error, (), 1) is None


def test_the_last_reply_s_reason_is_named_and_a_kept_answer_is_not_asked_again():
    broken = make_retry(REQUEST, None, ["prohibited:new"], 1)
    assert 'do not use "new"' in retry_note(broken) and "no JSON" not in retry_note(broken)
    unread = make_retry(broken, "no JSON object in 3 characters", (), 2)
    assert "it held no JSON object" in retry_note(unread) and '"new"' not in retry_note(unread)
    assert make_retry(unread, None, ["prohibited:new"], 3) is None
    assert make_retry(REQUEST, None, (), 1) is None
    assert replace(unread, failure=None, attempt=1) == REQUEST
