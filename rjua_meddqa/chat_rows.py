"""The config `chat`: questions about report images as conversations for TRL.

The context of a clinical-reasoning question precedes it, as in the authors' scripts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from datasets import Features, Image, List, Value

from medvqa_core.chat_rows import MESSAGES, completions, prompts

_TEXT = Value("string")
# Names of the arguments of reward functions.
_COLUMNS = {
    **dict.fromkeys(("ground_truth", "question", "task", "answer_type", "img_path"), _TEXT),
    **dict.fromkeys(("image_type", "image_quality", "context", "context_id"), _TEXT),
    "unanswerable": Value("bool"),
}
CHAT_FEATURES = {"images": List(Image()), "prompt": MESSAGES, "completion": MESSAGES, **_COLUMNS}


def chat_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Convert questions of both kinds, with references to their image files."""
    schema = Features(CHAT_FEATURES).arrow_schema
    asked = [f"{row['context']}\n{row['question']}" if row["context"] else row["question"] for row in rows]
    columns = {
        "images": pa.array([[row["image"]] for row in rows], schema.field("images").type),
        "prompt": prompts(asked, [1] * len(rows)),
        "completion": completions([row["answer"] for row in rows]),
    }
    for name in _COLUMNS:
        ours = "answer" if name == "ground_truth" else name
        columns[name] = pa.array([row[ours] for row in rows], schema.field(name).type)
    return pa.table([columns[name] for name in schema.names], schema=schema)
