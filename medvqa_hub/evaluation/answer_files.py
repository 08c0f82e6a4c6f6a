"""Answers that were generated elsewhere, by question id: `evaluate … --predictions FILE`.

    predictions.jsonl, scored.jsonl, answers.jsonl, answers.csv    of this package
    JSON lines                         an id and an answer per line, under the names in IDS and ANSWERS
    lmms-eval                          the samples of --log_samples
    VLMEvalKit                         its file of predictions (XLSX or TSV) for `export vlmevalkit`
    CSV                                columns of id and answer

Error texts of a harness are failures, and so are questions without an answer or with different ones. Unknown ids are
counted and ignored.

The results have at least the class of the data. A file can make it stricter, by the class in its first line, by the
`results.json` next to it (files of our own runs), and by ids in MIMIC's range.
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
from medvqa_core.llm.engines import Reply
from medvqa_core.llm.json_reply import is_storable
from medvqa_core.minimum_class import minimum_class_for_ids
from medvqa_core.workbooks import workbook_rows

IDS = ("qa_id", "id", "question_id")
ANSWERS = ("prediction", "filtered_resps", "model_answer", "response", "answer")  # in VLMEvalKit, `answer` is the truth
POSITIONS = ("doc_id", "index")  # the number of the question from 0, without an id
FAILURES_BEGIN = ("[LMMS_EVAL_REQUEST_FAILED", "Failed to obtain answer via API")  # lmms-eval, VLMEvalKit
FAILURES = ("ERROR",)  # RJUA-MedDQA's scripts
NO_ANSWER, FAILED = "the file has no answer to this question", "the harness's request failed"
NAMED = 5
KIND = "predictions"
RESULTS = "results.json"
_RUN_FILE = re.compile(r"predictions\.jsonl|scored(-[a-z]+)?\.jsonl")


@dataclass(frozen=True)
class AnswerFile:
    """Attributes:
    replies: one for every question, by id.
    counts: rows of the file, `missing` and `doubled` questions, rows with `unknown` ids, and `failures` of the harness.
    named: the first ids of each kind.
    governance: the class that follows from the file, its run or its ids, or None.
    """

    path: Path
    digest: str
    replies: Mapping[str, Reply]
    counts: Mapping[str, int]
    named: Mapping[str, list[str]]
    governance: Governance | None


def read_answer_file(path: Path, references: Mapping[str, str | None]) -> AnswerFile:
    """Read the answers of a file to the questions with these ids.

    Args:
        references: the ids of the questions in the order of the dataset, with their reference answers. A file with
            positions instead of ids must have the same references.

    Raises:
        InputError: the file is missing, not readable, or has other questions.
        ConfigError: openpyxl is missing for XLSX.
        GovernanceError: the file or the results next to it state an unknown class.
    """
    ids, rows = list(references), 0
    found: dict[str, list[Reply]] = {}
    unknown: list[str] = []
    stated, classes = _read_run_class(path), set()
    for row in _rows(path):
        if row.get("governance"):  # in the header of our JSON lines, or a column
            classes.add(str(row["governance"]))
        if "store" in row:  # joined files have several headers
            continue
        rows += 1
        id = _parse_id(row, ids, references, path)
        if id not in references:
            unknown.append(id)
        else:
            found.setdefault(id, []).append(_parse_reply(row, path))
    stated += [parse(name, str(path)) for name in sorted(classes)]
    if not found:
        raise InputError(
            f"{path}: none of its {rows} rows is about these questions. It has ids such as {unknown[:1]}, but the "
            f"questions have ids such as {ids[:1]}. Check the dataset and the split."
        )
    if minimum_class_for_ids([*found, *unknown]) is not Governance.OPEN:
        stated.append(Governance.CREDENTIALED)
    doubled = [id for id, replies in found.items() if len(replies) > 1]
    replies = {id: _combine(found.get(id, [])) for id in ids}
    missing = [id for id in ids if id not in found]
    failed = [id for id, replies in found.items() if any(reply.error == FAILED for reply in replies)]
    named = {"missing": missing, "doubled": doubled, "unknown": unknown, "failures": failed}
    counts = {"rows": rows, **{kind: len(of) for kind, of in named.items()}}
    first = {kind: of[:NAMED] for kind, of in named.items()}
    return AnswerFile(path, digest_file(path)[:16], replies, counts, first, strictest(stated) if stated else None)


def _read_run_class(path: Path) -> list[Governance]:
    """The class in results.json of one of our runs, because scored.jsonl does not have a header."""
    results = path.parent / RESULTS
    if not _RUN_FILE.fullmatch(path.name) or not results.is_file():
        return []
    return [parse(str(read_object(results, "restore the run's folder").get("governance")), str(results))]


class RecordedAnswers:
    """An engine that returns the answers of a file, for questions of either dataset."""

    endpoint: str | None = None
    in_flight = 1
    reads_pages = False

    def __init__(self, file: AnswerFile, tasks: frozenset[str] = frozenset()) -> None:
        self.file, self.tasks = file, tasks
        self.name = file.path.name
        self.settings = {"engine": KIND, "file": self.name, "digest": file.digest}
        self.asking = {"file": {"counts": dict(file.counts), "named": dict(file.named)}}

    @property
    def described(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """`model` and `generation` of the results."""
        return {"name": self.name, "kind": KIND, "fingerprint": self.file.digest}, self.asking

    def content(self, _study: Any, row: Mapping[str, Any]) -> dict[str, Any]:
        """An answer belongs to the id of its row."""
        return {"id": row["qa_id"]}

    def asked_as(self, request: Any) -> dict[str, Any]:
        """The same for a question about a report image."""
        return {"id": request.id}

    async def answer(self, requests: Sequence[Any]) -> list[Reply]:
        """See `Engine.answer`."""
        return [self.file.replies[request.id] for request in requests]


def _combine(replies: list[Reply]) -> Reply:
    if not replies:
        return Reply(None, NO_ANSWER)
    different = len(set(replies))
    return replies[0] if different == 1 else Reply(None, f"the file has {different} answers to this question")


def _parse_id(row: Mapping[str, Any], ids: Sequence[str], references: Mapping[str, str | None], path: Path) -> str:
    """The id in the row, in a metric of lmms-eval, or of the question at its position."""
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
                    f"{path}: the reference of {name} {text} differs from that of question {id}. The dataset, split or "
                    "order is another one. Use a file with ids."
                )
            return id
    raise InputError(f"{path} has a row without an id. Expected one of {', '.join((*IDS, *POSITIONS))}.")


def _parse_reply(row: Mapping[str, Any], path: Path) -> Reply:
    name = next((name for name in ANSWERS if name in row), None)
    if name is None:
        raise InputError(f"{path} has a row without an answer. Expected one of {', '.join(ANSWERS)}.")
    value = row[name]
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or row.get("error") or (isinstance(value, float) and not isfinite(value)):
        return Reply(None, one_line(str(row.get("error") or NO_ANSWER)))
    if not isinstance(value, str | int | float):
        raise InputError(f"{path}: an answer is a {type(value).__name__}. Expected a text.")
    text = str(value).strip()
    if not is_storable(text):
        return Reply(None, "half characters: no text")
    return Reply(None, FAILED) if is_failure(text) else Reply(text, details=_parse_details(row, path))


def _parse_details(row: Mapping[str, Any], path: Path) -> dict[str, float]:
    """The mean log-probability of the answer's tokens, if the file has a column `logprob`."""
    value = row.get("logprob")
    if value in (None, ""):
        return {}
    try:
        logprob = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        logprob = 1.0
    if not (isfinite(logprob) and logprob <= 0):
        raise InputError(f"{path}: the logprob {value!r} is not a number of at most 0.")
    return {"logprob": logprob}


