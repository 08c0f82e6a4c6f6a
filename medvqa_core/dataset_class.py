"""The governance class of a loaded `datasets` object: declared in its description, with a minimum from its rows.

`datasets` keeps the description through map, filter, select and saving, joins descriptions in concatenations and drops
them in `from_dict`, `from_parquet` and the like. For our commands, datasets without a declared class are credentialed.
`upload_guards.py` only refuses them if there is evidence (`find_restriction`).
"""

from typing import Any

import pyarrow as pa

from medvqa_core.governance import Governance, check_not_lowered, parse, strictest
from medvqa_core.minimum_class import ID_COLUMNS, OUR_COLUMNS, TEXT_COLUMNS, is_image, minimum_class_for_columns

_LINE = "governance class: "
_NAMES = {*ID_COLUMNS, *TEXT_COLUMNS}


def describe_dataset(what: str, governance: Governance) -> str:
    """Append the class to a dataset description."""
    return f"{what}\n{_LINE}{governance}"


def stated_class(description: str | None) -> Governance | None:
    """The class that a description declares (the strictest of several), or None."""
    names = [line.removeprefix(_LINE) for line in (description or "").splitlines() if line.startswith(_LINE)]
    return strictest(parse(name, "dataset description") for name in names) if names else None


def get_dataset_governance(dataset: Any) -> Governance:
    """The class of a `Dataset` or `IterableDataset`: the declared one, or the one that its ids require if stricter.

    A dataset without a declared class is `credentialed`.

    Examples:
        >>> from datasets import Dataset
        >>> get_dataset_governance(Dataset.from_dict({"text": ["not declared"]})).value
        'credentialed'
    """
    stated = stated_class(dataset.info.description)
    if stated in (None, Governance.CREDENTIALED):  # nothing is stricter
        return Governance.CREDENTIALED
    return strictest([stated, minimum_class_for_dataset(dataset)])


def find_restriction(dataset: Any) -> Governance | None:
    """The restricted class of a dataset, or None without evidence: a declared class, MIMIC's ids, or our columns.

    A stream with unknown columns and without a declared class is not read.
    """
    if stated_class(dataset.info.description) is not None:
        found = get_dataset_governance(dataset)
    elif not (names := set(dataset.column_names or ())):
        return None
    else:
        ours = any(columns <= names for columns in OUR_COLUMNS)
        found = Governance.CREDENTIALED if ours else minimum_class_for_dataset(dataset)
    return None if found.publishable else found


def declare(dataset: Any, governance: Governance | str) -> Any:
    """Declare the class of a dataset without one (created by hand or read from a file), and return the dataset.

    Raises:
        GovernanceError: it already declares a stricter class, or its ids require one.

    Examples:
        >>> from datasets import Dataset
        >>> rows = declare(Dataset.from_dict({"text": ["a drawing"]}), "open")
        >>> get_dataset_governance(rows).value
        'open'
    """
    governance = parse(governance, "declare")
    stated = stated_class(dataset.info.description) or Governance.OPEN
    check_not_lowered(strictest([stated, minimum_class_for_dataset(dataset)]), governance, "the dataset")
    dataset.info.description = describe_dataset(dataset.info.description or "", governance)
    return dataset


def minimum_class_for_dataset(dataset: Any) -> Governance:
    """The class required by the ids of all rows of a `Dataset` (hidden ones too), or of a stream's first row."""
    table = getattr(dataset, "data", None)
    if table is not None:
        return minimum_class_for_columns({name: table.column(name) for name in table.column_names})
    return minimum_class_for_columns(_first_row(dataset))


def _first_row(stream: Any) -> dict[str, pa.Array]:
    """The ids and image paths of a stream's first row.

    Images are not decoded unless the columns are unknown, as after `map`. A decoded image names its file.
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
    """`value` with decoded images replaced by references to their files."""
    if isinstance(value, list):
        return [_as_stored(part) for part in value]
    return {"bytes": None, "path": str(value.filename)} if hasattr(value, "filename") else value


def _has_path(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_path, value))
    return isinstance(value, dict) and {"bytes", "path"} <= value.keys()
