"""The governance class of a loaded `datasets` object: stated in a line of its description, with a floor from its rows.

`datasets` keeps the description through map, filter, select and saving. It joins the descriptions of what is
concatenated, and drops it in `from_dict`, `from_parquet` and the like: what does not say is credentialed.
`ways_out.py` sees to the joins, where a part that does not say would hide behind one that does.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from medvqa_core.governance import Governance, check_not_lowered, parse, strictest
from medvqa_core.minimum_class import ID_COLUMNS, TEXT_COLUMNS, is_image, minimum_class_for_columns

_LINE = "governance class: "
_NAMES = {*ID_COLUMNS, *TEXT_COLUMNS}


def describe_dataset(what: str, governance: Governance) -> str:
    """A dataset description with a line for the class."""
    return f"{what}\n{_LINE}{governance}"


def stated_class(description: str | None) -> Governance | None:
    """The class that a description states, the strictest if it has several lines; None where it states none."""
    names = [line.removeprefix(_LINE) for line in (description or "").splitlines() if line.startswith(_LINE)]
    return strictest(parse(name, "dataset description") for name in names) if names else None


def get_dataset_governance(dataset: Any) -> Governance:
    """The class of a `Dataset` or an `IterableDataset`: what it states, or what its rows' ids demand if that is more.

    A dataset that does not say is `credentialed`: the strictest guess cannot leak.
    """
    stated = stated_class(dataset.info.description)
    if stated in (None, Governance.CREDENTIALED):  # nothing is stricter: no row need be looked at
        return Governance.CREDENTIALED
    return strictest([stated, minimum_class_for_dataset(dataset)])


def get_splits_governance(datasets: Iterable[Any]) -> Governance:
    """The class of several datasets together, such as the splits of a `DatasetDict`."""
    return strictest(map(get_dataset_governance, datasets))


def declare(dataset: Any, governance: Governance | str) -> Any:
    """State the class of a dataset that does not say (made by hand, read from a file); returns the dataset.

    Raises:
        GovernanceError: it states a stricter class already, or its rows' ids demand one.
    """
    governance = parse(governance, "declare")
    stated = stated_class(dataset.info.description) or Governance.OPEN
    check_not_lowered(strictest([stated, minimum_class_for_dataset(dataset)]), governance, "the dataset")
    dataset.info.description = describe_dataset(dataset.info.description or "", governance)
    return dataset


def minimum_class_for_dataset(dataset: Any) -> Governance:
    """What the ids demand: of all rows of a `Dataset` (and those that its selection hides), of a stream's first row."""
    table = getattr(dataset, "data", None)
    if table is not None:
        return minimum_class_for_columns({name: table.column(name) for name in table.column_names})
    return minimum_class_for_columns(_first_row(dataset))


def _first_row(stream: Any) -> dict[str, pa.Array]:
    """What a stream's first row says of its origin: ids, and where its images lie; no image is decoded for it.

    After a `map` nothing is known of the columns before a row is there: its images are decoded then, and name a file.
    """
    plain = stream.with_format(None)
    if plain.features is not None:
        kept = [field.name for field in plain.features.arrow_schema if field.name in _NAMES or is_image(field.type)]
        plain = plain.decode(False).select_columns(kept) if kept else None
    found: dict[str, pa.Array] = {}
    for row in () if plain is None else plain.take(1):
        for name, value in row.items():
            value = _as_stored(value)
            if name in _NAMES or (isinstance(value, dict | list) and _has_path(value)):
                found[name] = pa.array([value])
    return found


def _as_stored(value: Any) -> Any:
    """A value with its decoded images as references to their files."""
    if isinstance(value, list):
        return [_as_stored(part) for part in value]
    return {"bytes": None, "path": str(value.filename)} if hasattr(value, "filename") else value


def _has_path(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_path, value))
    return isinstance(value, dict) and {"bytes", "path"} <= value.keys()
