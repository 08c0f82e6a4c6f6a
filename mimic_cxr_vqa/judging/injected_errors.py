"""Inject one known error into an answer, to test whether a judge notices it (`cxr judge --probe`).

The edits work on the text only and do not share code with the judges.
"""

import re
from collections.abc import Callable, Sequence

from medvqa_core.digests import digest

NEGATED, SIDE, ANOTHER, DROPPED, NUMBER, RELATIVE = (
    "negated",
    "side swapped",
    "another study's answer",
    "detail dropped",
    "number changed",
    "relative wording",
)
KINDS = (NEGATED, SIDE, ANOTHER, DROPPED, NUMBER, RELATIVE)

# (pattern, replacement): denials become statements, then statements become denials. The first match counts.
_NEGATIONS = (
    (r"\bthere (is|are) no (?:evidence of |definite |acute )?", r"there \1 "),
    (r"^no (?:evidence of |definite |acute )?(.+? (?:is|are) )", r"\1"),
    (r"\b(shows?|demonstrates?) no ", r"\1 "),
    (r"\bwithout (?:evidence of )?", "with "),
    (r"\b(is|are) not\b", r"\1"),
    (r"\bno (?:evidence of )?", ""),
    (r"\bwithin normal limits\b|\b(?:normal|unremarkable)\b", "abnormal"),
    (r"\b(is|are) clear\b", r"\1 not clear"),
    (r"\bthere (is|are) (?:an? )?", r"there \1 no "),
    (r"\b(shows?|demonstrates?) (?:an? )?", r"\1 no "),
    (r"^(?:an? |the )?(.+?) (is|are) (seen|present|noted|identified|visible|observed|in place)", r"no \1 \2 \3"),
    (r"\b(is|are|appears?) (?!possible)", r"\1 not "),
)
_DETAILS = (
    r"\b(?:small|large|tiny|trace|mild|moderate|severe|marked|minimal|mildly|moderately|severely|slightly|markedly) ",
    r"\b(?:left|right|bilateral)(?:-sided)? ",
    r"\b(?:left |right )?(?:upper|lower|middle|mid|basilar|bibasilar|apical|perihilar|retrocardiac|lateral|posterior) "
    r"(?:lobe |lung |zone )?",
    r" (?:in|at|on|within|of) the (?:left|right)\b[^.,;]*",
    r"\b(?:calcified|displaced|healed|loculated|patchy|hazy|linear|streaky|nodular|dual-lead|focal) ",
)
_SWAPPED = {"left": "right", "right": "left"}
_CHANGED = {"two": "four", "three": "six", "four": "two", "five": "two", "six": "three"}
_RELATIVE = (  # the first three use words of Appendix B's list
    "{}, unchanged from the previous study.",
    "{}, with interval worsening.",
    "Compared with the last radiograph: {}.",
    "{}, as before.",
    "{}, which has increased since then.",
    "{}, more than on the earlier film.",
)


def inject_error(kind: str, pair_id: str, answer: str, others: Sequence[str] = ()) -> str | None:
    """`answer` with an error of `kind`, or None if it does not apply. Deterministic for a `pair_id`.

    Args:
        others: answers of other studies that are wrong for this one, for the kind `ANOTHER`.
    """
    ways = others if kind == ANOTHER else _EDITS[kind](answer)
    ways = [way for way in ways if " ".join(way.lower().split()) != " ".join(answer.lower().split())]
    return ways[int(digest(f"plant/{pair_id}")[:12], 16) % len(ways)] if ways else None


def _negate(answer: str) -> list[str]:
    lead = re.match(r"(?:yes|no), ", answer, re.IGNORECASE)
    sentences = re.split(r"(?<=\.) ", answer[lead.end() :] if lead else answer)
    for place, sentence in enumerate(sentences):
        for pattern, replacement in _NEGATIONS:
            changed = re.sub(pattern, replacement, sentence, count=1, flags=re.IGNORECASE)
            if changed != sentence:
                text = " ".join([*sentences[:place], changed, *sentences[place + 1 :]])
                return [("No, " if lead[0].lower() == "yes, " else "Yes, ") + text if lead else _capital(text)]
    return []


def _swap_sides(answer: str) -> list[str]:
    swapped = _replace_words(_SWAPPED, answer)
    return [swapped if swapped != answer else re.sub(r"\bbilateral\b", "left", answer, count=1)]


def _drop_detail(answer: str) -> list[str]:
    """Without the last sentence, or without one detail."""
    sentences = re.split(r"(?<=[a-z)]\.) (?=[A-Z])", answer)
    ways = [" ".join(sentences[:-1])] if len(sentences) > 1 else []
    return ways + [_capital(re.sub(pattern, "", answer, count=1, flags=re.IGNORECASE)) for pattern in _DETAILS]


def _change_number(answer: str) -> list[str]:
    if re.search(r"\d", answer):
        return [re.sub(r"\d", lambda match: str((int(match[0]) + 3) % 10 or 5), answer, count=1)]
    return [_replace_words(_CHANGED, answer, count=1)]


def _replace_words(words: dict[str, str], text: str, count: int = 0) -> str:
    def replace(match: re.Match[str]) -> str:
        word = words[match[0].lower()]
        return word.capitalize() if match[0][0].isupper() else word

    return re.sub(rf"\b(?:{'|'.join(words)})\b", replace, text, count=count, flags=re.IGNORECASE)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_EDITS: dict[str, Callable[[str], list[str]]] = {
    NEGATED: _negate,
    SIDE: _swap_sides,
    DROPPED: _drop_detail,
    NUMBER: _change_number,
    RELATIVE: lambda answer: [way.format(answer.rstrip(".")) for way in _RELATIVE],
}
