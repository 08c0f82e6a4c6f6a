"""Rows as conversations in TRL's format: the column `images`, and `prompt` with `completion`, or `messages`.

    prompt      [{"role": "user", "content": [{"type": "image"}, …, {"type": "text", "text": question}]}]
    completion  [{"role": "assistant", "content": [{"type": "text", "text": answer}]}]
    messages    the same, question after question, with the images before the first

A content is stored as JSON. As an Arrow struct, image parts would come back with a `"text": None` that TRL does not
expect.
"""

import json
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from datasets import Features, Json, List, Value

MESSAGES = List({"role": Value("string"), "content": Json()})
_MESSAGES_TYPE = Features({"messages": MESSAGES}).arrow_schema.field("messages").type
_USER, _ASSISTANT = "user", "assistant"


def prompts(questions: Iterable[str], image_counts: Iterable[int]) -> pa.ListArray:
    """One user message per question: its image parts, then the text."""
    return _single_messages(_USER, [_content(text, count) for text, count in zip(questions, image_counts, strict=True)])


def completions(answers: Iterable[str]) -> pa.ListArray:
    """An assistant message for each answer."""
    return _single_messages(_ASSISTANT, [_content(answer) for answer in answers])


def conversations(
    questions: Sequence[str], answers: Sequence[str], offsets: np.ndarray, image_counts: Sequence[int]
) -> pa.ListArray:
    """A conversation of several questions and answers per row.

    Args:
        questions, answers: of all rows, one after the other.
        offsets: (rows + 1,) start of each row's questions, and the end.
        image_counts: number of images of each row.
    """
    counts = np.zeros(len(questions), int)
    counts[offsets[:-1]] = image_counts
    turns = zip(questions, answers, counts.tolist(), strict=True)
    contents = [part for question, answer, count in turns for part in (_content(question, count), _content(answer))]
    return _messages([_USER, _ASSISTANT] * len(questions), contents, 2 * offsets)


def _content(text: str, image_count: int = 0) -> str:
    return json.dumps([{"type": "image"}] * image_count + [{"type": "text", "text": text}], ensure_ascii=False)


def _single_messages(role: str, contents: list[str]) -> pa.ListArray:
    return _messages([role] * len(contents), contents, np.arange(len(contents) + 1))


def _messages(roles: list[str], contents: list[str], offsets: np.ndarray) -> pa.ListArray:
    message = _MESSAGES_TYPE.value_type
    stored = pa.ExtensionArray.from_storage(message.field("content").type, pa.array(contents, pa.string()))
    structs = pa.StructArray.from_arrays([pa.array(roles, pa.string()), stored], fields=list(message))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), structs, type=_MESSAGES_TYPE)
