"""The questions of an audit as a file, for models that are asked elsewhere, and the answers that come back.

`questions.jsonl` is read by `medvqa-hub predict`. Its images are grey PNG files of at most 512 pixels on their shorter
side, in `images/`. The condition without images is left out.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medvqa_core.governance import Governance
from medvqa_core.json_files import write_json_lines
from medvqa_hub.evaluation.answer_files import NO_ANSWER, RecordedAnswers, read_answer_file
from medvqa_hub.evaluation.cxr.audit_conditions import NO_IMAGES
from medvqa_hub.evaluation.cxr.audit_images import UNCHANGED, ImageWriter
from medvqa_hub.evaluation.cxr.studies import Study

FILE, KIND = "questions.jsonl", "audit-questions"
Conditions = Mapping[str, Mapping[int, Study]]


def write_questions(conditions: Conditions, out: Path, writer: ImageWriter, governance: Governance) -> Path:
    """Write all questions and the images that they need into `out`. Returns the file."""

    def rows() -> Iterator[dict[str, Any]]:
        yield {"kind": KIND, "governance": str(governance)}
        for name, studies in conditions.items():
            for study in studies.values() if name != NO_IMAGES else ():
                images = [_name_image(path, out, writer) for path in study.images]
                shared = {"images": images, "views": list(study.views), "indication": study.indication}
                for row in study.rows:
                    yield {"id": row["qa_id"], "study_id": study.study_id, "question": row["question"], **shared}

    write_json_lines(out / FILE, rows(), private=governance.private)
    return out / FILE


def _name_image(path: Path | None, out: Path, writer: ImageWriter) -> str:
    if path is None:
        path = writer.write_blank()
    elif path.parent != writer.folder:
        path = writer.write(path, UNCHANGED) or path
    return path.relative_to(out).as_posix()


def open_answers(path: Path, conditions: Conditions) -> tuple[RecordedAnswers, Conditions, Governance | None]:
    """The answers in a file, and the conditions of which it has some. Raises InputError as `read_answer_file`."""
    ids = [row["qa_id"] for studies in conditions.values() for study in studies.values() for row in study.rows]
    file = read_answer_file(path, dict.fromkeys(ids))
    answered = {id.partition("@")[2] or "own" for id, reply in file.replies.items() if reply.error != NO_ANSWER}
    kept = {name: studies for name, studies in conditions.items() if name in answered or name == "own"}
    return RecordedAnswers(file), kept, file.governance
