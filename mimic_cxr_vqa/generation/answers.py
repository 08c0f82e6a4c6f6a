"""Asking an engine: a study's questions together, lint, re-ask, record; resumable at any moment (paper, Section 3.2).

Every question ends as one record in the store: an answer (with the lint rules it still breaks, if any) or an error.
Records are appended in the order of the studies, whatever order the engine finishes in, so a killed and resumed run
leaves the same bytes. Only a run that stops by itself (an error, Ctrl-C) also appends what it had finished ahead of
that order.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import refuse_remote
from medvqa_core.progress import track
from medvqa_core.store import RecordStore, content_key
from mimic_cxr_vqa.generation.engines import AnswerRequest, Engine
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.generation.lint import lint
from mimic_cxr_vqa.parquet_files import iterate_parquet
from mimic_cxr_vqa.workspace import Workspace

MAX_ATTEMPTS = 3  # the first try and at most two re-asks with the violation named
ENGINES = {ExtractiveEngine.name: ExtractiveEngine}
STUDIES_IN_FLIGHT = 256
STUDIES_PER_SYNC = 64  # a sync costs milliseconds; what a kill loses is asked again


@dataclass(frozen=True)
class AnswerSettings:
    """What answers depend on besides the request: part of every content key and of the rows' provenance."""

    engine: str
    model: str
    revision: str
    prompt_version: str
    temperature: float
    seed: int

    @classmethod
    def of(cls, engine: Engine) -> "AnswerSettings":
        return cls(
            engine.name, engine.model, engine.revision, engine.prompt_version, float(engine.temperature), engine.seed
        )

    @classmethod
    def read(cls, store: RecordStore) -> "AnswerSettings":
        """The settings in a store's header. Raises InputError where they are not those of answers."""
        try:
            return cls(**store.settings)
        except TypeError:
            raise InputError(f"{store.path}, line 1: not the settings of an answer run; remove the file") from None


def request_key(request: AnswerRequest, settings: AnswerSettings) -> str:
    """Content key of a request: its texts, its id and the settings. Any change of these makes it a new question."""
    return content_key(
        qa_id=request.qa_id,
        question=request.question,
        indication=request.indication,
        findings=request.findings,
        **vars(settings),
    )


def iterate_requests(workspace: Workspace) -> Iterator[list[AnswerRequest]]:
    """The questions of one study after another, with the study's report text."""
    columns = ["study_id", "findings"]
    findings: dict[int, str] = {}
    for batch in iterate_parquet(workspace.questions / "studies.parquet", columns=columns):
        findings.update(zip(*(batch[name].to_pylist() for name in columns), strict=True))
    columns = ["study_id", "qa_id", "category", "question", "indication"]
    batches = iterate_parquet(workspace.questions / "questions.parquet", columns=columns)
    rows = chain.from_iterable(zip(*(batch[name].to_pylist() for name in columns), strict=True) for batch in batches)
    for study_id, group in groupby(rows, key=lambda row: row[0]):
        yield [
            AnswerRequest(qa_id, study_id, category, question, indication, findings[study_id])
            for _, qa_id, category, question, indication in group
        ]


def answer_questions(
    workspace: Workspace, engine: Engine, retry_failed: bool = False, in_flight: int = STUDIES_IN_FLIGHT
) -> Counter:
    """Ask `engine` every question that has no record yet.

    Args:
        retry_failed: ask those again whose record is an error.
        in_flight: studies that may be under way at once.

    Returns:
        Counts over all questions: `answered`, `flagged` (answered, but breaking a lint rule), `failed`, and `asked`
        now.

    Raises:
        GovernanceError: credentialed text would leave the machine.
        ConfigError: the answers there were made by another engine or with other settings.
    """
    governance = workspace.governance()
    refuse_remote(governance, engine.endpoint, f"engine {engine.name}")
    settings = AnswerSettings.of(engine)
    counts = Counter(asked=0, answered=0, flagged=0, failed=0)
    with RecordStore(workspace.answers, "answers", governance, vars(settings)) as store:

        def open_requests() -> Iterator[list[AnswerRequest]]:
            total = workspace.studies_with_questions()
            for study in track(iterate_requests(workspace), "Answering studies", total=total):
                todo = []
                for request in study:
                    record = store.get(request_key(request, settings))
                    if record is None or (retry_failed and record["error"] is not None):
                        todo.append(request)
                    else:
                        _count(record, counts)
                if todo:
                    yield todo

        asyncio.run(_ask_all(open_requests(), engine, settings, store, in_flight, counts))
    return counts


