"""The governance class of a dataset folder: the class in its manifest, checked against a minimum from its content.

The minimum is the strictest of the class of the source that the manifest names, `credentialed` if a row has an id of
MIMIC's range, and `credentialed` if a file differs from the manifest's description (name, sha256). A lower class
is an error (`medvqa_core.minimum_class`). Folders that are already credentialed are not searched.
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
    """Return size and sha256 of files below `folder`, for its manifest."""
    return {str(p.relative_to(folder)): {"bytes": p.stat().st_size, "sha256": digest_file(p)} for p in sorted(paths)}


def check_unchanged(stated: Mapping[Path, str]) -> None:
    """Raise InputError if a file does not have its sha256 in `stated` (path -> sha256)."""
    changed = changed_files(stated)
    if changed:
        raise InputError(
            f"{changed[0]} does not have the sha256 that the manifest names ({len(changed)} such files): it is damaged "
            "or was edited. Copy the folder again or build it again"
        )


def get_tables_governance(manifest: Mapping[str, Any], tables: Iterable[Path], folder: Path) -> Governance:
    """Return the class of a folder of Parquet files.

    Raises:
        GovernanceError: the manifest lacks a class, or its class is below the minimum.
    """
    columns = ["subject_id", "study_id"]
    batches = (batch for path in tables for batch in iterate_parquet(path, columns=columns))
    return _check_class(manifest, batches, folder)


def get_csv_governance(manifest: Mapping[str, Any], found: Mapping[str, list[Path]], folder: Path) -> Governance:
    """Return the class of a folder in the authors' layout that has a manifest.

    Args:
        found: split -> its files.

    Raises:
        GovernanceError: as `get_tables_governance`, also for files that the manifest does not describe.
        InputError: a described file is missing or has changed.
    """
    paths = [path for files in found.values() for path in files]
    stated = parse(manifest.get("governance", ""), str(folder))
    foreign = _find_foreign(manifest, found, folder)
    if foreign and stated is Governance.CREDENTIALED:
        raise InputError(
            f"{foreign[0]} differs from its description in the manifest. Copy the folder again, or delete the manifest "
            "if the files are the authors' release"
        )
    if foreign:
        reason = f"{foreign[0].name}, which differs from its description in the manifest,"
        check_minimum_class(stated, Governance.CREDENTIALED, str(folder), reason)
    columns = {"patient_id": pa.string(), "study_id": pa.string()}
    return _check_class(manifest, (batch for path in paths for batch in iterate_csv(path, columns)), folder)


def _check_class(manifest: Mapping[str, Any], batches: Iterable[pa.RecordBatch], folder: Path) -> Governance:
    stated = parse(manifest.get("governance", ""), str(folder))
    if stated is Governance.CREDENTIALED:
        return stated
    source = manifest.get("source")
    stated = check_minimum_class(stated, minimum_class_for_source(source), str(folder), f"the source {source!r}")
    for batch in batches:
        ids = {name: batch[name] for name in batch.schema.names if name in ID_COLUMNS}
        found = minimum_class_for_columns(ids)
        check_minimum_class(stated, found, str(folder), "a patient or study id of MIMIC's range")
    return stated


def _find_foreign(manifest: Mapping[str, Any], found: Mapping[str, list[Path]], folder: Path) -> list[Path]:
    """The CSV files whose sha256 the manifest does not describe."""
    described = manifest.get("files", {})
    missing = [name for name in described if not (folder / name).exists()]
    if missing:
        raise InputError(f"{folder / missing[0]} is in the manifest but missing. Copy the folder again")
    paths = [path for files in found.values() for path in files]
    stated = {path: described[path.name]["sha256"] for path in paths if path.name in described}
    return [path for path in paths if path not in stated] + changed_files(stated)
