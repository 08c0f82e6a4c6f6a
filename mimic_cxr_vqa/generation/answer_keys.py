"""The content key of each question: a hash of the report's text, the question and the engine's settings.

A changed report therefore never gets the answer to its earlier text. Hashing all reports takes as long as reading them,
so the keys are cached in `<out>/answer_keys.parquet` with the digests of the files that they were made from.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import chain, groupby, islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import atomic_file
from medvqa_core.governance import Governance
from medvqa_core.json_files import plain
from medvqa_core.progress import track
from medvqa_core.runs.predictions import ANSWERS, Prediction, PredictionStore
from medvqa_core.store import content_key
from mimic_cxr_vqa.generation.answer_request import AS_CONTEXT, AS_TEXT, IMPRESSION, AnswerRequest, check_settings
from mimic_cxr_vqa.parquet_files import iterate_parquet
from mimic_cxr_vqa.workspace import Workspace

ROWS_AT_ONCE = 8192  # read from a file
KEYS_PER_CHUNK = 1 << 18
_MADE_FROM = b"made_from"  # name in the file's metadata
_KEY_VERSION = 1  # raise it when `request_key` changes


def open_answers(workspace: Workspace, governance: Governance) -> PredictionStore:
    """Open the answers for reading. Raises InputError if they are missing or not by one of our engines."""
    store = PredictionStore(workspace.answers, governance, read_only=True, kind=ANSWERS)
    try:
        check_settings(store.settings, f"{workspace.answers}, line 1")
    except ConfigError as error:
        store.close()
        raise InputError(f"{error} Remove the file.") from None
    return store


def request_key(request: AnswerRequest, settings: Mapping[str, Any]) -> str:
    """The content key of a request under an engine's settings."""
    context = {"impression_text": request.impression} if settings.get(IMPRESSION) == AS_CONTEXT else {}
    return content_key(
        qa_id=request.qa_id,
        question=request.question,
        indication=request.indication,
        findings=request.findings,
        **context,
        **settings,
    )


def iterate_requests(workspace: Workspace, impression: str | None = None) -> Iterator[list[AnswerRequest]]:
    """Yield the questions of one study after another.

    Args:
        impression: `AS_TEXT` appends the impression to the findings. Otherwise it goes into the request's own field.

    Raises:
        InputError: a file cannot be read, or the files do not fit together.
    """
    studies = iterate_rows(workspace, "studies", "study_id", "findings", "impression")
    rows = iterate_rows(workspace, "questions", "study_id", "qa_id", "category", "question", "indication")
    for study_id, group in groupby(rows, key=lambda row: row[0]):
        study = next((row for row in studies if row[0] == study_id), None)  # both files have the same order
        if study is None:
            raise InputError(
                f"{workspace.questions}: study {study_id} of questions.parquet is not in studies.parquet, or in "
                "another place. Run: medvqa-hub cxr questions"
            )
        text, context = select_answer_text(study[1], study[2], impression)
        yield [
            AnswerRequest(qa_id, study_id, category, question, indication, text, impression=context)
            for _, qa_id, category, question, indication in group
        ]


def iterate_keyed(
    workspace: Workspace, settings: Mapping[str, Any], keys: pa.Table
) -> Iterator[dict[str, AnswerRequest]]:
    """Yield {content key: request} of one study after another, under an engine's settings. `keys`: `answer_keys`."""
    start = 0
    for study in iterate_requests(workspace, settings.get(IMPRESSION)):
        yield dict(zip(hex_keys(keys, start, len(study)), study, strict=True))
        start += len(study)


def iterate_rows(workspace: Workspace, name: str, *columns: str) -> Iterator[tuple]:
    """Yield these columns of `questions` or `studies` row by row. Raises InputError if the file cannot be read."""
    batches = iterate_parquet(workspace.questions / f"{name}.parquet", ROWS_AT_ONCE, list(columns))
    return chain.from_iterable(zip(*(batch[c].to_pylist() for c in columns), strict=True) for batch in batches)


def select_answer_text(findings: str, concluded: str | None, impression: str | None) -> tuple[str, str | None]:
    """The text to answer from, and the impression if it is passed separately."""
    if impression == AS_TEXT and findings and concluded:
        stop = "" if findings.rstrip().endswith((".", "!", "?")) else "."
        return f"{findings}{stop} {concluded}", None
    return findings, concluded


def answer_keys(workspace: Workspace, settings: Mapping[str, Any], save: bool = True) -> pa.Table:
    """The `key` (16 bytes) of every question in their order, from the cache if it is current.

    Args:
        save: write newly computed keys to the cache.

    Raises:
        InputError: the questions cannot be read.
        OutputError: the keys cannot be written.
    """
    digests = {name: digest_file(workspace.questions / f"{name}.parquet") for name in ("questions", "studies")}
    made_from = {"version": _KEY_VERSION, **digests, "settings": plain(dict(settings))}
    cached = _read_cache(workspace, made_from)
    if cached is not None:
        return cached
    studies = iterate_requests(workspace, settings.get(IMPRESSION))
    tracked = track(studies, "Finding keys", total=workspace.studies_with_questions())
    keys = (bytes.fromhex(request_key(request, settings)) for study in tracked for request in study)
    chunks = (pa.array(chunk, pa.binary(16)) for chunk in iter(lambda: list(islice(keys, KEYS_PER_CHUNK)), []))
    table = pa.table({"key": pa.chunked_array(chunks, pa.binary(16))})
    if save:
        with atomic_file(workspace.answer_keys, private=True) as file:
            pq.write_table(table.replace_schema_metadata({_MADE_FROM: json.dumps(made_from)}), file)
    return table


def read_lint(found: Prediction, store: PredictionStore) -> list[str]:
    """The lint rules that a stored answer breaks. Raises InputError if its record is incomplete."""
    rules, attempts = found.details.get("lint"), found.details.get("attempts")
    if not isinstance(rules, list) or not isinstance(attempts, int):
        raise InputError(
            f"{store.path}: the record of {found.id} lacks `lint` or `attempts`. Remove its line to ask again."
        )
    return rules


def hex_keys(keys: pa.Table, start: int = 0, length: int | None = None) -> list[str]:
    """A slice of `answer_keys` in the form that the store uses."""
    return [key.hex() for key in keys["key"].slice(start, length).to_pylist()]


def _read_cache(workspace: Workspace, made_from: Mapping[str, Any]) -> pa.Table | None:
    if not workspace.answer_keys.exists():
        return None
    try:
        table = pq.read_table(workspace.answer_keys, columns=["key"])
    except (OSError, pa.ArrowInvalid):  # the cache is computed again
        return None
    found = (table.schema.metadata or {}).get(_MADE_FROM)
    if found is None or json.loads(found) != made_from:
        return None
    return table.replace_schema_metadata(None)
