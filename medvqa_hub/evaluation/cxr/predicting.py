"""`medvqa-hub predict`: answers to unanswered questions.

    OUT/predictions.jsonl    every answer as it is generated, from which an interrupted run resumes
    OUT/answers.jsonl        a line per question, in the order of the questions, below a line with the governance class
    OUT/answers.csv          the same as a table: qa_id, study_id, question, prediction, error, governance

`evaluate cxr --predictions` reads both files of answers. They are written when all questions have an answer or a
reason why there is none.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.files import atomic_file, make_folder
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import write_json_lines
from medvqa_core.runs.predictions import FILE, Prediction
from medvqa_hub.evaluation.cxr.answer_sources import open_source
from medvqa_hub.evaluation.cxr.generating import digest_images
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions
from medvqa_hub.evaluation.cxr.question_files import Questions, open_questions
from medvqa_hub.launching import ProcessGroup

JSON_LINES, CSV = "answers.jsonl", "answers.csv"
COLUMNS = ("qa_id", "study_id", "question", "prediction", "error", "governance")


def predict_cxr(out: Path, data: DataOptions, answers: AnswerOptions) -> dict[str, Any]:
    """Answer the questions, write the files and return counts: `questions`, `answered`, `failed`, `asked`.

    Raises:
        ConfigError, InputError, OutputError, GovernanceError, ServerError: as `open_questions` and `evaluate_cxr`.
    """
    if answers.predictions is not None:
        raise ConfigError("predict generates answers, so it does not take --predictions. Use evaluate cxr.")
    questions = open_questions(data)
    studies = questions.data.studies
    source = open_source(answers, questions.data, out, ProcessGroup())
    governance = strictest([questions.data.governance, source.governance])
    make_folder(out, governance.private)
    found, counts = source.predict(studies, out / FILE, governance, digest_images(studies))
    by_id = {
        row["qa_id"]: prediction
        for study, of_study in zip(studies, found, strict=True)
        for row, prediction in zip(study.rows, of_study, strict=True)
    }
    rows = list(_make_rows(questions, by_id, governance))
    _write(rows, out, governance, str(source.model.get("name")))
    failed = sum(row["error"] is not None for row in rows)
    return {"questions": len(rows), "answered": len(rows) - failed, "failed": failed, "asked": counts["asked"]}


def _make_rows(
    questions: Questions, found: dict[str, Prediction], governance: Governance
) -> Iterator[dict[str, str | None]]:
    for id, (study_id, question) in questions.order.items():
        prediction = found.get(id)
        answer, error = (prediction.answer, prediction.error) if prediction else (None, questions.unusable[id])
        values = (id, str(study_id), question, answer, error, str(governance))
        yield dict(zip(COLUMNS, values, strict=True))


def _write(rows: list[dict[str, str | None]], out: Path, governance: Governance, model: str) -> None:
    header = {"store": 1, "kind": "answers", "governance": str(governance), "model": model}
    lines = ({name: row[name] for name in COLUMNS[:-1]} for row in rows)
    write_json_lines(out / JSON_LINES, [header, *lines], private=governance.private)
    with atomic_file(out / CSV, "w", governance.private) as file:
        # Everything is quoted, because the csv module does not quote a carriage return, at which readers end the row.
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n", quoting=csv.QUOTE_ALL)
        table.writeheader()
        table.writerows(rows)
