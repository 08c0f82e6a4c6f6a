"""Parquet shards of a synthetic release with its images inside, for a dataset that loads without this package.

    data/<split>-00000-of-00002.parquet   a row per study: report, labels, images, questions, and the chat messages

The images are never read from a disk. They are drawn again from the parameters of the phantom tree, so that a file in
its place cannot leave the machine. The paths of every study must be those that the parameters give.
"""

import io
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import Features, Image, List

from hub_cards.dataset_info import CardConfig
from medvqa_core.chat_rows import MESSAGES, conversations
from medvqa_core.errors import GovernanceError, InputError
from medvqa_core.governance import Governance
from medvqa_core.image_shards import FOLDER, ROWS_PER_GROUP, SHARD_BYTES, write_split
from medvqa_core.json_files import read_object
from medvqa_core.progress import track
from mimic_cxr_vqa.card import HUB_SPLITS
from mimic_cxr_vqa.contact_sheet import draw_contact_sheet
from mimic_cxr_vqa.parquet_files import read_table
from mimic_cxr_vqa.phantom.specs import StudySpec, sample_studies
from mimic_cxr_vqa.phantom.tree import MARKER, draw_jpeg, image_path
from mimic_cxr_vqa.release import Release
from mimic_cxr_vqa.schema import QA_SCHEMA
from mimic_cxr_vqa.study_rows import STUDY_ROW_SCHEMA, group_by_study, whole_studies

_COLUMNS = {**Features.from_arrow_schema(STUDY_ROW_SCHEMA), "images": List(Image())}
FEATURES = Features({"images": _COLUMNS.pop("images"), **_COLUMNS, "messages": MESSAGES})  # images first, for viewers
STUDY_COLUMNS = [name for name in FEATURES if name != "messages"]
CHAT_COLUMNS = ["subject_id", "study_id", "images", "messages"]
QA_FEATURES = Features.from_arrow_schema(QA_SCHEMA)


def read_parameters(tree: Path) -> dict[str, Any]:
    """Return the parameters of a phantom tree. Raises InputError if `tree` is not one."""
    found = read_object(tree / MARKER, "name the folder that medvqa-hub cxr phantom wrote")
    if found.get("source") != "phantom" or not all(type(found.get(n)) is int for n in ("seed", "size", "studies")):
        raise InputError(f"{tree / MARKER} does not describe a phantom tree. Write it with medvqa-hub cxr phantom")
    return found


def list_configs(files: dict[str, list[Path]], qa_files: dict[str, list[Path]]) -> list[CardConfig]:
    """Return the configs of a dataset with embedded images.

    Args:
        files: shards of `write_shards`.
        qa_files: split (MIMIC's names) -> shards of the release's questions.
    """
    qa = {HUB_SPLITS[split]: paths for split, paths in qa_files.items()}
    return [
        CardConfig("studies", FOLDER, FEATURES, files, STUDY_COLUMNS, default=True),
        CardConfig("chat", FOLDER, FEATURES, files, CHAT_COLUMNS),
        CardConfig("qa", "qa", QA_FEATURES, qa),
    ]


def write_shards(
    release: Release, parameters: dict[str, Any], folder: Path, shard_bytes: int = SHARD_BYTES, processes: int = 1
) -> dict[str, list[Path]]:
    """Write the shards of all splits to `folder`/data and return them by split (Hub names).

    Args:
        parameters: of the phantom tree (`read_parameters`).

    Raises:
        GovernanceError: the release is not synthetic, or a study is not the one that the parameters give.
    """
    if release.governance is not Governance.OPEN or release.manifest.get("source") != "phantom":
        raise GovernanceError(f"{release.folder} is not a synthetic release, so its images must not be embedded")
    specs = {spec.study_id: spec for spec in sample_studies(parameters["studies"], parameters["seed"])}
    patients: dict = {}
    shards = {}
    for split, files in release.studies.items():
        studies = pa.concat_tables(map(read_table, files))
        rows = _group_rows(release.iterate_split(split, patients), studies)
        name = HUB_SPLITS[split]
        tables = _draw_images(rows, specs, parameters["size"], processes)
        shards[name] = write_split(track(tables, f"Drawing the {name} split"), folder, name, shard_bytes)
    return {name: paths for name, paths in shards.items() if paths}


def draw_examples(folder: Path, path: Path, studies: int = 4) -> None:
    """Draw a contact sheet of the first studies of `write_shards` for the card."""
    shard = next(path for split in HUB_SPLITS.values() for path in sorted((folder / FOLDER).glob(f"{split}-*")))
    with pq.ParquetFile(shard) as file:
        rows = next(file.iter_batches(studies, columns=[n for n in STUDY_COLUMNS if n != "labels"])).to_pylist()
    for row in rows:
        row["images"] = [PIL.Image.open(io.BytesIO(image["bytes"])) for image in row["images"]]
    draw_contact_sheet(rows, path, questions=3)


def _group_rows(batches: Iterator[pa.RecordBatch], studies: pa.Table) -> Iterator[pa.Table]:
    """Tables of at most ROWS_PER_GROUP rows with the column `messages`."""
    for whole in whole_studies(batches):
        rows = group_by_study(whole, studies)
        offsets = np.concatenate([[0], np.cumsum(pc.list_value_length(rows["questions"]).to_numpy())])
        images = pc.list_value_length(rows["images"]).to_pylist()
        messages = conversations(whole["question"].to_pylist(), whole["answer"].to_pylist(), offsets, images)
        rows = rows.append_column("messages", messages)
        for start in range(0, len(rows), ROWS_PER_GROUP):
            yield rows.slice(start, ROWS_PER_GROUP)


def _draw_images(
    tables: Iterator[pa.Table], specs: dict[int, StudySpec], size: int, processes: int
) -> Iterator[pa.Table]:
    """Replace image paths by images as `datasets` stores them, drawn from the specs of the studies."""
    draw = partial(_draw_study, size=size)
    with ProcessPoolExecutor(processes) if processes > 1 else nullcontext() as pool:
        for rows in tables:
            found = [
                _find_spec(specs, *row)
                for row in zip(rows["study_id"].to_pylist(), rows["images"].to_pylist(), strict=True)
            ]
            images = list(pool.map(draw, found, chunksize=4) if pool else map(draw, found))
            place = rows.schema.get_field_index("images")
            rows = rows.set_column(place, "images", pa.array(images, FEATURES.arrow_schema.field("images").type))
            yield rows.select(list(FEATURES)).cast(FEATURES.arrow_schema).replace_schema_metadata(None)


def _find_spec(specs: dict[int, StudySpec], study_id: int, paths: list[str]) -> StudySpec:
    spec = specs.get(study_id)
    if spec is None or paths != _paths(spec):
        raise GovernanceError(
            f"study {study_id} is not one of this phantom tree. Name the tree that the release was built from"
        )
    return spec


def _paths(spec: StudySpec) -> list[str]:
    return [image_path(spec, dicom_id).removeprefix("files/") for dicom_id in spec.dicom_ids]


def _draw_study(spec: StudySpec, size: int) -> list[dict[str, Any]]:
    return [{"bytes": draw_jpeg(spec, n, size), "path": path} for n, path in enumerate(_paths(spec))]
