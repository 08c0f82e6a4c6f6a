"""Answers that were made elsewhere, by question id: `evaluate … --predictions FILE`.

    predictions.jsonl, scored.jsonl    of this package
    JSON lines                         an id and an answer a line, under any of the names below
    lmms-eval                          the samples of --log_samples
    VLMEvalKit                         its prediction file (XLSX or TSV), made from `export vlmevalkit`
    CSV                                columns of id and answer

What a harness writes in place of an answer is a failure; so is a question that the file does not have, or has with
several answers. Ids that no question has are counted and named, and otherwise ignored.

The class of what is made of a file is that of the data at least. A file makes it stricter: by the class in its first
line, by that of `results.json` beside it where it is a file of a run of ours, and by ids of MIMIC's range. Of a file
that says nothing more, nobody but its owner knows which model wrote it, and on what that was trained.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from medvqa_core.csv_files import CELL_LIMIT, iterate_cells
from medvqa_core.digests import digest_file
from medvqa_core.errors import InputError, one_line
from medvqa_core.governance import Governance, parse, strictest
from medvqa_core.json_files import read_object
from medvqa_core.json_lines import parse_line, read_lines
from medvqa_core.llm.completions import is_unicode
from medvqa_core.llm.engines import Reply
from medvqa_core.minimum_class import minimum_class_for_ids
from medvqa_core.workbooks import workbook_rows

IDS = ("qa_id", "id", "question_id")
ANSWERS = (
    "prediction",
    "filtered_resps",
    "model_answer",
    "response",
    "answer",
)  # VLMEvalKit's `answer` is the truth
POSITIONS = ("doc_id", "index")  # the number of the question, from 0, where there is no id
FAILURES_BEGIN = ("[LMMS_EVAL_REQUEST_FAILED", "Failed to obtain answer via API")  # lmms-eval, VLMEvalKit
FAILURES = ("ERROR",)  # RJUA-MedDQA's scripts
NO_ANSWER, FAILED = "the file has no answer to this question", "the harness's request failed"
NAMED = 5
KIND = "predictions"
RESULTS = "results.json"
_OF_A_RUN = re.compile(r"predictions\.jsonl|scored(-[a-z]+)?\.jsonl")


@dataclass(frozen=True)
class AnswerFile:
    """Attributes:
    replies: by question id; every question has one.
    counts: rows of the file; questions that are `missing` in it or `doubled` there; rows of `unknown` ids; a
        harness's `failures`.
    named: the first ids of each kind.
    governance: the class that the file states, its run or its ids; None where they state none.
    """

    path: Path
    digest: str
    replies: Mapping[str, Reply]
    counts: Mapping[str, int]
    named: Mapping[str, list[str]]
    governance: Governance | None


def read_answer_file(path: Path, references: Mapping[str, str | None]) -> AnswerFile:
    """The answers of a file to the questions with these ids.

    Args:
        references: the questions' ids, in the order of the dataset, with their reference answers: a file that counts
            its rows has to state the same ones, or it is of another dataset.

    Raises:
        InputError: no such file, not readable as any of the kinds, or of other questions altogether.
        ConfigError: XLSX, and openpyxl is missing.
        GovernanceError: the file, or the results beside it, state a class that is unknown.
    """
    ids, found, unknown, rows = list(references), {}, [], 0
    stated = _classes_beside(path)
    for row in _rows(path):
        if "store" in row and "governance" in row:  # the header of our predictions
            stated.append(parse(str(row["governance"]), str(path)))  # files that were joined have several
            continue
        rows += 1
        id = _id_of(row, ids, references, path)
        if id not in references:
            unknown.append(id)
        else:
            found.setdefault(id, []).append(_reply_of(row, path))
    if not found:
        raise InputError(
            f"{path}: none of its {rows} rows is about these questions (ids such as {unknown[:1] or 'none'}; the "
            f"questions have {ids[:1]}); is it of this dataset and split?"
        )
    if minimum_class_for_ids([*found, *unknown]) is not Governance.OPEN:
        stated.append(Governance.CREDENTIALED)
    doubled = [id for id, replies in found.items() if len(replies) > 1]
    replies = {id: _one_of(found.get(id, [])) for id in ids}
    missing = [id for id in ids if id not in found]
    failed = [id for id, replies in found.items() if any(reply.error == FAILED for reply in replies)]
    named = {"missing": missing, "doubled": doubled, "unknown": unknown, "failures": failed}
    counts = {"rows": rows, **{kind: len(of) for kind, of in named.items()}}
    first = {kind: of[:NAMED] for kind, of in named.items()}
    return AnswerFile(path, digest_file(path)[:16], replies, counts, first, strictest(stated) if stated else None)


def _classes_beside(path: Path) -> list[Governance]:
    """What the results of a run of ours say of its files, of which only the predictions have a first line."""
    results = path.parent / RESULTS
    if not _OF_A_RUN.fullmatch(path.name) or not results.is_file():
        return []
    return [parse(str(read_object(results, "restore the run's folder").get("governance")), str(results))]


class RecordedAnswers:
    """An engine that knows the answers of a file, for questions of either dataset."""

    endpoint = None
    in_flight = 1
    reads_pages = False

    def __init__(self, file: AnswerFile, tasks: frozenset[str] = frozenset()) -> None:
        self.file, self.tasks = file, tasks
        self.name = file.path.name
        self.settings = {"engine": KIND, "file": self.name, "digest": file.digest}
        self.asking = {"file": {"counts": dict(file.counts), "named": dict(file.named)}}

    @property
    def described(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What results say of it."""
        return {"name": self.name, "kind": KIND, "fingerprint": self.file.digest}, self.asking

    def content(self, _study: Any, row: Mapping[str, Any]) -> dict[str, Any]:
        """An answer belongs to its row, not to what is asked."""
        return {"id": row["qa_id"]}

    def asked_as(self, request: Any) -> dict[str, Any]:
        """The same, of a question about a report image."""
        return {"id": request.id}

    async def answer(self, requests: Sequence[Any]) -> list[Reply]:
        """See `Engine.answer`."""
        return [self.file.replies[request.id] for request in requests]


