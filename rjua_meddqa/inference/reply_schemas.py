"""JSON schemas of replies, for servers that enforce them: an enum of options or verdicts, or an array of strings.

Replies of other servers are read by `replies.py`.
"""

import re
from typing import Any

from medvqa_core.llm.chat import object_schema
from rjua_meddqa.schema import MULTIPLE_CHOICE

_OPTIONS = re.compile(r"选项\s*[:：]")
_OPTION = re.compile(r"(?:^|[;；\n])\s*([A-Z])\s*[.．、:：]\s*")
VERDICTS = ("正常", "异常", "无法判断")


def read_options(question: str) -> dict[str, str]:
    """Return {letter: text} of a question's options, in order, as in the released 选项:A.text;B.text."""
    found = _OPTIONS.search(question)
    if found is None:
        return {}
    _, *pieces = _OPTION.split(question[found.end() :].strip())
    return {letter: text.strip() for letter, text in zip(pieces[::2], pieces[1::2], strict=True)}


def reply_schema(question: str, answer_type: str) -> dict[str, Any] | None:
    """Return the schema of a reply to `question`, or None where the answer is one free text."""
    if answer_type == MULTIPLE_CHOICE:
        options = [f"{letter}.{text}" for letter, text in read_options(question).items()]
        return object_schema(answer={"type": "string", "enum": options}) if options else None
    if answer_type == "single_nr":
        return object_schema(answer={"type": "string", "enum": list(VERDICTS)})
    if answer_type.startswith("multi"):
        return object_schema(answer={"type": "array", "items": {"type": "string"}})
    return None