def count_answers(workspace: Workspace) -> Counter:
    """How many questions are answered, flagged, failed and still open, without asking anything."""
    counts = Counter(answered=0, flagged=0, failed=0, open=0)
    manifest = workspace.manifest()
    if not workspace.answers.exists():
        counts["open"] = manifest["counts"]["questions"]
        return counts
    with RecordStore(workspace.answers, "answers", workspace.governance(), None, read_only=True) as store:
        settings = AnswerSettings.read(store)
        total = workspace.studies_with_questions()
        for study in track(iterate_requests(workspace), "Counting answers", total=total):
            for request in study:
                record = store.get(request_key(request, settings))
                if record is None:
                    counts["open"] += 1
                else:
                    _count(record, counts)
    return counts


def _count(record: dict[str, Any], counts: Counter) -> None:
    if record["error"] is not None:
        counts["failed"] += 1
    else:
        counts["answered"] += 1
        counts["flagged"] += bool(record["lint"])


async def _ask_all(
    studies: Iterator[list[AnswerRequest]],
    engine: Engine,
    settings: AnswerSettings,
    store: RecordStore,
    in_flight: int,
    counts: Counter,
) -> None:
    """Keep `in_flight` studies under way; append finished ones in order, `STUDIES_PER_SYNC` at a time; count them."""
    under_way: deque[asyncio.Task] = deque()
    finished: list[list[dict[str, Any]]] = []

    def sync() -> None:
        records = list(chain.from_iterable(finished))
        store.append(records)
        finished.clear()
        for record in records:
            _count(record, counts)

    async def finish_first() -> None:
        finished.append(await under_way[0])
        under_way.popleft()
        if len(finished) >= STUDIES_PER_SYNC:
            sync()

    try:
        for study in studies:
            under_way.append(asyncio.create_task(_ask_study(study, engine, settings)))
            counts["asked"] += len(study)
            if len(under_way) >= in_flight:
                await finish_first()
        while under_way:
            await finish_first()
    finally:  # also on Ctrl-C and on errors: what is finished counts, even ahead of its turn
        for task in under_way:
            task.cancel()
        outcomes = await asyncio.gather(*under_way, return_exceptions=True)
        finished.extend(outcome for outcome in outcomes if not isinstance(outcome, BaseException))
        sync()


async def _ask_study(requests: Sequence[AnswerRequest], engine: Engine, settings: AnswerSettings) -> list[dict]:
    """Records for `requests`, in their order; answers that break a lint rule are asked again with the rule named."""
    records: dict[str, dict[str, Any]] = {}
    to_ask = list(requests)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        replies = await engine.answer(to_ask)
        if len(replies) != len(to_ask):
            raise RuntimeError(f"engine {engine.name} returned {len(replies)} replies to {len(to_ask)} requests")
        again = []
        for request, reply in zip(to_ask, replies, strict=True):
            broken = lint(reply.answer) if reply.answer is not None else []
            records[request.qa_id] = {
                "key": request_key(request, settings),
                "qa_id": request.qa_id,
                "answer": reply.answer,
                "error": reply.error,
                "attempts": attempt,
                "lint": broken,
            }
            if broken:
                again.append(replace(request, violations=tuple(broken)))
        to_ask = again
        if not to_ask:
            break
    return [records[request.qa_id] for request in requests]


def load_engine(name: str) -> Engine:
    """The engine of that name. Raises ConfigError for an unknown one."""
    if name not in ENGINES:
        raise ConfigError(f"engine {name!r} is unknown; available: {', '.join(ENGINES)}")
    return ENGINES[name]()
