"""Finds the JSON object in a model's reply, whether plain, in prose, in fences or after thoughts.

The last object counts, because models write drafts before it. Nothing is repaired: the missing part of a truncated
object could be a "no".
"""

import json
import re
from typing import Any

from medvqa_core.errors import MedvqaError
from medvqa_core.json_lines import RepeatedNameError, reject_repeated_names

_TAG = re.compile(r"<(/?)(think|thinking)>", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\b(?:i(?:['’]m| am) (?:sorry|unable|not able)|i (?:can(?:no|['’])t|won['’]t|must decline)|as an ai\b)",
    re.IGNORECASE,
)
_REFUSAL_CHINESE = re.compile(
    r"(?:抱歉|对不起)[^。\n]{0,20}(?:无法|不能|没法)|作为(?:一个|一名|一款)?\s*(?:AI|人工智能|大?语言模型)"
    r"|\A我?(?:无法|不能|没法)(?:查看|看到|看清|识别|读取|访问|打开|提供|回答)"
    r"|\A我?(?:无法|不能|没法)从[^，。\n]{0,20}(?:判断|确定|得知|得出|获取|看出)"
)
_BEGINS = re.compile(r'\{\s*(?:["}]|\Z)')
MOST_BROKEN = 1000  # objects of a reply that do not decode, to bound the time
MAX_CHARACTERS = 200_000  # of a reply, to bound the time


# Half of a surrogate pair, which JSON may contain and UTF-8 may not, and control characters but tab and line ends.
_NOT_TEXT = re.compile(r"[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
NOT_STORABLE = "a reply with half characters or control characters: no text"


class ReplyError(MedvqaError):
    """A reply cannot be used. The message does not quote it."""


_DECODER = json.JSONDecoder(parse_constant=lambda name: None, object_pairs_hook=reject_repeated_names)


def split_reasoning(text: str) -> tuple[str | None, str]:
    """The thoughts of a reply (`<think>…</think>`, possibly unclosed) and the rest."""
    thoughts, rest = [], []
    opened, end = None, 0  # the tag of an open thought, and where the latest thought ended
    for tag in _TAG.finditer(text):
        is_end, name = bool(tag[1]), tag[2].lower()
        if opened is None and not is_end:
            rest.append(text[end : tag.start()])
            opened = tag
        elif opened is not None and is_end and name == opened[2].lower():
            end, start, opened = tag.end(), opened.start(), None
            thoughts.append(text[start:end])
        elif is_end and opened is None and not thoughts:  # templates that open the thought themselves
            end = tag.end()
            thoughts.append(text[:end])
    (thoughts if opened else rest).append(text[opened.start() if opened else end :])
    return "\n".join(thoughts) or None, "".join(rest).strip()


def is_storable(value: Any) -> bool:
    """Whether the texts in a JSON value can be written as UTF-8 and lack control characters."""
    if isinstance(value, dict):
        return all(is_storable(part) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return all(map(is_storable, value))
    return not isinstance(value, str) or _NOT_TEXT.search(value) is None


def is_refusal(text: str) -> bool:
    """Whether a reply declines to answer, in English or Chinese."""
    return bool(_REFUSAL.search(text) or _REFUSAL_CHINESE.search(text))


def parse_object(text: str) -> dict[str, Any]:
    """The last complete JSON object of `text`, without thoughts. Raises ReplyError as `parse_objects`."""
    return parse_objects(text)[-1]


def parse_objects(text: str) -> list[dict[str, Any]]:
    """The complete JSON objects of `text`, without thoughts.

    Raises:
        ReplyError: the text is empty, a refusal, truncated within an object, or lacks an object.
    """
    _, rest = split_reasoning(text)
    if not rest:
        raise ReplyError("empty reply" if not text.strip() else "nothing but thoughts")
    if len(rest) > MAX_CHARACTERS:
        raise ReplyError(f"a reply of {len(rest)} characters; at most {MAX_CHARACTERS} are read")
    objects, is_cut = _find_objects(rest)
    if not is_storable(objects):
        raise ReplyError(NOT_STORABLE)
    if objects and not is_cut:
        return objects
    if is_cut:
        raise ReplyError("the JSON object is cut off")
    if is_refusal(rest):
        raise ReplyError("the model refused")
    raise ReplyError(f"no JSON object in {len(rest)} characters")


def _find_objects(text: str) -> tuple[list[dict[str, Any]], bool]:
    """The objects that decode, and whether a truncated one follows them."""
    objects: list[dict[str, Any]] = []
    position, is_cut, last = 0, False, len(text.rstrip())
    failed = 0
    while begin := _BEGINS.search(text, position):
        start = begin.start()
        try:
            value, position = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            is_cut = is_cut or (begin[0][-1] != "}" and _reaches_end(last, error))
            position, failed = start + 1, failed + 1
            if failed == MOST_BROKEN:
                raise ReplyError(f"broken JSON objects, {failed} of them") from None
        except RepeatedNameError:
            raise ReplyError("a name stands twice in the JSON object, with different values") from None
        except RecursionError:
            raise ReplyError("the JSON object is nested too deeply") from None
        else:
            objects.append(value)
            is_cut = False
    return objects, is_cut


def _reaches_end(last: int, error: json.JSONDecodeError) -> bool:
    return error.pos >= last or error.msg.startswith(("Unterminated string", "Invalid \\uXXXX"))


def read_text(found: dict[str, Any], name: str) -> str:
    """The text under `name`. Raises ReplyError if there is none."""
    value = found.get(name)
    if not isinstance(value, str):
        given = "missing" if name not in found else f"a {type(value).__name__}"
        raise ReplyError(f"{name!r} is {given} in the JSON object; a text is needed")
    return value.strip()
