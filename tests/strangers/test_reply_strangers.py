"""Replies of models, collected before the rules were written. Half A was used for development."""

import pytest
from strangers import ABSTAINED, RIGHT, WRONG, count
from strangers_replies import REPLIES

from medvqa_core.llm.chat import ChatReply
from medvqa_core.llm.engines import Reply
from mimic_cxr_vqa.judging.dimensions import BEST


@pytest.mark.parametrize(
    ("name", "half", "right", "wrong"),
    [
        ("meddqa", "A", 42, 1),
        ("meddqa", "B", 42, 0),
        ("judges", "A", 18, 0),
        ("judges", "B", 20, 0),
        ("answers", "A", 14, 1),
        ("answers", "B", 12, 3),
    ],
)
def test_few_replies_are_read_wrongly(name, half, right, wrong):
    outcomes = REPLIES[name]()
    found = count(outcomes, half)
    assert found[WRONG] <= wrong, [outcome.shown for outcome in outcomes if outcome.result == WRONG]
    assert found[RIGHT] >= right, found


def test_constant_readers_fail(monkeypatch):
    """Readers with a constant answer are wrong on most replies."""
    monkeypatch.setattr("strangers_replies.take_answer", lambda *_: "2")
    monkeypatch.setattr("strangers_replies.read_reply", lambda _: BEST)
    monkeypatch.setattr("strangers_replies.read_one", lambda *_: Reply("A pneumothorax."))
    for name, least in (("meddqa", 90), ("judges", 40), ("answers", 38)):
        counts = count(REPLIES[name](), "A") + count(REPLIES[name](), "B")
        assert counts[WRONG] >= least, (name, counts)


def test_an_empty_reply_is_never_wrong(monkeypatch):
    monkeypatch.setattr("strangers_replies._said", lambda _: ChatReply(None, "nothing came"))
    for name, size in (("meddqa", 100), ("judges", 60), ("answers", 40)):
        counts = count(REPLIES[name](), "A") + count(REPLIES[name](), "B")
        assert counts[WRONG] == 0 and counts[RIGHT] < counts[ABSTAINED]
        assert counts[RIGHT] + counts[ABSTAINED] == size
