"""Normalises answers, so that predictions and references are compared in one form.

A word-level model writes "band - like opacity ." for the reference "Band-like opacity.". Without normalisation even a
perfect model would not get the full score:

    spaced     "band - like opacity ."         wordpunct's words (the release's), in lower case
    words      ["band", "like", "opacity"]     PTB tokens of `spaced`, without punctuation
    ptb_text   "band like opacity"             those, joined

BLEU, METEOR, ROUGE-L and CIDEr count `words`. BERTScore reads `ptb_text` in the profile `paper`, otherwise `spaced`,
because a reward that ignores punctuation would teach a model to scatter it.
"""

import re
from unicodedata import normalize

from medvqa_core.metrics.ptb_tokenizer import NAME as PTB
from medvqa_core.metrics.ptb_tokenizer import tokenize

NAME = f"wordpunct in lower case, then {PTB}"
_WORDPUNCT = re.compile(r"\w+|[^\w\s]+")


def spaced(text: str) -> str:
    """The words and runs of punctuation of `text` in lower case, joined by spaces (idempotent)."""
    # casefold, not lower: a final sigma or a long s must not depend on who put the text into lower case.
    return " ".join(_WORDPUNCT.findall(normalize("NFC", normalize("NFC", text).casefold())))


def words(text: str) -> list[str]:
    """The words of `text` that BLEU, METEOR, ROUGE-L and CIDEr count."""
    return tokenize(spaced(text))


def ptb_text(text: str) -> str:
    """`words` joined by spaces."""
    return " ".join(words(text))
