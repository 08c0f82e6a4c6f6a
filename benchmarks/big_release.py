"""A generated release as large as MIMIC-CXR-VQA, for benchmarks: real categories and questions, invented answers.

14 questions a study, two images, texts of the real length (answers some 120 characters, findings some 600). Ids are
those of synthetic studies, so the release is open. Image files do not exist.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medvqa_core.json_files import write_manifest
from mimic_cxr_vqa.minimum_class import describe_files
from mimic_cxr_vqa.parquet_files import WRITING
from mimic_cxr_vqa.question_list import QUESTIONS
from mimic_cxr_vqa.release_writer import ROWS_PER_GROUP, ROWS_PER_SHARD, STUDIES_PER_GROUP
from mimic_cxr_vqa.schema import CATEGORIES, LABEL_VALUES, PROVENANCE_TYPE, QA_SCHEMA, STUDY_SCHEMA, category_slug
from mimic_cxr_vqa.workspace import FORMAT, RELEASE_KIND

PER_STUDY = 14
COMMON = ("no", "focal", "opacity", "small", "left", "right", "pleural", "effusion", "is", "seen", "at", "base", "mild")
LISTED = [(category, number) for category in CATEGORIES for number in range(1, 7)]
RARE = "tension pneumothorax"  # one answer in 5,000 has it: what a search has to look for


def write_big_release(folder: Path, rows: int, seed: int = 0) -> None:
    """Write a release of about `rows` rows (whole studies) into `folder`."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghiklmnoprstu"))
    words = pa.array([*COMMON, *("".join(rng.choice(letters, 6)) for _ in range(2000))])
    studies, per_shard = -(-rows // PER_STUDY), ROWS_PER_SHARD // PER_STUDY
    for name in ("qa", "studies"):
        (folder / name).mkdir(parents=True)
    shards = -(-studies // per_shard)
    for shard in range(shards):
        places = np.arange(shard * per_shard, min(studies, (shard + 1) * per_shard))
        name = f"train-{shard:05d}-of-{shards:05d}.parquet"
        qa = _questions(places, _texts(rng, words, 18, len(places) * PER_STUDY))
        pq.write_table(qa, folder / "qa" / name, **WRITING, row_group_size=ROWS_PER_GROUP)
        studied = _studies(places, _texts(rng, words, 90, len(places)))
        pq.write_table(studied, folder / "studies" / name, **WRITING, row_group_size=STUDIES_PER_GROUP)
    splits = {"train": {"rows": studies * PER_STUDY, "studies": studies, "shards": shards}}
    manifest = {
        "kind": RELEASE_KIND,
        "format": FORMAT,
        "dataset": "mimic_cxr_vqa",
        "source": "phantom",
        "governance": "open",
        "answers": {"engine": "made up"},
        "counts": {"rows": studies * PER_STUDY},
        "splits": splits,
        "files": describe_files(folder, folder.rglob("*.parquet")),
    }
    write_manifest(folder, manifest, sort_keys=True)


def _paths(place: int) -> list[str]:
    patient, study = 90_000_000 + place // 3, 95_000_000 + place
    return [f"p90/p{patient}/s{study}/{place:08x}-0a1b2c3d-4e5f6071-8293a4b5-{i:08x}.jpg" for i in range(2)]


def _texts(rng: np.random.Generator, words: pa.Array, length: int, number: int) -> pa.Array:
    """Sentences of `length` words. One in 5,000 names the rare finding."""
    drawn = [words.take(pa.array(rng.integers(len(words), size=number))) for _ in range(length)]
    texts = pc.binary_join_element_wise(*drawn, " ")
    rare = pa.array(np.arange(number) % 5000 == 17)
    return pc.if_else(rare, f"The radiograph shows a {RARE} on the left.", texts)


def _questions(places: np.ndarray, answers: pa.Array) -> pa.Table:
    rows = np.repeat(places, PER_STUDY)
    number = np.tile(np.arange(PER_STUDY), len(places))
    listed = (rows * 31 + number) % len(LISTED)
    labels = tuple(LABEL_VALUES.values())
    category = [LISTED[i][0] for i in listed]
    ids = [
        f"s{95_000_000 + row}-{category_slug(LISTED[i][0])}-{LISTED[i][1]}" for row, i in zip(rows, listed, strict=True)
    ]
    paths = [path for row in places for path in [_paths(int(row))] * PER_STUDY]
    flagged = (rows * PER_STUDY + number) % 97 == 0
    provenance = {
        "engine": "made up",
        "model": "words",
        "revision": "1",
        "prompt_version": "1",
        "temperature": 0.0,
        "seed": 0,
        "attempts": 1,
    }
    columns = {
        "qa_id": ids,
        "subject_id": 90_000_000 + rows // 3,
        "study_id": 95_000_000 + rows,
        "split": ["train"] * len(rows),
        "category": category,
        "label_value": [labels[(row + i // 6) % 4] for row, i in zip(rows, listed, strict=True)],
        "question": [QUESTIONS[LISTED[i][0]][LISTED[i][1] - 1] for i in listed],
        "answer": answers,
        "answer_type": ["open"] * len(rows),
        "indication": [f"cough and fever {row % 5000}" for row in rows],
        "images": paths,
        "views": [["PA", "LL"]] * len(rows),
        "provenance": pa.array(
            [{**provenance, "lint": ["relative:since"] if flag else []} for flag in flagged], PROVENANCE_TYPE
        ),
    }
    return pa.table([columns[name] for name in QA_SCHEMA.names], schema=QA_SCHEMA)


def _studies(places: np.ndarray, findings: pa.Array) -> pa.Table:
    images = [
        [
            {"path": path, "dicom_id": None, "view": view}
            for path, view in zip(_paths(int(p)), ("PA", "LL"), strict=True)
        ]
        for p in places
    ]
    columns = {
        "subject_id": 90_000_000 + places // 3,
        "study_id": 95_000_000 + places,
        "split": ["train"] * len(places),
        "findings": findings,
        "impression": ["No acute process."] * len(places),
        "indication": [f"cough and fever {p % 5000}" for p in places],
        "labels": [{"Edema": (1, 0, -1, None)[int(p) % 4]} for p in places],
        "images": images,
    }
    return pa.table([columns[name] for name in STUDY_SCHEMA.names], schema=STUDY_SCHEMA)
