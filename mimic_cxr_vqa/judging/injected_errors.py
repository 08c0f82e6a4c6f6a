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

_SEEN = r"(seen|present|noted|identified|visible|visuali[sz]ed|observed|demonstrated|evident|in place)"
# (pattern, replacement): denials become statements, then statements become denials. The first match counts.
_NEGATIONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\bthere (is|are) no (?:evidence of |definite |acute )?", r"there \1 "),
        (r"^no (?:evidence of |definite |acute )?(.+? (?:is|are) )", r"\1"),
        (r"\b(shows?|demonstrates?) no ", r"\1 "),
        (r"\bwithout (?:evidence of )?", "with "),
        (r"\b(is|are) not\b", r"\1"),
        (r"\bno (?:evidence of )?", ""),
        (r"\bwithin normal limits\b", "abnormal"),
        (r"\b(?:normal|unremarkable)\b", "abnormal"),
        (r"\b(is|are) clear\b", r"\1 not clear"),
        (r"\bthere (is|are) (?:an? )?", r"there \1 no "),
        (r"\b(shows?|demonstrates?) (?:an? )?", r"\1 no "),
        (rf"^(?:an? |the )?(.+?) (is|are) {_SEEN}", r"no \1 \2 \3"),
        (r"\b(is|are|appears?) (?!possible)", r"\1 not "),
    )
)
_DETAILS = (
    r"\b(?:small|large|tiny|trace|mild|moderate|severe|marked|minimal|mildly|moderately|severely|slightly|markedly) ",
    r"\b(?:left|right|bilateral)(?:-sided)? ",
    r"\b(?:left |right )?(?:upper|lower|middle|mid|basilar|bibasilar|apical|perihilar|retrocardiac|lateral|posterior) "
    r"(?:lobe |lung |zone )?",
    r" (?:in|at|on|within|of) the (?:left|right)\b[^.,;]*",
    r"\b(?:calcified|displaced|healed|loculated|patchy|hazy|linear|streaky|nodular|dual-lead|focal) ",
)
_NUMBER_WORDS = {"two": "four", "three": "six", "four": "two", "five": "two", "six": "three"}
_RELATIVE = (  # the first three use words of Appendix B's list
    lambda text: text.rstrip(".") + ", unchanged from the previous study.",
    lambda text: text.rstrip(".") + ", with interval worsening.",
    lambda text: "Compared with the last radiograph: " + text,
    lambda text: text.rstrip(".") + ", as before.",
    lambda text: text.rstrip(".") + ", which has increased since then.",
    lambda text: text.rstrip(".") + ", more than on the earlier film.",
)


def inject_error(kind: str, pair_id: str, answer: str, others: Sequence[str] = ()) -> str | None:
    """`answer` with an error of `kind`, or None if it does not apply. Deterministic for a `pair_id`.

    Args:
        others: answers of other studies that are wrong for this one, for the kind `ANOTHER`.
    """
    if kind == ANOTHER:
        others = [other for other in others if _fold(other) != _fold(answer)]
        return others[_draw(pair_id, len(others))] if others else None
    changed = _EDITS[kind](answer, pair_id)
    return changed if changed is not None and _fold(changed) != _fold(answer) else None


def _negate(answer: str, _: str) -> str | None:
    lead, rest = _split_lead(answer)
    sentences = re.split(r"(?<=\.) ", rest)
    for place, sentence in enumerate(sentences):
        for pattern, replacement in _NEGATIONS:
            if pattern.search(sentence):
                sentences[place] = pattern.sub(replacement, sentence, count=1)
                turned = {"yes, ": "No, ", "no, ": "Yes, "}.get(lead.lower(), "")
                text = " ".join(sentences)
                return turned + (text if turned else text[:1].upper() + text[1:])
    return None


def _swap_sides(answer: str, _: str) -> str | None:
    swapped = re.sub(
        r"\b(left|right)\b", lambda match: _like(match[0], _OTHER_SIDE[match[0].lower()]), answer, flags=re.I
    )
    return swapped if swapped != answer else re.sub(r"\bbilateral\b", "left", answer, count=1)


def _drop_detail(answer: str, pair_id: str) -> str | None:
    """Remove the last sentence, or one detail."""
    sentences = re.split(r"(?<=[a-z)]\.) (?=[A-Z])", answer)
    ways = [" ".join(sentences[:-1])] if len(sentences) > 1 else []
    for pattern in _DETAILS:
        if match := re.search(pattern, answer, re.IGNORECASE):
            text = answer[: match.start()] + answer[match.end() :]
            ways.append(text[:1].upper() + text[1:])
    return ways[_draw(pair_id, len(ways))] if ways else None


def _change_number(answer: str, _: str) -> str | None:
    if re.search(r"\d", answer):
        return re.sub(r"\d", lambda match: str((int(match[0]) + 3) % 10 or 5), answer, count=1)
    pattern = rf"\b({'|'.join(_NUMBER_WORDS)})\b"
    return re.sub(pattern, lambda match: _like(match[0], _NUMBER_WORDS[match[0].lower()]), answer, count=1, flags=re.I)


def _make_relative(answer: str, pair_id: str) -> str:
    return _RELATIVE[_draw(pair_id, len(_RELATIVE))](answer)


_OTHER_SIDE = {"left": "right", "right": "left"}
_EDITS: dict[str, Callable[[str, str], str | None]] = {
    NEGATED: _negate,
    SIDE: _swap_sides,
    DROPPED: _drop_detail,
    NUMBER: _change_number,
    RELATIVE: _make_relative,
}


def _split_lead(answer: str) -> tuple[str, str]:
    match = re.match(r"(?:yes|no), ", answer, re.IGNORECASE)
    return (match[0], answer[match.end() :]) if match else ("", answer)


def _like(model: str, word: str) -> str:
    return word.capitalize() if model[0].isupper() else word


def _fold(text: str) -> str:
    return " ".join(text.lower().split())


def _draw(pair_id: str, ways: int) -> int:
    return int(digest(f"plant/{pair_id}")[:12], 16) % ways
