"""A judge over a sample of the answers: verdicts kept one by one, resumable at any moment (paper, Section 4).

    <out>/judge/NAME/verdicts.jsonl    append-only store: the verdict on a pair as JSON, or the reason why there is none
    <out>/judge/NAME/sample.json       which reports the verdicts are of: how many, and the seed that drew them
    <out>/judge/NAME/probe.jsonl       the same of planted errors (probing.py); its result is probe.json

A verdict's key is a hash of the pair's texts and of all that the judge depends on: an answer that was written again is
judged again, nothing else is. A reply that cannot be read is a failure, never a category.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import MANIFEST, make_folder
from medvqa_core.governance import Governance, check_endpoint_allowed
from medvqa_core.json_files import read_object, write_json
from medvqa_core.llm.engines import Reply
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import Prediction, PredictionStore
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict, find_problems
from mimic_cxr_vqa.judging.judges import Judge, Judged
from mimic_cxr_vqa.judging.pairs import Pair, iterate_pairs, sample_studies
from mimic_cxr_vqa.judging.review import KeyEntry, open_review
from mimic_cxr_vqa.workspace import Workspace

VERDICTS, SAMPLE, PROBE, PROBE_RESULT = "verdicts.jsonl", "sample.json", "probe.jsonl", "probe.json"
STUDIES_PER_SYNC = 16


@dataclass(frozen=True)
class JudgeRequest:
    """A pair to judge; `reverse` shows the categories in the opposite order."""

    pair: Pair
    reverse: bool = False

    @property
    def id(self) -> str:
        """The qa_id."""
        return self.pair.id


@dataclass(frozen=True)
class Sample:
    """The reports whose answers a judge rates (`pairs.sample_studies`)."""

    sample_reports: int
    seed: int


@dataclass(frozen=True)
class _VerdictReply(Reply):
    details: Mapping[str, Any] = field(default_factory=dict)


def judge_folder(workspace: Workspace, name: str) -> Path:
    """Where the verdicts of the judge called `name` are."""
    return workspace.judge / name


def judge_sample(workspace: Workspace, judge: Judge, sample: Sample, retry_failed: bool = False) -> Counter:
    """Have `judge` rate the answers of the sampled reports, and those that people review, where there are any.

    Returns:
        `judged` and `failed` of the sampled reports' answers, and `asked` now.

    Raises:
        As `judge_all`; InputError: nothing is answered yet.
    """
    governance, folder = workspace.governance(), judge_folder(workspace, judge.name)
    studies = set(sample_studies(workspace, sample.sample_reports, sample.seed))
    reviewed = reviewed_answers(workspace)
    chosen = studies | {entry.study_id for entry in reviewed.values()}

    def wanted() -> Iterator[list[Pair]]:
        # here the verdicts are locked: a judge that is refused must not rename the sample of the one at work
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


def read_sample(workspace: Workspace, name: str) -> Sample:
    """The sample that the judge called `name` rated. Raises InputError where it rated none."""
    path = judge_folder(workspace, name) / SAMPLE
    if not path.exists():
        judges = ", ".join(sorted(found.parent.name for found in workspace.judge.glob(f"*/{SAMPLE}"))) or "none"
        raise InputError(f"{path}: no such file; judges that rated these answers: {judges}; run: medvqa-hub cxr judge")
    found = read_object(path, "run medvqa-hub cxr judge again")
    if set(found) != {"sample_reports", "seed"} or not all(isinstance(value, int) for value in found.values()):
        raise InputError(f"{path}: no sample of a judge; run medvqa-hub cxr judge again")
    return Sample(**found)


def reviewed_answers(workspace: Workspace) -> dict[str, KeyEntry]:
    """qa_id -> entry of the answers that people review; empty where no sample was exported."""
    if not (workspace.review / MANIFEST).exists():
        return {}
    return {entry.qa_id: entry for entry in open_review(workspace.review).key().values()}


def sampled_verdicts(workspace: Workspace, name: str) -> Iterator[tuple[Pair, Verdict]]:
    """The judged pairs of the sampled reports, each with its verdict. Raises as `read_sample` and `open_verdicts`."""
    sample = read_sample(workspace, name)
    studies = set(sample_studies(workspace, sample.sample_reports, sample.seed))
    with open_verdicts(judge_folder(workspace, name) / VERDICTS, workspace.governance()) as store:
        for study in make_requests(iterate_pairs(workspace, studies)):
            for request, _, verdict in iterate_verdicts(store, study):
                if verdict is not None:
                    yield request.pair, verdict


def judge_all(
    path: Path,
    governance: Governance,
    judge: Judge,
    studies: Iterable[Sequence[JudgeRequest]],
    total: int | None = None,
    retry_failed: bool = False,
) -> int:
    """Have `judge` rate every request that has no record in the store at `path` yet; returns how many it rated now.

    Raises:
        GovernanceError: credentialed text would leave the machine.
        ConfigError: the verdicts there were given by another judge or with other settings.
    """
    check_endpoint_allowed(governance, judge.endpoint, f"judge {judge.name}", getattr(judge, "attestation", None))
    make_folder(path.parent, private=governance.private)
    with PredictionStore(path, governance, judge.settings) as store:
        return ask_all(
            ({request_key(store, request): request for request in study} for study in studies),
            _answer_of(judge),
            store,
            in_flight=judge.in_flight,
            description="Judging studies",
            total=total,
            groups_per_sync=STUDIES_PER_SYNC,
            retry_failed=retry_failed,
            review=lambda request, reply, attempt: (getattr(reply, "details", {}), None),
            session=judge,
        )


def open_verdicts(path: Path, governance: Governance) -> PredictionStore:
    """The verdicts there are, to read. Raises InputError where the file is missing."""
    return PredictionStore(path, governance, read_only=True)


def request_key(store: PredictionStore, request: JudgeRequest) -> str:
    """Content key of a request under the judge's settings."""
    asked = request.pair.request
    return store.key(
        qa_id=asked.qa_id,
        question=asked.question,
        indication=asked.indication,
        findings=asked.findings,
        impression=asked.impression,
        answer=request.pair.answer,
        reverse=request.reverse,
    )


