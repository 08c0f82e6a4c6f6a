"""The governance class of a dataset folder: what its manifest says, with a floor from what its files hold.

The floor is the strictest of three: the class of the source that the manifest names; `credentialed` where a row has an
id of MIMIC's range; `credentialed` where a file is not one that the manifest describes (name, sha256, rows). A class
below its floor is an error (`medvqa_core.minimum_class`). What says `credentialed` is not looked into: no floor is
higher.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from medvqa_core.csv_files import iterate_csv
from medvqa_core.digests import digest_file
from medvqa_core.errors import InputError
from medvqa_core.governance import Governance, parse
from medvqa_core.minimum_class import (
    ID_COLUMNS,
    check_minimum_class,
    minimum_class_for_columns,
    minimum_class_for_source,
)
from medvqa_core.verified_files import changed_files
from mimic_cxr_vqa.parquet_files import iterate_parquet


def describe_files(folder: Path, paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Size and sha256 of files of `folder`, for its manifest."""
    return {str(p.relative_to(folder)): {"bytes": p.stat().st_size, "sha256": digest_file(p)} for p in sorted(paths)}


def refuse_changed(stated: Mapping[Path, str]) -> None:
    """Compare files with the sha256 that a manifest states of them (path -> sha256).

    Raises:
        InputError: one has another content, by a single bit.
    """
    changed = changed_files(stated)
    if changed:
        raise InputError(
            f"{changed[0]}: its content is not what the manifest describes (another sha256; {len(changed)} such): bits "
            "have changed, or the file was edited; copy the folder again or build it again"
        )


def get_tables_governance(manifest: Mapping[str, Any], tables: Iterable[Path], folder: Path) -> Governance:
    """The class of a folder of Parquet files.

    Raises:
        GovernanceError: the manifest names a class below the floor, or none.
    """
    columns = ["subject_id", "study_id"]
    batches = (batch for path in tables for batch in iterate_parquet(path, columns=columns))
    return _class_of(manifest, batches, folder)


def get_csv_governance(manifest: Mapping[str, Any], found: Mapping[str, list[Path]], folder: Path) -> Governance:
    """The class of a folder with the authors' layout and a manifest beside it.

    Args:
        found: split -> its files.

    Raises:
        GovernanceError: as `get_tables_governance`, also for files that the manifest does not describe.
        InputError: a described file is missing or has changed.
    """
    paths = [path for files in found.values() for path in files]
    stated = parse(manifest.get("governance", ""), str(folder))
    foreign = _not_described(manifest, found, folder)
    if foreign and stated is Governance.CREDENTIALED:
        raise InputError(
            f"{foreign[0]}: not what the manifest beside it describes; copy the folder again, or delete the manifest "
            "if the files are the authors' release"
        )
    if foreign:
        reason = f"{foreign[0].name}, which is not what the manifest describes,"
        check_minimum_class(stated, Governance.CREDENTIALED, str(folder), reason)
    columns = {"patient_id": pa.string(), "study_id": pa.string()}
    return _class_of(manifest, (batch for path in paths for batch in iterate_csv(path, columns)), folder)


def _class_of(manifest: Mapping[str, Any], batches: Iterable[pa.RecordBatch], folder: Path) -> Governance:
    stated = parse(manifest.get("governance", ""), str(folder))
    if stated is Governance.CREDENTIALED:
        return stated
    source = manifest.get("source")
    stated = check_minimum_class(stated, minimum_class_for_source(source), str(folder), f"the source {source!r}")
    for batch in batches:
        ids = {name: batch[name] for name in batch.schema.names if name in ID_COLUMNS}
        check_minimum_class(
            stated, minimum_class_for_columns(ids), str(folder), "a patient or study id of MIMIC's range"
        )
    return stated


def _not_described(manifest: Mapping[str, Any], found: Mapping[str, list[Path]], folder: Path) -> list[Path]:
    """The CSV files that the manifest does not speak of: by sha256; by the number of rows in manifests without it."""
    described = manifest.get("files")
    if isinstance(described, dict):
        missing = [name for name in described if not (folder / name).exists()]
        if missing:
            raise InputError(f"{folder / missing[0]} is missing, the manifest describes it; copy the folder again")
        paths = [path for files in found.values() for path in files]
        stated = {path: described[path.name]["sha256"] for path in paths if path.name in described}
        return [path for path in paths if path not in stated] + changed_files(stated)
    rows = manifest.get("rows", {})
    return [files[0] for split, files in found.items() if _count_rows(files) != rows.get(split)]


def _count_rows(files: list[Path]) -> int:
    return sum(len(batch) for path in files for batch in iterate_csv(path, {"study_id": pa.string()}))
