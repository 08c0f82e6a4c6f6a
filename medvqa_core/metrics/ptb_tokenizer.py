"""The COCO caption tools' tokenisation without Java: Penn Treebank words, lower case, without the punctuation list.

`tokenize` gives the words of pycocoevalcap's `PTBTokenizer` (Stanford PTBTokenizer 3.4.1, `-preserveLines -lowerCase`)
for one text at a time; ptb_rules.py lists the exotic words that may differ. At every place of a text the rule that
matches most wins, of equals the first; a rule's context counts for the length but is not consumed.

Known and kept: brackets come out as `-lrb-`, `-rrb-`, …, which the tools mean to drop and, in lower case, do not.
Not kept: the tools feed all texts as lines of one file, so that a "no." at the end of a text stays one word where the
*next* text begins with a number, and a line separator inside a text shifts all texts after it. Here a text is a text.
"""

import re
from functools import cache, lru_cache

from medvqa_core.metrics.ptb_rules import (
    BEFORE_NUMBERS,
    CAPITALISED,
    FINAL,
    TITLES,
    compile_rules,
)

NAME = "PTB (own; after Stanford PTBTokenizer 3.4.1 as pycocoevalcap 1.2 calls it)"
# What the tools drop; in front what is printed as one of these: no character at all, longer dots and dashes.
PUNCTUATION = frozenset(["", "---", "----", "....", ".....", "''", "'", "``", "`", *".?!,:-;", "--", "..."])
REACH = 300  # characters that a rule sees from where it begins: tokens end there, and time grows with the text only
_TRANSLATION = str.maketrans(
    {
        **{"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-", "\xad": ""},
        **{"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "…": "...", " ": "\xa0"},
        **{"¢": "cents", "£": "#", "¤": "$", "€": "$", "₠": "$", "\x80": "$"},
        **dict.fromkeys("–—―\x96\x97", "--"),
        **dict.fromkeys("’›\x92", "'"),
        **dict.fromkeys("‘‛‹\x91", "`"),
        **dict.fromkeys("“«\x93", "``"),
        **dict.fromkeys('"”»\x94', "''"),
    }
)
_ENTITIES = {
    "&amp;": "&",
    "&lt;": "<",
    "&gt;": ">",
    "&quot;": "",
    "&apos;": "",
    "&nbsp;": "",
}
_WHITE_SPACE = re.compile(r"[\t\n\x0b\x0c\r\x85\u2028\u2029]")
# A plain word that no rule could take further; the frequent case, answered without asking the rules.
_PLAIN = re.compile(r"[A-Za-z]+(?=,?(?: |$))|[A-Za-z]{2,}(?=[.;:?!](?: |$))")
_NOT_PLAIN = frozenset(
    [*FINAL, *TITLES, *CAPITALISED, *BEFORE_NUMBERS] + ["cannot", "gonna", "gotta", "wanna", "lemme", "gimme"]
)


@lru_cache(maxsize=1 << 16)
def _tokenize(text: str) -> tuple[str, ...]:
    text = _WHITE_SPACE.sub(" ", text)
    tokens = []
    position = 0
    while position < len(text):
        if text[position] == " ":
            position += 1
            continue
        plain = _PLAIN.match(text, position)
        if plain and plain.group().lower() not in _NOT_PLAIN:
            tokens.append(plain.group().lower())
            position = plain.end()
            continue
        position, token = _take(text, position)
        if token not in PUNCTUATION:
            tokens.append(token)
    return tuple(tokens)


def _take(text: str, position: int) -> tuple[int, str]:
    """End of the token at `position` and the token as it is printed; an unknown character is an empty token."""
    reach, end, translated = position, position + 1, None
    for rule, treatment in _rules():
        match = rule.match(text, position, position + REACH)
        if match and match.end() > reach and match.end(1) > position:
            reach, end, translated = match.end(), match.end(1), treatment
    if translated is None:
        return end, ""
    token = text[position:end].lower()
    if token in _ENTITIES:
        return end, _ENTITIES[token]
    return end, token.translate(_TRANSLATION) if translated else token.replace(" ", "\xa0")


_rules = cache(compile_rules)


def tokenize(text: str) -> list[str]:
    """The words of `text` as the COCO caption tools have them. A mixed number `1 1/2` is one, and so is a
    tag `<br />`, with a no-break space."""
    return list(_tokenize(text))
