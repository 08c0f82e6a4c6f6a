"""Parquet shards with images inside, for datasets that load without this project's packages."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER, EXAMPLES = "data", "examples.png"
SHARD_BYTES = 500_000_000  # the Hub recommends at most 500 MB per file
ROWS_PER_GROUP = 100  # a row group is what a viewer decodes for one row


def write_split(tables: Iterable[pa.Table], folder: Path, split: str, shard_bytes: int = SHARD_BYTES) -> list[Path]:
    """Write `tables` to `folder`/data/<split>-00000-of-00002.parquet, … and return the shards."""
    paths: list[Path] = []
    writer, size = None, 0
    (folder / FOLDER).mkdir(exist_ok=True)
    for table in tables:
        if writer is None or size >= shard_bytes:
            if writer is not None:
                writer.close()
            paths.append(folder / FOLDER / f"{split}-{len(paths):05d}")
            writer, size = pq.ParquetWriter(paths[-1], table.schema, compression="zstd", write_page_checksum=True), 0
        writer.write_table(table, row_group_size=ROWS_PER_GROUP)
        size += table.nbytes
    if writer is not None:
        writer.close()
    return [path.rename(path.with_name(f"{path.name}-of-{len(paths):05d}.parquet")) for path in paths]
