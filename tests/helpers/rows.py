"""Small studies and question-answer rows for tests, with ids far from MIMIC's ranges."""

from typing import Any

import pyarrow as pa

from mimic_cxr_vqa.schema import CHEXPERT_LABELS, QA_SCHEMA, STUDY_SCHEMA

FIRST_SUBJECT, FIRST_STUDY = 90_000_001, 95_000_001


def study(number: int = 0, labels: dict[str, int] | None = None, **fields: Any) -> dict[str, Any]:
    """Study row `number`; every label that is not given is missing."""
    return {
        "subject_id": FIRST_SUBJECT + number,
        "study_id": FIRST_STUDY + number,
        "split": "train",
        "findings": "The lungs are clear.",
        "impression": None,
        "indication": f"indication {number}",
        "labels": {label: (labels or {}).get(label) for label in CHEXPERT_LABELS},
        "images": [{"path": f"{number}.jpg", "dicom_id": str(number), "view": "PA"}],
        **fields,
    }


def study_table(*studies: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(studies), schema=STUDY_SCHEMA)


def qa_row(number: int = 0, slug: str = "edema-1", **fields: Any) -> dict[str, Any]:
    """QA row of study `number`; `slug` is the end of its qa_id."""
    return {
        "qa_id": f"s{FIRST_STUDY + number}-{slug}",
        "subject_id": FIRST_SUBJECT + number,
        "study_id": FIRST_STUDY + number,
        "split": "train",
        "category": "Edema",
        "label_value": "positive",
        "question": "Is Edema observed?",
        "answer": "Edema is seen.",
        "answer_type": "open",
        "indication": "cough",
        "images": [f"{number}.jpg"],
        "views": ["PA"],
        "provenance": {"engine": "authors", "lint": []},
        **fields,
    }


def qa_batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=QA_SCHEMA)
