"""Write questions for 227,835 synthetic label rows with array operations, against a scan of the label table per study.

The baseline looks up each study in the label table and its images in the metadata table, loops over the labels, and
draws the not-mentioned questions one by one. It is timed on `BASELINE_STUDIES` studies spread over the table and scaled
up, because each study costs the same. Both ways write rows with the same columns. Label values are as frequent as in
the paper's Table 2, a study has two images, and 60% of the findings contain "heart".

Run: python benchmarks/questions.py
"""

import random
import time

import numpy as np
import pandas as pd
import pyarrow as pa
from timing import write_result

from mimic_cxr_vqa.generation.questions import DRAWS_PER_POSITIVE, NOT_MENTIONED, question_batches
from mimic_cxr_vqa.question_list import QUESTIONS
from mimic_cxr_vqa.schema import CATEGORIES, CHEXPERT_LABELS, HEART, LABELS_TYPE, NO_FINDING, STUDY_SCHEMA

STUDIES = 227_835
BASELINE_STUDIES = 1_000
TARGET_RATIO, TARGET_SECONDS = 100, 15
LABEL_FREQUENCIES = {1: 423_065, 0: 158_614, -1: 75_018, NOT_MENTIONED: 2_532_881}  # paper, Table 2


def make_studies(seed: int = 0) -> pa.Table:
    """STUDY_SCHEMA rows with random labels, two images each."""
    rng = np.random.default_rng(seed)
    counts = np.array(list(LABEL_FREQUENCIES.values()), float)
    labels = rng.choice(list(LABEL_FREQUENCIES), size=(STUDIES, len(CHEXPERT_LABELS)), p=counts / counts.sum())
    arrays = [pa.array(column.astype(np.int8), mask=column == NOT_MENTIONED) for column in labels.T]
    ids = np.arange(STUDIES)
    views = ("PA", "LL")
    images = [[{"path": f"p90/s{i}/{v}.jpg", "dicom_id": f"{i}-{v}", "view": v} for v in views] for i in ids]
    columns = {
        "subject_id": 90_000_000 + ids // 3,
        "study_id": 95_000_000 + ids,
        "split": ["train"] * STUDIES,
        "findings": np.where(rng.random(STUDIES) < 0.6, "The heart is normal in size.", "Clear lungs.").tolist(),
        "impression": [None] * STUDIES,
        "indication": ["Cough."] * STUDIES,
        "labels": pa.StructArray.from_arrays(arrays, fields=list(LABELS_TYPE)),
        "images": images,
    }
    return pa.table([columns[name] for name in STUDY_SCHEMA.names], schema=STUDY_SCHEMA)


def as_frames(studies: pa.Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The label table (a row per study) and the metadata table (a row per image) as a data-frame user has them."""
    labels = studies["labels"].combine_chunks().flatten()
    columns = dict(zip(CHEXPERT_LABELS, (array.cast(pa.float32()).to_numpy(False) for array in labels), strict=True))
    names = ("subject_id", "study_id", "split", "findings", "indication")
    table = pd.DataFrame({**{name: studies[name].to_numpy() for name in names}, **columns})
    images = studies["images"].combine_chunks().flatten()
    path, _, view = (array.to_pylist() for array in images.flatten())
    return table, pd.DataFrame({"study_id": np.repeat(table["study_id"], 2).to_numpy(), "path": path, "view": view})


def scan_per_study(table: pd.DataFrame, metadata: pd.DataFrame, study_ids: list[int]) -> list[dict]:
    """The baseline: one boolean scan of both tables per study."""
    rows = []
    for study_id in study_ids:
        study = table[table["study_id"] == study_id].iloc[0]
        images = metadata[metadata["study_id"] == study_id]
        shared = {
            "subject_id": study["subject_id"], "study_id": study_id, "split": study["split"],
            "indication": study["indication"], "images": images["path"].tolist(), "views": images["view"].tolist(),
        }  # fmt: skip
        labels = {label: study[label] for label in CHEXPERT_LABELS}
        if "heart" in study["findings"].lower():
            labels[HEART] = 1.0
        missing = [label for label in CHEXPERT_LABELS if pd.isna(labels[label]) and label != NO_FINDING]
        stated = [label for label in CATEGORIES if not pd.isna(labels.get(label))]
        chosen = [(label, question) for label in stated for question in QUESTIONS[label]]
        drawn = set()
        for _ in range(DRAWS_PER_POSITIVE * sum(value == 1 for value in labels.values())):
            label = random.choice(missing)
            left = [question for question in QUESTIONS[label] if (label, question) not in drawn]
            if left:
                drawn.add((label, random.choice(left)))
        for label, question in [*chosen, *sorted(drawn)]:
            qa_id = f"s{study_id}-{label}-{QUESTIONS[label].index(question) + 1}"
            value = labels.get(label)
            rows.append({**shared, "qa_id": qa_id, "category": label, "question": question, "label_value": value})
    return rows


def main() -> None:
    studies = make_studies()
    start = time.perf_counter()
    questions = sum(len(batch) for batch in question_batches(studies, seed=0))
    seconds = time.perf_counter() - start

    table, metadata = as_frames(studies)
    sample = table["study_id"].iloc[:: STUDIES // BASELINE_STUDIES].tolist()
    start = time.perf_counter()
    rows = scan_per_study(table, metadata, sample)
    baseline = (time.perf_counter() - start) * STUDIES / len(sample)
    per_study = (questions / STUDIES, len(rows) / len(sample))
    assert abs(per_study[0] - per_study[1]) < 1, f"the two ways follow different rules: {per_study} questions per study"

    ratio = baseline / seconds
    met = ratio >= TARGET_RATIO and seconds < TARGET_SECONDS
    print(
        f"{STUDIES:,} studies -> {questions:,} question rows in {seconds:.2f} s; per-study scan {baseline:.0f} s "
        f"(scaled up from {len(sample):,} studies): {ratio:.0f}x (targets {TARGET_RATIO}x and < {TARGET_SECONDS} s: "
        f"{'reached' if met else 'MISSED'})"
    )
    figures = {
        "studies": STUDIES,
        "questions": questions,
        "seconds": round(seconds, 2),
        "baseline_studies": len(sample),
    }
    write_result("questions", {**figures, "baseline_seconds": round(baseline, 1), "ratio": round(ratio, 1)})


if __name__ == "__main__":
    main()
