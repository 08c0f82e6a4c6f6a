"""JSON schemas of replies, for servers that enforce them: an enum of options or verdicts, or an array of strings.

Replies of other servers are read by `replies.py`.
"""

from typing import Any

from rjua_meddqa.inference.choices import read_options
from rjua_meddqa.schema import MULTIPLE_CHOICE

VERDICTS = ("正常", "异常", "无法判断")


def reply_schema(question: str, answer_type: str) -> dict[str, Any] | None:
    """Return the schema of a reply to `question`, or None where the answer is one free text."""
    if answer_type == MULTIPLE_CHOICE:
        options = [f"{letter}.{text}" for letter, text in read_options(question).items()]
        return _object({"type": "string", "enum": options}) if options else None
    if answer_type == "single_nr":
        return _object({"type": "string", "enum": list(VERDICTS)})
    if answer_type.startswith("multi"):
        return _object({"type": "array", "items": {"type": "string"}})
    return None


def _object(answer: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"], "additionalProperties": False}
