"""Turns QA rows into conversations for TRL and other trainers of image-text models (the config `chat`).

A row is a question (`turns="question"`: `prompt` and `completion`) or a study with all its questions
(`turns="study"`: `messages`). Rows refer to the study's image files, which are decoded when a row is read.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Features, Image, List, Value

from medvqa_core.chat_rows import MESSAGES, completions, conversations, prompts

TURNS = ("question", "study")
_OF_STUDY = {"subject_id": Value("int64"), "study_id": Value("int64"), "image_paths": List(Value("string"))}
# QA column -> its name in a chat row, which is also the argument that TRL passes to a reward
_OF_QUESTION = {"answer": "ground_truth", **{name: name for name in ("question", "category", "label_value", "qa_id")}}


def chat_features(turns: str) -> Features:
    """Return the features of the config."""
    text = Value("string")
    messages = {"prompt": MESSAGES, "completion": MESSAGES} if turns == "question" else {"messages": MESSAGES}
    of_question = text if turns == "question" else List(text)
    columns = dict.fromkeys(_OF_QUESTION.values(), of_question)
    return Features({"images": List(Image()), **messages, **columns, **_OF_STUDY})


def answered(rows: pa.Table) -> pa.Table:
    """Return the rows (QA_SCHEMA) that have an answer."""
    return rows.filter(pc.fill_null(pc.not_equal(rows["answer"], ""), False))


def chat_rows(rows: pa.Table, turns: str) -> pa.Table:
    """Return the conversations of `rows` (QA_SCHEMA, answered, images resolved, whole studies for `study`)."""
    rows = rows.combine_chunks()
    questions, answers = rows["question"].to_pylist(), rows["answer"].to_pylist()
    images = pc.list_value_length(rows["images"]).to_pylist()
    if turns == "question":
        columns = {"prompt": prompts(questions, images), "completion": completions(answers)}
        columns |= {name: rows[ours] for ours, name in _OF_QUESTION.items()}
        studies = rows
    else:
        ids = rows["study_id"].to_numpy()
        starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1))
        offsets = np.append(starts, len(ids))
        messages = conversations(questions, answers, offsets, [images[start] for start in starts])
        lists = pa.array(offsets.astype(np.int32))
        columns = {"messages": messages}
        for ours, name in _OF_QUESTION.items():
            columns[name] = pa.ListArray.from_arrays(lists, rows[ours].combine_chunks())
        studies = rows.take(pa.array(starts))
    columns |= {name: studies[name] for name in ("images", *_OF_STUDY)}
    schema = chat_features(turns).arrow_schema
    return pa.table([columns[name] for name in schema.names], schema=schema)
