"""The one form in which metrics read predictions and references."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medvqa_core.metrics.answer_text import ptb_text, spaced, words
from medvqa_core.metrics.ptb_tokenizer import tokenize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Band-like opacity.", "band - like opacity ."),
        ("No (or small) effusion, i.e. <5 mm...", "no ( or small ) effusion , i . e . < 5 mm ..."),
        ("the patient's 3.5cm² mass; T10/T11", "the patient ' s 3 . 5cm² mass ; t10 / t11"),
        ("a_b\tc\u00a0d", "a_b c d"),
        ("na\u0308ive ΟΔΟΣ", "näive οδοσ"),
        ("", ""),
        (" \n", ""),
    ],
)
def test_known_cases(text, expected):
    assert spaced(text) == expected


def test_words_are_the_treebank_s_without_punctuation():
    assert " ".join(words("Band-like opacity, e.g. <b>here</b>.")) == "band like opacity e g < b > here < / b >"
    assert ptb_text("Band-like opacity.") == "band like opacity"


@given(st.text())
@example("ſİßﬁΣ")
def test_twice_is_once(text):
    assert spaced(spaced(text)) == spaced(text)


@given(st.text(st.characters(max_codepoint=126)))
@example("Dr. Doe saw vitamin K. The Mass. CAN'T o'Brien U.S.")
def test_case_changes_no_word_once_texts_are_spaced(text):
    """So lower-casing first, which the release does not do, changes none of its words."""
    import re

    assert words(text) == tokenize(" ".join(re.findall(r"\w+|[^\w\s]+", text)))
