"""Where each question's answer lies: the file of answers, the questions put to engines, and the content key of each.

A key is a hash of the report's text, the question and the engine's settings, so that an answer to an earlier text is
never taken for one to the present text. Hashing all reports takes as long as reading them all, so that the keys are
kept in `<out>/answer_keys.parquet` (qa_id, key; in the order of the questions) with the digests of what they were made
from; later steps find the answers by it and read no report.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import chain, groupby
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
from mimic_cxr_vqa.generation.engines import AS_CONTEXT, AS_TEXT, IMPRESSION, AnswerRequest, check_settings
from mimic_cxr_vqa.parquet_files import iterate_parquet
from mimic_cxr_vqa.workspace import Workspace

_SCHEMA = pa.schema([("qa_id", pa.string()), ("key", pa.binary(16))])
_MADE_FROM = b"made_from"  # name of the metadata
_KEY_VERSION = 1  # of `request_key`: other keys than these are made again


def open_answers(workspace: Workspace, governance: Governance) -> PredictionStore:
    """The answers there are, to read. Raises InputError where there are none, or their settings are not an engine's."""
    store = PredictionStore(workspace.answers, governance, read_only=True, kind=ANSWERS)
    try:
        check_settings(store.settings, f"{workspace.answers}, line 1")
    except ConfigError as error:
        store.close()
        raise InputError(f"{error}; remove the file") from None
    return store


def request_key(request: AnswerRequest, settings: Mapping[str, Any]) -> str:
    """Content key of a request: its texts, its id and the settings. Any change of these makes it a new question."""
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
    """The questions of one study after another, with the text that they are answered from.

    Args:
        impression: `AS_TEXT` joins the report's impression to the findings; otherwise it has the request's own field.
    """
    columns = ["study_id", "findings", "impression"]
    texts: dict[int, tuple[str, str | None]] = {}
    for batch in iterate_parquet(workspace.questions / "studies.parquet", columns=columns):
        for study_id, *sections in zip(*(batch[name].to_pylist() for name in columns), strict=True):
            texts[study_id] = select_answer_text(*sections, impression)
    columns = ["study_id", "qa_id", "category", "question", "indication"]
    batches = iterate_parquet(workspace.questions / "questions.parquet", columns=columns)
    rows = chain.from_iterable(zip(*(batch[name].to_pylist() for name in columns), strict=True) for batch in batches)
    for study_id, group in groupby(rows, key=lambda row: row[0]):
        text, context = texts[study_id]
        yield [
            AnswerRequest(qa_id, study_id, category, question, indication, text, impression=context)
            for _, qa_id, category, question, indication in group
        ]


def select_answer_text(findings: str, concluded: str | None, impression: str | None) -> tuple[str, str | None]:
    """The text to answer from, and what goes along."""
    if impression == AS_TEXT and findings and concluded:  # a full stop keeps the sentences apart
        return f"{findings}{'' if findings.rstrip().endswith(('.', '!', '?')) else '.'} {concluded}", None
    return findings, concluded


def answer_keys(workspace: Workspace, settings: Mapping[str, Any], save: bool = True) -> pa.Table:
    """`qa_id` and `key` (16 bytes) of every question, in their order.

    Args:
        save: keep them, where they have to be made.

    Raises:
        InputError: the questions cannot be read.
        OutputError: the keys cannot be written.
    """
    digests = {name: digest_file(workspace.questions / f"{name}.parquet") for name in ("questions", "studies")}
    made_from = {"version": _KEY_VERSION, **digests, "settings": plain(dict(settings))}
    kept = _read(workspace, made_from)
    if kept is not None:
        return kept
    columns: list[pa.RecordBatch] = []
    studies = iterate_requests(workspace, settings.get(IMPRESSION))
    for study in track(studies, "Finding keys", total=workspace.studies_with_questions()):
        ids, keys = [r.qa_id for r in study], [bytes.fromhex(request_key(r, settings)) for r in study]
        columns.append(pa.record_batch([pa.array(ids, pa.string()), pa.array(keys, pa.binary(16))], schema=_SCHEMA))
    table = pa.Table.from_batches(columns, _SCHEMA).combine_chunks()
    if save:
        with atomic_file(workspace.answer_keys, private=True) as file:
            pq.write_table(table.replace_schema_metadata({_MADE_FROM: json.dumps(made_from)}), file)
    return table


def read_lint(found: Prediction, store: PredictionStore) -> list[str]:
    """The lint rules that a kept answer breaks. Raises InputError where its record is not whole."""
    rules, attempts = found.details.get("lint"), found.details.get("attempts")
    if not isinstance(rules, list) or not isinstance(attempts, int):
        raise InputError(
            f"{store.path}: the record of {found.id} lacks its lint rules or attempts; remove its line, the question "
            "is asked again"
        )
    return rules


def hex_keys(keys: pa.Table, start: int = 0, length: int | None = None) -> list[str]:
    """Keys of a slice of `answer_keys`, as the store has them."""
    return [key.hex() for key in keys["key"].slice(start, length).to_pylist()]


def _read(workspace: Workspace, made_from: Mapping[str, Any]) -> pa.Table | None:
    """The kept keys, if they were made from the same questions, reports and settings."""
    if not workspace.answer_keys.exists():
        return None
    try:
        table = pq.read_table(workspace.answer_keys)
    except (OSError, pa.ArrowInvalid):  # nothing is lost: they are made again
        return None
    found = (table.schema.metadata or {}).get(_MADE_FROM)
    if found is None or json.loads(found) != made_from:
        return None
    return table.replace_schema_metadata(None).combine_chunks()
