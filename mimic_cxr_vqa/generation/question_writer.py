"""The first step of a build: write the studies and their questions to `<out>/questions/`.

The folder appears by rename when it is complete. Later steps read the governance class, the seed and the counts from
its manifest.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medvqa_core.errors import InputError
from medvqa_core.files import atomic_folder
from medvqa_core.json_files import write_manifest
from medvqa_core.progress import track
from mimic_cxr_vqa.generation.questions import STUDIES_PER_BATCH, eligible_studies, question_batches
from mimic_cxr_vqa.minimum_class import describe_files
from mimic_cxr_vqa.parquet_files import WRITING
from mimic_cxr_vqa.schema import CHEXPERT_LABELS, LABEL_VALUES, QUESTION_SCHEMA, SPLITS
from mimic_cxr_vqa.sources.study_set import StudySet
from mimic_cxr_vqa.workspace import FORMAT, QUESTIONS_KIND, Workspace


def write_questions(
    study_set: StudySet, workspace: Workspace, seed: int, read_with: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write the studies and their questions, replacing an earlier run. Returns the manifest.

    Args:
        read_with: how the source was read (`SourceOptions.described`), for rebuilding the questions.

    Raises:
        InputError: no study has a findings section.
        OutputError: the folder cannot be written.
    """
    studies = study_set.studies
    eligible = eligible_studies(studies)
    if not len(eligible):
        raise InputError(
            f"{study_set.source}: none of {len(studies)} studies has a findings section. Check that the reports exist."
        )
    with atomic_folder(workspace.questions, QUESTIONS_KIND, study_set.governance.private) as folder:
        pq.write_table(studies, folder / "studies.parquet", **WRITING)
        per_split: Counter[str] = Counter()
        with_questions = 0
        with pq.ParquetWriter(folder / "questions.parquet", QUESTION_SCHEMA, **WRITING) as writer:
            batches = question_batches(eligible, seed)
            for batch in track(batches, "Drawing questions", total=-(-len(eligible) // STUDIES_PER_BATCH)):
                writer.write_batch(batch)
                per_split.update(batch["split"].to_pylist())
                with_questions += len(batch["study_id"].unique())
        manifest: dict[str, Any] = {
            "kind": QUESTIONS_KIND,
            "format": FORMAT,
            "source": study_set.source,
            "governance": str(study_set.governance),
            "seed": seed,
            "counts": {
                "studies": len(studies),
                "studies_without_findings": len(studies) - len(eligible),
                "studies_without_a_stated_label": len(eligible) - with_questions,
                "studies_with_questions": with_questions,
                "questions": per_split.total(),
                **study_set.notes,
            },
            "questions_per_split": {split: per_split[split] for split in SPLITS if per_split[split]},
            "label_counts": count_labels(studies),
            "section_rules": dict(study_set.section_rules),
            **({"read_with": dict(read_with)} if read_with is not None else {}),
        }
        manifest["files"] = describe_files(folder, folder.glob("*.parquet"))
        write_manifest(folder, manifest, sort_keys=True)
    return manifest


def count_labels(studies: pa.Table) -> dict[str, dict[str, int]]:
    """{CheXpert label: {label value: studies}} of `studies` (`schema.STUDY_SCHEMA`).

    Raises:
        InputError: a label is not 1, 0, -1 or null.
    """
    counts = {label: dict.fromkeys(LABEL_VALUES.values(), 0) for label in CHEXPERT_LABELS}
    for label in CHEXPERT_LABELS:
        for entry in pc.value_counts(pc.struct_field(studies["labels"], label)).to_pylist():
            if entry["values"] not in LABEL_VALUES:
                raise InputError(f"label {label!r} is {entry['values']}. Expected 1, 0, -1 or null.")
            counts[label][LABEL_VALUES[entry["values"]]] = entry["counts"]
    return counts
