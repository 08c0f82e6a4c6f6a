"""Metadata of dataset cards that the Hub's viewer and `load_dataset` read: features, splits and sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa_core.digests import digest, digest_file

if TYPE_CHECKING:
    from datasets import Features

_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M")


def size_category(rows: int) -> str:
    """Return the Hub's size category of a number of rows."""
    return _SIZES[min(max(len(str(rows)) - 3, 0), len(_SIZES) - 1)]


@dataclass(frozen=True)
class CardConfig:
    """A config of the card: a table of the folder, or some of its columns.

    Attributes:
        files: Hub split -> its shards.
        columns: those of `features` to load. Default: all.
    """

    name: str
    table: str
    features: "Features"
    files: Mapping[str, Sequence[Path]]
    columns: Sequence[str] | None = None
    default: bool = False


def describe_configs(configs: Sequence[CardConfig], content: str) -> dict[str, Any]:
    """The entries `configs` and `dataset_info` of a card with Parquet shards.

    Args:
        content: digest of the files. `load_dataset(folder)` caches by the folder's name and these entries.
    """
    entries = []
    for config in configs:
        shards = {split: files[0].name.split("-")[0] for split, files in config.files.items()}
        entry = _list_files(
            config.name, content, {split: f"{config.table}/{shards[split]}-*.parquet" for split in shards}
        )
        if config.columns:
            entry["columns"] = list(config.columns)
        if config.default:
            entry["default"] = True
        entries.append(entry)
    return {"dataset_info": [_describe(config) for config in configs], "configs": entries}


def describe_json_lines(files: Mapping[str, Path], split: str) -> dict[str, Any]:
    """The same for configs of one file of JSON lines each."""
    import pyarrow.json
    from datasets import Features

    infos = []
    for name, path in files.items():
        size = path.stat().st_size
        table = pyarrow.json.read_json(path, pyarrow.json.ReadOptions(block_size=size + 1))  # rows of any length
        splits = [{"name": split, "num_bytes": size, "num_examples": len(table)}]
        features = Features.from_arrow_schema(table.schema)._to_yaml_list()
        sizes = {"splits": splits, "download_size": size, "dataset_size": size}
        infos.append({"config_name": name, "features": features, **sizes})
    configs = [_list_files(name, digest_file(path)[:16], {split: path.name}) for name, path in files.items()]
    return {"dataset_info": infos, "configs": configs}


def _list_files(name: str, content: str, patterns: Mapping[str, str]) -> dict[str, Any]:
    data_files = [{"split": split, "path": pattern} for split, pattern in patterns.items()]
    return {"config_name": name, "description": f"content {content}", "data_files": data_files}


def _describe(config: CardConfig) -> dict[str, Any]:
    """Features, splits and sizes of a config."""
    from pyarrow.parquet import read_metadata

    names = list(config.columns or config.features)
    splits, download = [], 0
    for split, paths in config.files.items():
        found = [read_metadata(path) for path in paths]
        groups = [part.row_group(i) for part in found for i in range(part.num_row_groups)]
        chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
        kept = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in names]
        size, rows = sum(chunk.total_uncompressed_size for chunk in kept), sum(part.num_rows for part in found)
        splits.append({"name": split, "num_bytes": size, "num_examples": rows})
        download += sum(chunk.total_compressed_size for chunk in kept)
    return {
        "config_name": config.name,
        "features": type(config.features)({column: config.features[column] for column in names})._to_yaml_list(),
        "splits": splits,
        "download_size": download,
        "dataset_size": sum(split["num_bytes"] for split in splits),
    }


def content_digest(files: Mapping[str, Mapping[str, Any]]) -> str:
    """A digest (16 hex digits) of the names and `sha256` of files."""
    return digest("\n".join(f"{name} {described['sha256']}" for name, described in sorted(files.items())))[:16]