def is_failure(text: str) -> bool:
    """Whether a text is a harness's error text instead of an answer."""
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
    raise InputError(f"{path} is not supported. Expected a .jsonl, .csv, .tsv or .xlsx file.")


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in read_lines(path):
        row = parse_line(line.decode("utf-8", "surrogateescape"), f"{path}, line {number}")
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number} is not a JSON object. Expected one prediction per line.")
        yield row


def _tab_rows(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(CELL_LIMIT)
    with _open(path) as file:
        try:
            for number, row in enumerate(csv.DictReader(file, delimiter="\t"), start=1):
                if None in row or None in row.values():
                    raise InputError(f"{path}, row {number} has another number of fields than the header.")
                yield row
        except csv.Error as error:
            raise InputError(f"{path} cannot be read as TSV: {error}") from None


def _sheet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of the first sheet. Formulas and errors are None."""
    rows = workbook_rows(path)
    header = [str(cell.value) for cell in next(rows, ())]
    doubled = [name for name, count in Counter(header).items() if count > 1]
    if doubled:
        raise InputError(f"{path}: column {doubled[0]!r} occurs twice.")
    for cells in rows:
        if any(cell.value is not None for cell in cells):
            yield {name: _get_value(cell) for name, cell in zip(header, cells, strict=False)}


def _get_value(cell: Any) -> Any:
    if cell.data_type in ("f", "e"):
        return None
    return "" if cell.value is None else cell.value


def _open(path: Path) -> Any:
    try:
        return open(path, encoding="utf-8", newline="", errors="surrogateescape")  # such answers are failures
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}). Check --predictions.") from None