def read_verdict(store: PredictionStore, found: Prediction) -> Verdict | None:
    """The verdict of a record; None for a failure. Raises InputError where the record holds neither."""
    if found.answer is None:
        return None
    try:
        verdict = json.loads(found.answer)
        damaged = not isinstance(verdict, dict) or find_problems(verdict)
    except ValueError:
        damaged = True
    if damaged:
        raise InputError(f"{store.path}: the record of {found.id} holds no verdict; remove its line, it is made again")
    return verdict


def iterate_verdicts(
    store: PredictionStore, requests: Iterable[JudgeRequest]
) -> Iterator[tuple[JudgeRequest, Prediction | None, Verdict | None]]:
    """Each request with its record (None: not judged yet) and its verdict (None: a failure too)."""
    for request in requests:
        found = store.find(request_key(store, request))
        yield request, found, read_verdict(store, found) if found is not None else None


def count_verdicts(store: PredictionStore, requests: Iterable[JudgeRequest]) -> Counter:
    """`judged`, `failed` and `open` of the requests."""
    counts = Counter(judged=0, failed=0, open=0)
    for _, found, verdict in iterate_verdicts(store, requests):
        counts["open" if found is None else "judged" if verdict is not None else "failed"] += 1
    return counts


def make_requests(studies: Iterable[Sequence[Pair]]) -> Iterator[list[JudgeRequest]]:
    """The requests of each study."""
    for study in studies:
        yield [JudgeRequest(pair) for pair in study]


def _answer_of(judge: Judge) -> Callable[[Sequence[JudgeRequest]], Awaitable[list[Reply]]]:
    async def answer(requests: Sequence[JudgeRequest]) -> list[Reply]:
        replies: dict[int, Reply] = {}
        for reverse in (False, True):  # a study's pairs together, in either order of the categories
            places = [place for place, request in enumerate(requests) if request.reverse is reverse]
            if places:
                judged = await judge.judge([requests[place].pair for place in places], reverse)
                replies |= {place: _reply(one) for place, one in zip(places, judged, strict=True)}
        return [replies[place] for place in range(len(requests))]

    return answer


def _reply(judged: Judged) -> _VerdictReply:
    if judged.verdict is None:
        return _VerdictReply(None, judged.error, judged.details)
    ordered = {name: judged.verdict[name] for name in DIMENSIONS}
    return _VerdictReply(json.dumps(ordered), None, judged.details)
