"""The folder that a dataset is built in: its parts, and their manifests.

    <out>/questions/   studies.parquet, questions.parquet, manifest.json (appears complete, by rename)
    <out>/answers.jsonl                append-only store (medvqa_core.store), one record per question
    <out>/answer_keys.parquet          which record answers which question (generation/answer_keys.py)
    <out>/judge/NAME/                  what a judge says of a sample of the answers (judging/verdicts.py)
    <out>/review/                      a sample for people and their ratings (judging/review.py)
    <out>/table3.json                  what judge and people come to (judging/table3.py)
    <out>/release/                     the finished dataset (release_writer.py)

`manifest.json` carries the governance class, the seed and the counts on to every later step.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.governance import Governance
from medvqa_core.json_files import read_manifest

SAMPLE_DIR = Path(__file__).parent / "sample"  # the bundled release
QUESTIONS_KIND, RELEASE_KIND = "questions", "release"  # what a manifest describes
FORMAT = 1
TABLES = ("studies.parquet", "questions.parquet")  # of the question step


@dataclass(frozen=True)
class Workspace:
    """Paths of one build."""

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
        """The manifest of the question step. Raises InputError where that step has not finished."""
        remedy = f"run: medvqa-hub cxr questions --out {self.root} (with --source and --root)"
        objects = ("counts", "label_counts", "questions_per_split")
        return read_manifest(self.questions, remedy, QUESTIONS_KIND, FORMAT, objects)

    def governance(self) -> Governance:
        """The class of the questions and reports: the manifest's, never below what the tables and the source demand.

        Raises:
            GovernanceError: the manifest names a class below that.
            InputError: a table is missing, or is not the one that the manifest describes.
        """
        from mimic_cxr_vqa.minimum_class import get_tables_governance, refuse_changed

        manifest = self.manifest()
        described = manifest.get("files", {})  # not in manifests of old
        refuse_changed({self.questions / name: described[name]["sha256"] for name in described})
        return get_tables_governance(manifest, [self.questions / name for name in TABLES], self.questions)

    def studies_with_questions(self) -> int:
        """How many studies there are to answer."""
        return self.manifest()["counts"]["studies_with_questions"]
