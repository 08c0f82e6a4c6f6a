"""Verdicts of judges (`cxr judge`) on the answers of a release.

A verdict belongs to the exact texts that were judged. A rewritten answer lacks a verdict until it is judged again.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.governance import Governance
from medvqa_hub.explore.runs import read_store_class
from mimic_cxr_vqa.generation.answer_keys import select_answer_text
from mimic_cxr_vqa.generation.answer_request import AS_CONTEXT, IMPRESSION, AnswerRequest
from mimic_cxr_vqa.judging.dimensions import BEST, DIMENSIONS, Verdict
from mimic_cxr_vqa.judging.pairs import Pair
from mimic_cxr_vqa.judging.verdicts import VERDICTS, JudgeRequest, open_verdicts, read_verdict, request_key
from mimic_cxr_vqa.release import Release
from mimic_cxr_vqa.workspace import Workspace

FAULTED, FAULTLESS, FAILED = "faulted", "faultless", "failed"
# filter value -> description
CHOICES = {
    FAULTED: "a judge faults it",
    FAULTLESS: "judged best in all four",
    **{f"{d.name}:{c}": f"{d.title}: {c}" for d in DIMENSIONS.values() for c in d.categories if c != d.best},
    FAILED: "no verdict came",
}


@dataclass(frozen=True)
class AnswerVerdict:
    """A judge's verdict on an answer, or the error."""

    judge: str
    verdict: Verdict | None
    error: str | None

    def to_json(self) -> dict[str, Any]:
        faults = [] if self.verdict is None else [DIMENSIONS[n].title + ": " + c for n, c in _faults(self.verdict)]
        return {"judge": self.judge, "faults": faults, "error": self.error}


class JudgeView:
    """All verdicts of one judge.

    Raises:
        InputError: the file of verdicts is damaged.
    """

    def __init__(self, file: Path, release: Release) -> None:
        self.name = file.parent.name
        self.governance: Governance = read_store_class(file)
        self._store = open_verdicts(file, self.governance)
        self._found = {found.key: found for found in self._store.predictions()}
        self._ids = {found.id for found in self._found.values()}
        self._impression = release.manifest.get("answers", {}).get(IMPRESSION)

    def __len__(self) -> int:
        return len(self._found)

    def has(self, qa_id: str) -> bool:
        """Whether any answer to the question was judged."""
        return qa_id in self._ids

    def find(self, row: dict[str, Any], category: str, study: dict[str, Any]) -> AnswerVerdict | None:
        """The verdict on the current answer of a row, or None.

        Args:
            row: with qa_id, question and answer.
            study: with the columns of STUDY_SCHEMA.
        """
        if row["qa_id"] not in self._ids:
            return None
        findings, impression = select_answer_text(study["findings"] or "", study["impression"], self._impression)
        known = impression if self._impression == AS_CONTEXT else None
        request = AnswerRequest(
            row["qa_id"],
            study["study_id"],
            category,
            row["question"],
            study["indication"],
            findings,
            impression=known,
        )
        found = self._found.get(request_key(self._store, JudgeRequest(Pair(request, row["answer"], "", ()))))
        return AnswerVerdict(self.name, read_verdict(self._store, found), found.error) if found is not None else None


def open_judges(release: Release) -> tuple[JudgeView, ...]:
    """The judges in the workspace of a release."""
    folder = Workspace(release.folder.parent).judge
    return tuple(JudgeView(file, release) for file in sorted(folder.glob(f"*/{VERDICTS}")))


def matches_verdict(choice: str, judged: list[AnswerVerdict]) -> bool:
    """Whether the verdicts on an answer match one of CHOICES."""
    if choice == FAILED:
        return any(one.verdict is None for one in judged)
    verdicts = [one.verdict for one in judged if one.verdict is not None]
    if choice == FAULTLESS:
        return bool(verdicts) and all(not _faults(verdict) for verdict in verdicts)
    if choice == FAULTED:
        return any(_faults(verdict) for verdict in verdicts)
    return any(choice in (f"{name}:{category}" for name, category in verdict.items()) for verdict in verdicts)


def _faults(verdict: Verdict) -> list[tuple[str, str]]:
    return [(name, category) for name, category in verdict.items() if category != BEST[name]]
