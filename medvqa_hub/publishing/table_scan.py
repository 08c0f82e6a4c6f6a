"""Scan a Parquet file, which may only hold plain columns of numbers and texts."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medvqa_core.governance import Governance
from medvqa_core.minimum_class import minimum_class_for_columns
from medvqa_hub.publishing.marks import holds_image_text, holds_named_id, scan_error

_OF_PARQUET = {b"ARROW:schema", b"PARQUET:field_id"}  # metadata of the format itself
_PLAIN = (
    pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal,
    pa.types.is_null,
)  # fmt: skip
_TEXT = (pa.types.is_string, pa.types.is_large_string)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def scan_table(path: Path, name: str, may_hold_ids: bool, may_hold_images: bool = False) -> None:
    """Scan a table.

    Args:
        may_hold_ids: whether it may hold ids in MIMIC's range.
        may_hold_images: whether this push has made the table, with images. Its texts are scanned nevertheless.

    Raises:
        GovernanceError: it is not a table, or holds images, ids, columns of other types, or metadata.
    """
    try:
        with pq.ParquetFile(path) as table:
            if set(table.metadata.metadata or ()) - _OF_PARQUET or _has_notes(table.schema_arrow):
                raise scan_error(name, "it has key-value metadata, which no command writes")
            for batch in table.iter_batches(batch_size=65_536):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                if not may_hold_ids and minimum_class_for_columns(columns) is Governance.CREDENTIALED:
                    raise scan_error(name, "it contains a patient or study id in MIMIC's range")
                for column, values, listed in _leaves(columns.items()):
                    _scan_leaf(column, values, listed, name, may_hold_ids, may_hold_images)
    except (pa.ArrowInvalid, OSError):
        raise scan_error(name, "it is not a readable Parquet file") from None


def _has_notes(schema: pa.Schema) -> bool:
    return bool(schema.metadata) or any(map(_is_noted, schema))


def _is_noted(field: pa.Field) -> bool:
    inner = [field.type.field(i) for i in range(field.type.num_fields)]
    return bool(set(field.metadata or ()) - _OF_PARQUET) or any(map(_is_noted, inner))


def _leaves(columns: Iterable[tuple[str, Any]], listed: bool = False) -> Iterator[tuple[str, pa.Array, bool]]:
    """Columns with lists, structs and dictionaries resolved, and whether they were in a list."""
    for name, values in columns:
        if isinstance(values.type, pa.BaseExtensionType):  # JSON
            values = values.storage
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if any(is_kind(values.type) for is_kind in _LISTS):
            yield from _leaves([(name, pc.list_flatten(values))], True)
        elif pa.types.is_struct(values.type):
            fields = [values.type.field(i).name for i in range(values.type.num_fields)]
            yield from _leaves(((f"{name}.{field}", pc.struct_field(values, field)) for field in fields), listed)
        else:
            yield name, values, listed


def _scan_leaf(
    column: str, values: pa.Array, listed: bool, name: str, may_hold_ids: bool, may_hold_images: bool
) -> None:
    if any(is_kind(values.type) for is_kind in _TEXT):
        if not may_hold_ids and holds_named_id(values):
            raise scan_error(name, f"its column {column} contains a patient or study id in MIMIC's range")
        if holds_image_text(values):
            raise scan_error(name, f"its column {column} contains an image as text")
    elif not may_hold_images and (listed or not any(is_kind(values.type) for is_kind in _PLAIN)):
        raise scan_error(
            name,
            f"its column {column} holds {'lists of ' if listed else ''}{values.type}, which may be images",
        )
