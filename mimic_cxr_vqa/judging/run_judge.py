"""Run a judge over a sample of the answers (paper, Section 4). Safe to interrupt. `verdicts` stores the results.

A reply that cannot be read is recorded as a failure and never becomes a category.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from medvqa_core.files import MANIFEST, make_folder
from medvqa_core.governance import Governance
from medvqa_core.json_files import write_json
from medvqa_core.llm.chat_model import check_engine_allowed
from medvqa_core.llm.engines import Reply
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import PredictionStore
from mimic_cxr_vqa.judging.base import Judge
from mimic_cxr_vqa.judging.pairs import Pair, iterate_pairs, sample_studies
from mimic_cxr_vqa.judging.review import KeyEntry, open_review
from mimic_cxr_vqa.judging.verdicts import (
    SAMPLE,
    VERDICTS,
    JudgeRequest,
    Sample,
    count_verdicts,
    judge_folder,
    make_requests,
    open_verdicts,
    request_key,
)
from mimic_cxr_vqa.workspace import Workspace

STUDIES_PER_SYNC = 16


def judge_sample(workspace: Workspace, judge: Judge, sample: Sample, retry_failed: bool = False) -> Counter:
    """Let `judge` rate the answers of the sampled reports, and the answers that people review.

    Returns:
        `judged` and `failed` answers of the sampled reports, and the number `asked` in this run.

    Raises:
        InputError: answers are missing. Otherwise as `judge_all`.
    """
    governance, folder = workspace.governance(), judge_folder(workspace, judge.name)
    studies = set(sample_studies(workspace, sample.sample_reports, sample.seed))
    reviewed = reviewed_answers(workspace)
    chosen = studies | {entry.study_id for entry in reviewed.values()}

    def wanted() -> Iterator[list[Pair]]:
        # runs after the verdicts are locked, so that a second judge cannot replace the sample of the running one
        write_json(folder / SAMPLE, asdict(sample))
        for study in iterate_pairs(workspace, chosen):
            yield [pair for pair in study if pair.request.study_id in studies or pair.id in reviewed]

    asked = judge_all(
        folder / VERDICTS, governance, judge, make_requests(wanted()), total=len(chosen), retry_failed=retry_failed
    )
    with open_verdicts(folder / VERDICTS, governance) as store:
        requests = chain.from_iterable(make_requests(iterate_pairs(workspace, studies)))
        counts = count_verdicts(store, requests)
    return Counter(asked=asked, judged=counts["judged"], failed=counts["failed"])


def reviewed_answers(workspace: Workspace) -> dict[str, KeyEntry]:
    """The answers that people review, by qa_id. Empty if no sample was exported."""
    if not (workspace.review / MANIFEST).exists():
        return {}
    return {entry.qa_id: entry for entry in open_review(workspace.review).key().values()}


def judge_all(
    path: Path,
    governance: Governance,
    judge: Judge,
    studies: Iterable[Sequence[JudgeRequest]],
    total: int | None = None,
    retry_failed: bool = False,
) -> int:
    """Let `judge` rate every request without a record in the store at `path`. Returns the number rated in this run.

    Raises:
        GovernanceError: credentialed text would leave the machine.
        ConfigError: the existing verdicts are from another judge or other settings.
    """
    check_engine_allowed(governance, judge, "judge")
    make_folder(path.parent, private=governance.private)

    async def answer(requests: Sequence[JudgeRequest]) -> list[Reply]:
        replies: dict[int, Reply] = {}
        for reverse in (False, True):
            places = [place for place, request in enumerate(requests) if request.reverse is reverse]
            if places:
                found = await judge.judge([requests[place].pair for place in places], reverse)
                replies |= dict(zip(places, found, strict=True))
        return [replies[place] for place in range(len(requests))]

    with PredictionStore(path, governance, judge.settings) as store:
        return ask_all(
            ({request_key(store, request): request for request in study} for study in studies),
            answer,
            store,
            in_flight=judge.in_flight,
            description="Judging studies",
            total=total,
            groups_per_sync=STUDIES_PER_SYNC,
            retry_failed=retry_failed,
            session=judge,
        )
