"""Metadata of dataset cards that the Hub's viewer and `load_dataset` read: features, splits and sizes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa_core.digests import digest

if TYPE_CHECKING:
    from datasets import Features

_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M")


def size_category(rows: int) -> str:
    """Return the Hub's size category of a number of rows."""
    return _SIZES[min(max(len(str(rows)) - 3, 0), len(_SIZES) - 1)]


def describe_dataset_config(
    name: str, features: "Features", files: Mapping[str, Sequence[Path]], columns: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return an entry of `dataset_info` for Parquet shards.

    Args:
        files: split -> its shards.
        columns: those of `features` that the config has. Default: all.
    """
    from pyarrow.parquet import read_metadata

    names = list(columns or features)
    splits, download = [], 0
    for split, paths in files.items():
        found = [read_metadata(path) for path in paths]
        groups = [part.row_group(i) for part in found for i in range(part.num_row_groups)]
        chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
        kept = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in names]
        size, rows = sum(chunk.total_uncompressed_size for chunk in kept), sum(part.num_rows for part in found)
        splits.append({"name": split, "num_bytes": size, "num_examples": rows})
        download += sum(chunk.total_compressed_size for chunk in kept)
    return {
        "config_name": name,
        "features": type(features)({column: features[column] for column in names})._to_yaml_list(),
        "splits": splits,
        "download_size": download,
        "dataset_size": sum(split["num_bytes"] for split in splits),
    }


def content_digest(files: Mapping[str, Mapping[str, Any]]) -> str:
    """A digest (16 hex digits) of the names and `sha256` of files."""
    return digest("\n".join(f"{name} {described['sha256']}" for name, described in sorted(files.items())))[:16]
