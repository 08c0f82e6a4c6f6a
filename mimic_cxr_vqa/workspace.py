"""The folder that a dataset is built in, with its parts and their manifests.

    <out>/questions/            studies.parquet, questions.parquet, manifest.json
    <out>/answers.jsonl         append-only store (medvqa_core.store), one record per question
    <out>/answer_keys.parquet   which record answers which question (generation/answer_keys.py)
    <out>/judge/NAME/           a judge's verdicts on a sample of the answers (judging/verdicts.py)
    <out>/review/               a sample for people and their ratings (judging/review.py)
    <out>/table3.json           the results of judge and people (judging/table3.py)
    <out>/release/              the finished dataset (release_writer.py)

`manifest.json` passes the governance class, the seed and the counts to later steps.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.governance import Governance
from medvqa_core.json_files import read_manifest

SAMPLE_DIR = Path(__file__).parent / "sample"  # the bundled release
QUESTIONS_KIND, RELEASE_KIND = "questions", "release"  # values of "kind" in manifests
FORMAT = 1
TABLES = ("studies.parquet", "questions.parquet")  # of the question step


@dataclass(frozen=True)
class Workspace:
    """The paths of one build."""

    root: Path

    @property
    def questions(self) -> Path:
        return self.root / "questions"

    @property
    def answers(self) -> Path:
        return self.root / "answers.jsonl"

    @property
    def answer_keys(self) -> Path:
        return self.root / "answer_keys.parquet"

    @property
    def judge(self) -> Path:
        return self.root / "judge"

    @property
    def review(self) -> Path:
        return self.root / "review"

    @property
    def table3(self) -> Path:
        return self.root / "table3.json"

    @property
    def release(self) -> Path:
        return self.root / "release"

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of the question step. Raises InputError if that step has not finished."""
        remedy = f"run: medvqa-hub cxr questions --out {self.root} (with --source and --root)"
        objects = ("counts", "label_counts", "questions_per_split")
        return read_manifest(self.questions, remedy, QUESTIONS_KIND, FORMAT, objects)

    def governance(self) -> Governance:
        """Return the class of the questions and reports.

        Raises:
            GovernanceError: the manifest names a class below the minimum of its content.
            InputError: a table is missing or differs from the manifest.
        """
        from mimic_cxr_vqa.minimum_class import check_unchanged, get_tables_governance

        manifest = self.manifest()
        described = manifest.get("files", {})  # absent in manifests of earlier versions
        check_unchanged({self.questions / name: described[name]["sha256"] for name in described})
        return get_tables_governance(manifest, [self.questions / name for name in TABLES], self.questions)

    def studies_with_questions(self) -> int:
        """Return the number of studies to answer."""
        return self.manifest()["counts"]["studies_with_questions"]