def _one_of(replies: list[Reply]) -> Reply:
    if not replies:
        return Reply(None, NO_ANSWER)
    different = len(set(replies))
    return replies[0] if different == 1 else Reply(None, f"the file has {different} answers to this question")


def _id_of(row: Mapping[str, Any], ids: Sequence[str], references: Mapping[str, str | None], path: Path) -> str:
    """The row's id: its own, one that a metric of lmms-eval recorded, or the one at its position."""
    nested = [value for value in row.values() if isinstance(value, dict)]
    for place in (row, *nested):
        for name in IDS:
            if place.get(name) not in (None, ""):
                return str(place[name])
    for name in POSITIONS:
        text = str(row.get(name, "")).strip()
        if text.isdecimal():
            if int(text) >= len(ids):
                return f"{name} {text}"
            id = ids[int(text)]
            stated = row.get("target", row.get("answer") if "prediction" in row else None)
            if stated is not None and str(stated).strip() != str(references[id] or "").strip():
                raise InputError(
                    f"{path}: the reference of {name} {text} is not that of question {id}: the file is of another "
                    "dataset, split or order; give one with ids"
                )
            return id
    raise InputError(f"{path}: a row without an id; allowed names: {', '.join((*IDS, *POSITIONS))}")


def _reply_of(row: Mapping[str, Any], path: Path) -> Reply:
    name = next((name for name in ANSWERS if name in row), None)
    if name is None:
        raise InputError(f"{path}: a row without an answer; allowed names: {', '.join(ANSWERS)}")
    value = row[name]
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or row.get("error") or (isinstance(value, float) and not isfinite(value)):
        return Reply(None, one_line(str(row.get("error") or NO_ANSWER)))
    if not isinstance(value, str | int | float):
        raise InputError(f"{path}: an answer is a {type(value).__name__}; allowed are texts")
    text = str(value).strip()
    if not is_unicode(text):
        return Reply(None, "half characters: no text")
    return Reply(None, FAILED) if is_failure(text) else Reply(text)


def is_failure(text: str) -> bool:
    """Whether a text is what a harness writes in place of an answer."""
    return text in FAILURES or text.startswith(FAILURES_BEGIN)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    kind = path.suffix.lower()
    if kind in (".jsonl", ".json"):
        return _json_rows(path)
    if kind == ".csv":
        return (dict(cells) for _, cells in iterate_cells(path, ()))
    if kind == ".tsv":
        return _tab_rows(path)
    if kind == ".xlsx":
        return _sheet_rows(path)
    raise InputError(f"{path}: predictions are read from .jsonl, .csv, .tsv and .xlsx files")


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in read_lines(path):
        row = parse_line(line.decode("utf-8", "surrogateescape"), f"{path}, line {number}")
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: no JSON object; a prediction is one a line")
        yield row


def _tab_rows(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(CELL_LIMIT)
    with _opened(path) as file:
        try:
            for number, row in enumerate(csv.DictReader(file, delimiter="\t"), start=1):
                if None in row or None in row.values():
                    raise InputError(
                        f"{path}, row {number}: another number of fields than the header; correct the tabs"
                    )
                yield row
        except csv.Error as error:
            raise InputError(f"{path}: not readable as TSV ({error}); write it again") from None


def _sheet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of the first sheet. What a spreadsheet program took for a formula, or could not work out, is None."""
    rows = workbook_rows(path)
    header = [str(cell.value) for cell in next(rows, ())]
    doubled = [name for name, count in Counter(header).items() if count > 1]
    if doubled:
        raise InputError(f"{path}: column {doubled[0]!r} occurs twice")
    for cells in rows:
        if any(cell.value is not None for cell in cells):
            yield {name: _value_of(cell) for name, cell in zip(header, cells, strict=False)}


def _value_of(cell: Any) -> Any:
    if cell.data_type in ("f", "e"):
        return None
    return "" if cell.value is None else cell.value


def _opened(path: Path) -> Any:
    try:
        return open(path, encoding="utf-8", newline="", errors="surrogateescape")  # such an answer is a failure
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check --predictions") from None
