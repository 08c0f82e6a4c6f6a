"""The folder that a dataset is built in, and its first step: studies and their questions.

    <out>/questions/   studies.parquet, questions.parquet, manifest.json (appears complete, by rename)
    <out>/answers.jsonl                append-only store (medvqa_core.store), one record per question
    <out>/release/                     the finished dataset (release_writer.py)

`manifest.json` carries the governance class, the seed and the counts on to every later step.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medvqa_core.errors import InputError
from medvqa_core.files import MANIFEST, atomic_folder
from medvqa_core.governance import Governance, parse
from medvqa_core.progress import track
from mimic_cxr_vqa.generation.questions import STUDIES_PER_BATCH, eligible_studies, question_batches
from mimic_cxr_vqa.schema import QUESTION_SCHEMA, SPLITS
from mimic_cxr_vqa.sources import StudySet
from mimic_cxr_vqa.statistics import count_labels

QUESTIONS_KIND, RELEASE_KIND = "questions", "release"  # what a manifest describes
FORMAT = 1


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
    def release(self) -> Path:
        return self.root / "release"

    def manifest(self) -> dict[str, Any]:
        """The manifest of the question step. Raises InputError where that step has not finished."""
        remedy = f"run: medvqa-hub cxr questions --out {self.root} (with --source and --root)"
        return read_manifest(self.questions, QUESTIONS_KIND, remedy, ("counts", "label_counts", "questions_per_split"))

    def studies_with_questions(self) -> int:
        """How many studies there are to answer."""
        return self.manifest()["counts"]["studies_with_questions"]


def write_questions(study_set: StudySet, workspace: Workspace, seed: int) -> dict[str, Any]:
    """Write the studies and their questions; returns the manifest. Replaces what an earlier run left.

    Raises:
        InputError: no study has a findings section, so there is nothing to ask about.
        OutputError: the folder cannot be written.
    """
    studies = study_set.studies
    eligible = eligible_studies(studies)
    if not len(eligible):
        raise InputError(
            f"{study_set.source}: none of {len(studies)} studies has a findings section; check that the "
            "reports are there"
        )
    with atomic_folder(workspace.questions, QUESTIONS_KIND, study_set.governance is Governance.CREDENTIALED) as folder:
        pq.write_table(studies, folder / "studies.parquet", compression="zstd")
        per_split: Counter[str] = Counter()
        with_questions = 0
        with pq.ParquetWriter(folder / "questions.parquet", QUESTION_SCHEMA, compression="zstd") as writer:
            batches = question_batches(eligible, seed)
            for batch in track(batches, "Drawing questions", total=-(-len(eligible) // STUDIES_PER_BATCH)):
                writer.write_batch(batch)
                per_split.update(batch["split"].to_pylist())
                with_questions += len(batch["study_id"].unique())
        manifest = {
            "kind": QUESTIONS_KIND,
            "format": FORMAT,
            "source": study_set.source,
            "governance": str(study_set.governance),
            "seed": seed,
            "counts": {
                "studies": len(studies),
                "studies_without_findings": len(studies) - len(eligible),
                "studies_with_questions": with_questions,
                "questions": per_split.total(),
                **study_set.notes,
            },
            "questions_per_split": {split: per_split[split] for split in SPLITS if per_split[split]},
            "label_counts": count_labels([studies]),
        }
        write_manifest(folder, manifest)
    return manifest


def read_manifest(folder: Path, kind: str, remedy: str, fields: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read and check `<folder>/manifest.json`.

    Args:
        fields: objects that it must have.

    Raises:
        InputError: it is absent, of another kind, or lacks a field; the message ends in `remedy`.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {remedy}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); {remedy}") from None
    if not isinstance(manifest, dict) or manifest.get("kind") != kind or manifest.get("format") != FORMAT:
        raise InputError(f"{path}: not a {kind} manifest of format {FORMAT}; {remedy}")
    parse(manifest.get("governance", ""), str(path))
    for field in fields:
        if not isinstance(manifest.get(field), dict):
            raise InputError(f"{path}: no object {field!r}; {remedy}")
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write `<folder>/manifest.json` with sorted keys: the same content is the same bytes."""
    text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def governance_of(manifest: dict[str, Any]) -> Governance:
    """The class that a checked manifest carries."""
    return Governance(manifest["governance"])


def read_table(path: Path) -> pa.Table:
    """A whole Parquet file. Raises InputError where it is missing or damaged."""
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error}); run the step that writes it again") from None


def count_rows(path: Path) -> int:
    """Rows of a Parquet file, from its footer. Raises InputError where the file is missing or damaged."""
    try:
        return pq.read_metadata(path).num_rows
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error}); run the step that writes it again") from None


def iterate_parquet(path: Path, rows: int = 65536, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Record batches of at most `rows` rows. Raises InputError where the file is missing or damaged."""
    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=rows, columns=columns)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error}); run the step that writes it again") from None
