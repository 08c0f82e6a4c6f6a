"""Clinical-reasoning questions as the released JSON lines, in and out."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from medvqa_core.errors import InputError
from medvqa_core.files import atomic_file
from rjua_meddqa.schema import MULTIPLE_CHOICE, REASONING_TASKS, SHORT_ANSWER


@dataclass(frozen=True, slots=True)
class ReasoningQuestion:
    """One question. `context` is the passage given with it, `context_id` its contexts' ids, like "5;7;9"."""

    img_path: str
    question: str
    answer: str
    task: str
    answer_type: str
    context: str
    image_type: str
    image_quality: str
    context_id: str


REASONING_COLUMNS = tuple(field.name for field in fields(ReasoningQuestion))


def read_reasoning(path: Path) -> list[ReasoningQuestion]:
    """The questions of a file; columns that are not ours are left out.

    Raises:
        InputError: the file is missing, or a line is no JSON object with these columns, as text, and known types.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error}); check the path") from None
    lines = enumerate(text.split("\n"), start=1)  # not splitlines: U+2028 may stand in a text
    return [_read_line(line, f"{path}, line {number}") for number, line in lines if line.strip()]


def write_reasoning(questions: Iterable[ReasoningQuestion], path: Path) -> None:
    """Write `questions` as JSON lines. Raises OutputError where the file cannot be written."""
    with atomic_file(path) as file:
        for question in questions:
            file.write(json.dumps(asdict(question), ensure_ascii=False).encode("utf-8") + b"\n")


def _read_line(line: str, where: str) -> ReasoningQuestion:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid JSON ({error}); correct or remove the line") from None
    for name in REASONING_COLUMNS:
        if not isinstance(record, dict) or not isinstance(record.get(name), str):
            raise InputError(f"{where}: no text in {name!r}; a question has {', '.join(REASONING_COLUMNS)}")
    for name, allowed in (("task", REASONING_TASKS), ("answer_type", (MULTIPLE_CHOICE, SHORT_ANSWER))):
        if record[name] not in allowed:
            raise InputError(f"{where}: {name} {record[name]!r} is unknown; allowed: {', '.join(allowed)}")
    return ReasoningQuestion(**{name: record[name] for name in REASONING_COLUMNS})
