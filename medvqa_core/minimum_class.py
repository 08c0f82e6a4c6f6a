"""The minimum class that content requires, whatever a manifest or a description declares.

The named source and ids in MIMIC's range each set a minimum. A declared class may be stricter. MIMIC's patients are
10,000,000 to 19,999,999, its studies 50,000,000 to 59,999,999. Synthetic studies start at 90,000,000, and Open-i's ids
end at 3,999.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import GovernanceError
from medvqa_core.governance import Governance

SUBJECTS, STUDIES = range(10_000_000, 20_000_000), range(50_000_000, 60_000_000)
ID_COLUMNS = {"subject_id": SUBJECTS, "patient_id": SUBJECTS, "study_id": STUDIES}
# the same ids as text: p10000032, s50414267-edema-1, p10/p10000032/s50414267/….jpg
TEXT_COLUMNS = ("patient_id", "subject_id", "study_id", "qa_id", "images", "image_paths", "image_path")
OUR_COLUMNS = (  # sets of columns that only our datasets have
    {"qa_id", "study_id", "question"}, {"subject_id", "study_id", "findings", "labels"},
    {"study_id", "indication", "questions"}, {"study_id", "qa_id", "messages"},
    {"question", "answer", "category", "label_value", "provenance"},
)  # fmt: skip
_ID_TEXT = r"(^|[/\\,\s])(p1[0-9]{7}|s5[0-9]{7})($|[^0-9])"
_PATH_TEXT = r"p1[0-9]{7}[/\\]+s5[0-9]{7}"  # evidence in any column
_DIGITS = {SUBJECTS: r"^\s*1[0-9]{7}(\.0*)?\s*$", STUDIES: r"^\s*5[0-9]{7}(\.0*)?\s*$"}
_SAMPLE = 1000  # rows at either end of columns that are not named for ids or images

OPENI = "openi"
SOURCES = {"phantom": Governance.OPEN, OPENI: Governance.NO_DERIVATIVES, "physionet": Governance.CREDENTIALED}


def minimum_class_for_source(source: str | None) -> Governance:
    """The class of a source of studies; `credentialed` if it is unknown or None."""
    return SOURCES.get(source or "", Governance.CREDENTIALED)


def minimum_class_for_columns(columns: Mapping[str, pa.ChunkedArray | pa.Array]) -> Governance:
    """The class required by ids in rows; `open` if there are none.

    Ids are numbers or texts in columns named for them, and image paths. Nested fields count as columns. Of columns with
    other names only image paths in the first and last rows count, so that large texts of other datasets cost no time.
    """
    leaves = [leaf for name, values in columns.items() for leaf in _leaves(name, values)]
    return Governance.CREDENTIALED if any(_holds_id(name, values) for name, values in leaves) else Governance.OPEN


def _leaves(name: str, values: Any) -> Iterator[tuple[str, Any]]:
    """The flat columns in a column, named by the innermost field."""
    kind = values.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(name, pc.list_flatten(values))
    elif is_image(kind):
        yield "image_path", pc.struct_field(values, "path")
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(field.name, pc.struct_field(values, field.name))
    elif pa.types.is_dictionary(kind):
        yield from _leaves(name, values.cast(kind.value_type))
    else:
        yield name, values


def _holds_id(name: str, values: Any) -> bool:
    ids = ID_COLUMNS.get(name)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        among = pc.and_(pc.greater_equal(values, ids.start), pc.less(values, ids.stop)) if ids else pa.array([False])
        return bool(pc.any(among, min_count=0).as_py())
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return False
    if name not in TEXT_COLUMNS:
        ends = (values.slice(0, _SAMPLE), values.slice(max(0, len(values) - _SAMPLE)))
        return any(_matches(end, _PATH_TEXT) for end in ends)
    return _matches(values, _ID_TEXT) or (ids is not None and _matches(values, _DIGITS[ids]))


def _matches(values: Any, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, pattern), min_count=0).as_py())


def is_image(kind: pa.DataType) -> bool:
    """Whether a column holds images, or lists of images, as `datasets` stores them."""
    while pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return pa.types.is_struct(kind) and {"bytes", "path"} <= {kind.field(i).name for i in range(kind.num_fields)}


def minimum_class_for_ids(ids: Iterable[str]) -> Governance:
    """The class required by question ids (`s50414267-edema-1`); `open` if none is in MIMIC's range."""
    return Governance.CREDENTIALED if any(re.search(_ID_TEXT, id) for id in ids) else Governance.OPEN


def check_minimum_class(stated: Governance, minimum: Governance, what: str, reason: str) -> Governance:
    """Return the declared class of `what` if the content allows it.

    Open-i's rows were called `share-alike` in the past. For them the minimum is returned.

    Args:
        reason: why the content requires `minimum`, for the message.

    Raises:
        GovernanceError: `stated` is weaker than `minimum`.
    """
    if stated.level >= minimum.level:
        return stated
    if stated is Governance.SHARE_ALIKE and minimum is Governance.NO_DERIVATIVES:
        return minimum
    raise GovernanceError(
        f"{what} is declared as {stated}, but {reason} requires at least {minimum}. Editing metadata cannot lower the "
        "class of the content. Restore the manifest or build the folder again"
    )
