"""When an answer is asked for again, and what the model is told then: the rules it broke, or why nothing was read.

Both ways of asking, a server and batch files, decide here, from what a record says: its error or broken rules, and how
often it was asked. The reason changes the request, so that a model that decodes greedily is not asked the same twice.
"""

from collections.abc import Sequence
from dataclasses import replace

from mimic_cxr_vqa.generation.engines import AnswerRequest
from mimic_cxr_vqa.generation.lint import RULES

MAX_ATTEMPTS = 3  # the first try and at most two re-asks with the reason named
ATTEMPTS_AT_LENGTH = 2  # who runs on after being told to be brief does so again, at the full price of a reply

_BROKEN = "\n\nAn earlier answer to this broke these rules: {rules}. Keep them this time."
_FAMILIES = {
    "prohibited": 'do not use "{word}" or its forms',
    "report_reference": "speak of the image, not of a report ({word})",
    "verb": 'do not write "{word}"',
}
_UNREAD = "\n\nAn earlier reply to this could not be used: {reason}. {remedy}"
_UNREAD_TWICE = "\n\nTwo earlier replies to this were of no use, the last one because {reason}. {remedy}"
_WHOLE = "Reply with the one JSON object that is asked for, whole, and nothing else."
_BRIEF = "Be brief, and reply with the one JSON object that is asked for."
_HERE = "Answer the question above from the findings above, in the one JSON object that is asked for."

_CUT = ("finish_reason=length", "cut by the token limit")
# How an error begins -> what is told of it, and what to do. An error that is not here is no reply of the model's: the
# server refused the request (too long, …) or broke at it, and would again.
UNREAD: dict[str, tuple[str, str]] = {
    "empty reply": ("it was empty", _WHOLE),
    "nothing but thoughts": ("it held thoughts and no answer", _BRIEF),
    **dict.fromkeys(_CUT, ("it was longer than is allowed", _BRIEF)),
    **dict.fromkeys(("a reply of ", "an answer of more than "), ("it was much too long", _BRIEF)),
    "a reply with half characters": ("it held broken characters", _WHOLE),
    "broken JSON objects": ("it held broken JSON objects", _WHOLE),
    "a name stands twice in the JSON object": ("its JSON object held a name twice", _WHOLE),
    "the JSON object is cut off": ("its JSON object was cut off", _WHOLE),
    "the JSON object is nested too deeply": ("its JSON object was nested too deeply", _WHOLE),
    "no JSON object in ": ("it held no JSON object", _WHOLE),
    "'answer' is ": ('its JSON object held no text under "answer"', _WHOLE),
    "the answer is empty": ("its answer was empty", _HERE),
    "the reply answers another question": ("it answered another question", _HERE),
    "the model refused": ("it refused, and nothing but what the findings say is asked for", _HERE),
    "the server's reply is no chat completion": ("it did not arrive", _WHOLE),
    "no single answer to it in a reply to ": ("it held no single answer to this question", _HERE),
}
TEXTS = "\0".join((_BROKEN, _UNREAD, _UNREAD_TWICE, *(text for told in UNREAD.values() for text in told)))


def ask_again(request: AnswerRequest, error: str | None, broken: Sequence[str], attempt: int) -> AnswerRequest | None:
    """The request that names what was wrong with the reply to attempt `attempt`; None where the reply stands.

    Args:
        error: why there is no answer, if there is none.
        broken: lint rules that the answer breaks.
    """
    if attempt >= (ATTEMPTS_AT_LENGTH if error is not None and error.startswith(_CUT) else MAX_ATTEMPTS):
        return None
    failure = None if error is None else next((start for start in UNREAD if error.startswith(start)), None)
    if failure is None and not broken:
        return None
    return replace(request, violations=tuple(broken), failure=failure, attempt=attempt + 1)


def say_again(request: AnswerRequest) -> str:
    """What stands behind the question when it is asked again; nothing the first time."""
    if request.failure is not None:
        reason, remedy = UNREAD[request.failure]
        return (_UNREAD if request.attempt <= 2 else _UNREAD_TWICE).format(reason=reason, remedy=remedy)
    return _BROKEN.format(rules="; ".join(map(_say, request.violations))) if request.violations else ""


def _say(rule: str) -> str:
    family, _, word = rule.partition(":")
    return _FAMILIES[family].format(word=word) if family in _FAMILIES else f"the answer was {rule}"


assert all(rule.partition(":")[0] in _FAMILIES for rule, _ in RULES)
