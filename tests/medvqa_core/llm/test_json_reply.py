"""Replies of every broken kind: read, or refused with a reason; never a crash, never half an answer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa_core.llm import json_reply
from medvqa_core.llm.json_reply import ReplyError, is_storable, parse_object, read_text, split_reasoning

ANSWER = {"question": "Is Edema observed?", "answer": "No edema is seen."}
PLAIN = json.dumps(ANSWER)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"Here is the answer:\n{PLAIN}\nI hope this helps!",
        f"```json\n{PLAIN}\n```",
        f"<think>maybe {{not}} yet</think>{PLAIN}",
        f'<think>a draft: {{"answer": "Yes."}}</think>\n{PLAIN}',
        f'{{"answer": "a draft"}} Better: {PLAIN}',
        f"the set {{1, 2}} is no object; {PLAIN} and {{}} … {{this}}".replace("{} ", ""),
        json.dumps(ANSWER, indent=2),
        f"thoughts that a template opened</think>{PLAIN}",
    ],
)
def test_the_last_object_of_a_reply_is_read(text):
    assert parse_object(text) == ANSWER


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "empty reply"),
        (" \n ", "empty reply"),
        ("<think>hm", "nothing but thoughts"),
        ("<think>hm</think>", "nothing but thoughts"),
        ("No edema is seen.", "no JSON object in 17 characters"),
        ("I'm sorry, I cannot help with medical images.", "the model refused"),
        (PLAIN[:-1], "the JSON object is cut off"),
        (PLAIN[:30], "the JSON object is cut off"),
        (f"{PLAIN} and now better: {PLAIN[:40]}", "the JSON object is cut off"),  # the draft is not the answer
        ("{" * 5000, "the JSON object is cut off"),
        ('{"a":' * 100_000, "nested too deeply|characters; at most"),
        ("[1, 2, 3]", "no JSON object"),
        ("x" * 300_000, "at most 200000"),
    ],
)
def test_what_cannot_be_read_says_why(text, reason):
    with pytest.raises(ReplyError, match=reason):
        parse_object(text)


def test_errors_quote_nothing_of_a_reply():
    with pytest.raises(ReplyError) as error:
        parse_object("A secret finding of a patient stands here, without braces.")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("found", [{}, {"answer": None}, {"answer": ["No."]}, {"answer": 3}])
def test_a_missing_or_strange_text_is_an_error(found):
    with pytest.raises(ReplyError, match="'answer' is"):
        read_text(found, "answer")


def test_thoughts_stand_apart():
    assert split_reasoning("<think>a</think>b") == ("<think>a</think>", "b")
    assert split_reasoning("b") == (None, "b")


@given(st.text(st.characters(codec="utf-8"), max_size=200), st.integers(0, 200))
def test_a_cut_reply_never_becomes_an_answer(answer, cut):
    """Wherever the object of a reply is cut, its text is not served."""
    whole = json.dumps({"answer": answer}, ensure_ascii=False)
    if cut >= len(whole) and is_storable(answer):
        assert parse_object(whole) == {"answer": answer}
        return
    with pytest.raises(ReplyError):
        parse_object(whole[:cut])


@pytest.mark.parametrize("text", ["\\ud83d", "\\u0000", "\\u001b[2J", "\\u007f"])
def test_text_that_cannot_be_stored_is_found_after_decoding(text):
    assert text.encode().decode("unicode_escape") != text and parse_object('{"answer": "a\\tb\\nc"}')
    for reply in (f'{{"answer": "a {text}"}}', f'{{"answers": [{{"n": {{"{text}": 1}}}}]}}'):
        with pytest.raises(ReplyError, match="control characters"):
            parse_object(reply)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    try:
        assert isinstance(parse_object(text), dict)
    except ReplyError as error:
        assert str(error)


@pytest.mark.parametrize("text", ['{"answer": "yes", "answer": "no"}', '{"a": {"n": 1, "n": 2}, "answer": "yes"}'])
def test_a_name_with_two_values_is_no_answer(text):
    with pytest.raises(ReplyError, match="stands twice"):
        parse_object(text)
    assert parse_object('{"answer": "yes", "answer": "yes"}') == {"answer": "yes"}


@pytest.mark.parametrize("unit", ["{", '{"', '{"a":1 ', "<think>", "<thinking><think>"])
def test_repeated_beginnings_are_given_up_after_one_look_not_after_one_each(unit, monkeypatch):
    """Each look costs the length of the reply: 190,000 of them froze a run for half a minute."""
    looks = []
    decode = json_reply._DECODER.raw_decode
    monkeypatch.setattr(json_reply._DECODER, "raw_decode", lambda *at: (looks.append(at), decode(*at))[1])
    with pytest.raises(ReplyError):
        parse_object(unit * (190_000 // len(unit)))
    assert len(looks) <= json_reply.MOST_BROKEN


def test_thoughts_are_told_apart_whatever_their_names():
    assert split_reasoning("<think>a<thinking>b</think>c<THINKING>d</thinking>e") == (
        "<think>a<thinking>b</think>\n<THINKING>d</thinking>", "ce",
    )  # fmt: skip
    assert split_reasoning("x<think>a<thinking>b</thinking>c") == ("<think>a<thinking>b</thinking>c", "x")
