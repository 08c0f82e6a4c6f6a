"""Ask an engine every open question and record the answers (paper, Section 3.2). Safe to interrupt at any time.

Each question ends as one record: an answer with the lint rules that it still breaks, or an error. Replies that break a
rule or cannot be read are asked for again (`retries`). `medvqa_core.runs.inference` keeps the records in order.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from medvqa_core.llm.chat_model import check_engine_allowed
from medvqa_core.llm.engines import Engine, Reply
from medvqa_core.llm.throughput import Throughput
from medvqa_core.progress import track
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import ANSWERS, PredictionStore
from medvqa_core.runs.shards import WHOLE, Shard, merge_in_order, read_shard_settings, shard_files
from mimic_cxr_vqa.generation.answer_keys import answer_keys, hex_keys, iterate_keyed, open_answers, read_lint
from mimic_cxr_vqa.generation.answer_request import ANSWER_FROM, AnswerRequest, answer_from_settings, check_settings
from mimic_cxr_vqa.generation.lint import lint
from mimic_cxr_vqa.generation.retries import MAX_ATTEMPTS, make_retry
from mimic_cxr_vqa.workspace import Workspace

STUDIES_PER_SYNC = 64
ROWS_AT_ONCE = 65_536


def answer_questions(
    workspace: Workspace,
    engine: Engine,
    retry_failed: bool = False,
    in_flight: int | None = None,
    limit: int | None = None,
    answer_from: str = ANSWER_FROM[0],
    shard: Shard = WHOLE,
) -> Counter:
    """Ask `engine` every question that does not have a record yet.

    Args:
        retry_failed: also ask the questions whose record is an error.
        in_flight: how many studies to ask about concurrently. Defaults to the engine's own value.
        limit: only ask about the first `limit` studies.
        answer_from: the sections to answer from, one of `ANSWER_FROM`.
        shard: the part of the studies to ask about.

    Returns:
        Counts over all questions of the shard: `answered`, `flagged` (answered, but breaking a lint rule) and `failed`,
        and the number `asked` in this run.

    Raises:
        GovernanceError: see `check_engine_allowed`.
        ConfigError: the existing answers are from another engine or other settings.
    """
    governance = workspace.governance()
    check_engine_allowed(governance, engine)
    settings = check_settings(answer_from_settings(engine.settings, answer_from), f"engine {engine.name}")
    counts: Throughput | None = getattr(engine, "counts", None)
    with PredictionStore(shard.path(workspace.answers), governance, settings, kind=ANSWERS) as store:
        keys = answer_keys(workspace, settings, save=shard == WHOLE)  # concurrent shards must not write the same file
        studies = islice(iterate_keyed(workspace, settings, keys), limit and min(limit, sys.maxsize))
        asked = ask_all(
            shard.select_groups(studies),
            engine.answer,
            store,
            in_flight=in_flight or engine.in_flight,
            description="Answering studies",
            total=min(limit or sys.maxsize, workspace.studies_with_questions()) // shard.of,
            groups_per_sync=STUDIES_PER_SYNC,
            retry_failed=retry_failed,
            review=partial(_review, counts=counts),
            attempts=MAX_ATTEMPTS,
            session=engine,
            note=(lambda: counts) if counts else None,
        )
        found = _count(store, keys)
    return Counter(asked=asked, **{name: found[name] for name in ("answered", "flagged", "failed")})


def count_answers(workspace: Workspace) -> Counter:
    """How many questions are `answered`, `flagged`, `failed` and `open`."""
    manifest = workspace.manifest()
    if not workspace.answers.exists():
        return Counter(answered=0, flagged=0, failed=0, open=manifest["counts"]["questions"])
    with open_answers(workspace, workspace.governance()) as store:
        return _count(store, answer_keys(workspace, store.settings, save=False))


def merge_answers(workspace: Workspace, parts: Sequence[Path] = ()) -> Counter:
    """Merge the answers of several machines. The result is byte-identical to a single-machine run.

    Args:
        parts: files of answers. Defaults to the shards' files in the workspace.

    Returns:
        The counts of `merge_in_order`.

    Raises:
        ConfigError: the parts are from different engines or settings.
        GovernanceError: a part has a stricter class than the questions.
        InputError: parts are missing, or one of them has a broken line.
        OutputError: the answers cannot be written.
    """
    governance = workspace.governance()
    sources = list(parts) or shard_files(workspace.answers)
    settings = check_settings(read_shard_settings(sources, governance), str(sources[0]))
    keys = answer_keys(workspace, settings)
    chunks = (hex_keys(keys, start, ROWS_AT_ONCE) for start in range(0, len(keys), ROWS_AT_ONCE))
    total = -(-len(keys) // ROWS_AT_ONCE)
    return merge_in_order(workspace.answers, sources, track(chunks, "Merging answers", total=total), governance)


def _review(
    request: AnswerRequest, reply: Reply, attempt: int, counts: Throughput | None = None
) -> tuple[dict[str, Any], AnswerRequest | None]:
    """The details to record with a reply, and the request to ask again with, if any."""
    broken = lint(reply.answer) if reply.answer is not None else []
    again = make_retry(request, reply.error, broken, attempt)
    if counts is not None and again is None:
        counts.failed += reply.answer is None
        counts.answered += reply.answer is not None
        counts.flagged += bool(broken)
    return {"attempts": attempt, "lint": broken}, again


def _count(store: PredictionStore, keys: pa.Table) -> Counter:
    counts = Counter(answered=0, flagged=0, failed=0, open=0)
    for start in track(range(0, len(keys), ROWS_AT_ONCE), "Counting answers"):
        for key in hex_keys(keys, start, ROWS_AT_ONCE):
            found = store.find(key)
            if found is None:
                counts["open"] += 1
            elif found.error is not None:
                counts["failed"] += 1
            else:
                counts["answered"] += 1
                counts["flagged"] += bool(read_lint(found, store))
    return counts
