"""When a question is asked again, and what the prompt adds then: the broken rules, or why the reply was unreadable.

Servers and batch files share these rules. Naming the reason changes the request, so that greedy decoding does not
return the same reply.
"""

from collections.abc import Sequence
from dataclasses import replace

from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.lint import RULES

MAX_ATTEMPTS = 3
ATTEMPTS_AT_LENGTH = 2  # a reply that was cut off costs its full length each time

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
# Start of an error -> the reason and the remedy that the prompt names. Other errors come from the server (the prompt is
# too long, ...), and asking again would not help.
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
# Part of the prompt version: changing a text above makes a new prompt.
TEXTS = "\0".join((_BROKEN, _UNREAD, _UNREAD_TWICE, *(text for told in UNREAD.values() for text in told)))


def make_retry(request: AnswerRequest, error: str | None, broken: Sequence[str], attempt: int) -> AnswerRequest | None:
    """The request that names what was wrong with attempt `attempt`, or None to keep the reply.

    Args:
        error: why the reply does not contain an answer, if it does not.
        broken: lint rules that the answer breaks.
    """
    if attempt >= (ATTEMPTS_AT_LENGTH if error is not None and error.startswith(_CUT) else MAX_ATTEMPTS):
        return None
    failure = None if error is None else next((start for start in UNREAD if error.startswith(start)), None)
    if failure is None and not broken:
        return None
    return replace(request, violations=tuple(broken), failure=failure, attempt=attempt + 1)


def retry_note(request: AnswerRequest) -> str:
    """The text that follows the question when it is asked again. Empty for a first attempt."""
    if request.failure is not None:
        reason, remedy = UNREAD[request.failure]
        return (_UNREAD if request.attempt <= 2 else _UNREAD_TWICE).format(reason=reason, remedy=remedy)
    return _BROKEN.format(rules="; ".join(map(_describe, request.violations))) if request.violations else ""


def _describe(rule: str) -> str:
    family, _, word = rule.partition(":")
    return _FAMILIES[family].format(word=word) if family in _FAMILIES else f"the answer was {rule}"


assert all(rule.partition(":")[0] in _FAMILIES for rule, _ in RULES)
