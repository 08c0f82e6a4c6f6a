"""The stored verdicts of a judge.

    <out>/judge/NAME/verdicts.jsonl    one record per pair: the verdict as JSON, or an error
    <out>/judge/NAME/sample.json       the sample that was judged: the number of reports and the seed
    <out>/judge/NAME/probe.jsonl       the same records for injected errors (probing.py), summarised in probe.json

The key of a record is a hash of the pair's texts and the judge's settings, so only changed answers are judged again.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_object
from medvqa_core.runs.predictions import Prediction, PredictionStore
from mimic_cxr_vqa.judging.dimensions import Verdict, find_problems
from mimic_cxr_vqa.judging.pairs import Pair, iterate_pairs, sample_studies
from mimic_cxr_vqa.workspace import Workspace

VERDICTS, SAMPLE, PROBE, PROBE_RESULT = "verdicts.jsonl", "sample.json", "probe.jsonl", "probe.json"


@dataclass(frozen=True)
class JudgeRequest:
    """A pair to judge. `reverse` lists the categories in the opposite order."""

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


def judge_folder(workspace: Workspace, name: str) -> Path:
    """The folder of the judge `name`."""
    return workspace.judge / name


def read_sample(workspace: Workspace, name: str) -> Sample:
    """The sample that the judge `name` rated. Raises InputError if there is none."""
    path = judge_folder(workspace, name) / SAMPLE
    if not path.exists():
        judges = ", ".join(sorted(found.parent.name for found in workspace.judge.glob(f"*/{SAMPLE}"))) or "none"
        raise InputError(f"{path} does not exist. Judges of these answers: {judges}. Run: medvqa-hub cxr judge")
    found = read_object(path, "run medvqa-hub cxr judge again")
    if set(found) != {"sample_reports", "seed"} or not all(isinstance(value, int) for value in found.values()):
        raise InputError(f"{path} is not the sample of a judge. Run medvqa-hub cxr judge again.")
    return Sample(**found)


def sampled_verdicts(workspace: Workspace, name: str) -> Iterator[tuple[Pair, Verdict]]:
    """Yield the judged pairs of the sample with their verdicts. Raises as `read_sample` and `open_verdicts`."""
    sample = read_sample(workspace, name)
    studies = set(sample_studies(workspace, sample.sample_reports, sample.seed))
    with open_verdicts(judge_folder(workspace, name) / VERDICTS, workspace.governance()) as store:
        for study in make_requests(iterate_pairs(workspace, studies)):
            for request, _, verdict in iterate_verdicts(store, study):
                if verdict is not None:
                    yield request.pair, verdict


def open_verdicts(path: Path, governance: Governance) -> PredictionStore:
    """Open verdicts for reading. Raises InputError if the file is missing."""
    return PredictionStore(path, governance, read_only=True)


def make_requests(studies: Iterable[Sequence[Pair]]) -> Iterator[list[JudgeRequest]]:
    """The requests of each study."""
    for study in studies:
        yield [JudgeRequest(pair) for pair in study]


def request_key(store: PredictionStore, request: JudgeRequest) -> str:
    """The content key of a request under the settings of the store's judge."""
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
    """The verdict of a record, or None for a failure. Raises InputError if the record is damaged."""
    if found.answer is None:
        return None
    try:
        verdict = json.loads(found.answer)
        damaged = not isinstance(verdict, dict) or find_problems(verdict)
    except ValueError:
        damaged = True
    if damaged:
        raise InputError(f"{store.path}: the verdict of {found.id} is damaged. Remove its line to judge it again.")
    return verdict


def iterate_verdicts(
    store: PredictionStore, requests: Iterable[JudgeRequest]
) -> Iterator[tuple[JudgeRequest, Prediction | None, Verdict | None]]:
    """Yield each request with its record (None if it is not judged yet) and its verdict (None also for a failure)."""
    for request in requests:
        found = store.find(request_key(store, request))
        yield request, found, read_verdict(store, found) if found is not None else None


def count_verdicts(store: PredictionStore, requests: Iterable[JudgeRequest]) -> Counter:
    """The numbers of requests that are `judged`, `failed` and `open`."""
    counts = Counter(judged=0, failed=0, open=0)
    for _, found, verdict in iterate_verdicts(store, requests):
        counts["open" if found is None else "judged" if verdict is not None else "failed"] += 1
    return counts
