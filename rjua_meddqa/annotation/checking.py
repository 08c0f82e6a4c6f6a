"""The quality check of an annotation file (paper, Section 4.2.2): reports entries that a second person should review.

It changes nothing. It reads the raw cells, so that rows that the reader rejects are reported as well.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from rjua_meddqa.annotation.groups import Patient, read_patient
from rjua_meddqa.annotation.normality import is_blank, judge
from rjua_meddqa.annotation.page_check import PageText, check_page
from rjua_meddqa.annotation.ranges import parse_number, parse_range
from rjua_meddqa.annotation.report_words import fold
from rjua_meddqa.answers import read_is_normal
from rjua_meddqa.released import FIELDS_OF_A_ROW, parse_key_values, parse_table, read_cells
from rjua_meddqa.schema import (
    ABNORMAL,
    ANNOTATION_COLUMNS,
    HIGH,
    IMAGE_QUALITIES,
    IMAGE_TYPES,
    IS_NORMAL_VALUES,
    LABORATORY,
    LOW,
    UNDECIDED,
    Annotation,
    TableRow,
)

KINDS = {
    "not_a_literal": "a cell is not a Python literal of the right shape",
    "unknown_value": "a value is not one of the allowed values",
    "missing_key": "a key or an item name is empty",
    "missing_value": "a value, result, range or judgement is empty (无 is a value)",
    "duplicate_key": "a key or an item occurs twice",
    "row_length": "a table row does not have four fields",
    "count_mismatch": "table and report type disagree",
    "not_on_page": "the value, date or number is not on the page beside its key or item",
    "missing_line": "the page seems to have a key or a sentence that the annotation lacks",
    "missing_row": "the page seems to have a row that the table lacks",
    "contradiction": "is_normal contradicts result and range",
    "undecidable": "is_normal is decided without a range, or left open although result and range decide it",
    "slip": "a number has an unusual spelling and was repaired",
    "image": "the image is missing, or its path leaves the folder",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One entry to review: its annotation, kind, place and message."""

    idx: str
    img_path: str
    kind: str
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings of a file, and counts of the checked entries."""

    annotations: int
    key_values: int
    table_rows: int
    decided: int
    agreeing: int
    findings: tuple[Finding, ...]

    def counts(self) -> dict[str, int]:
        return dict(Counter(finding.kind for finding in self.findings))

    def to_json(self) -> dict[str, Any]:
        """Counts and findings as JSON values. `decided` rows have a verdict by result and range."""
        values = asdict(self) | {"counts": self.counts(), "kinds": {kind: KINDS[kind] for kind in self.counts()}}
        return values | {"findings": [asdict(finding) for finding in self.findings]}


@dataclass(frozen=True, slots=True)
class _Parts:
    """The readable parts of one annotation, with rows of any length."""

    idx: str
    img_path: str
    key_values: tuple[tuple[str, str], ...]
    table: tuple[tuple[str, ...], ...]
    values: dict[str, str]  # report_type, image_type, image_quality as written


def check_file(
    path: Path, images: Path | None = None, make_page: Callable[[str], PageText | None] | None = None
) -> CheckReport:
    """Check an annotation CSV.

    Args:
        images: folder of the images, to find those that are missing or outside of it.
        make_page: returns the content of the page of an image path, or None if it cannot be read.

    Raises:
        InputError: the file is missing or is not a CSV file with the annotation columns.
    """
    parts, findings = [], []
    for where, cells in read_cells(path, ANNOTATION_COLUMNS):
        read, problems = _read(cells, where)
        parts.append(read)
        findings += problems
        if images is not None:
            findings += _check_image(images, read)
    return _report(parts, findings, make_page)


def check_annotations(
    annotations: Sequence[Annotation], make_page: Callable[[str], PageText | None] | None = None
) -> CheckReport:
    """Check annotations in memory. `make_page` as in `check_file`."""
    parts = [
        _Parts(
            annotation.idx,
            annotation.img_path,
            annotation.key_values,
            tuple((row.item, row.result, row.range, row.is_normal) for row in annotation.table),
            {name: getattr(annotation, name) for name in ("report_type", "image_type", "image_quality")},
        )
        for annotation in annotations
    ]
    return _report(parts, [], make_page)


def _report(
    parts: list[_Parts], findings: list[Finding], make_page: Callable[[str], PageText | None] | None
) -> CheckReport:
    twice = {idx for idx, count in Counter(part.idx for part in parts).items() if count > 1}
    decided = agreeing = 0
    for part in parts:
        page = make_page(part.img_path) if make_page is not None else None
        # The patient is unknown where annotation and page contradict each other.
        patient = read_patient([*part.key_values, *(page.draft.key_values if page is not None else ())])
        found = [*_check_values(part), *_check_key_values(part), *_check_table(part, patient)]
        if part.idx in twice:
            found.append(("duplicate_key", "idx", f"idx {part.idx!r} occurs in several rows"))
        if page is not None:
            rows = [TableRow(*row) for row in part.table if len(row) == FIELDS_OF_A_ROW]
            found += check_page(part.key_values, rows, page)
        findings += [Finding(part.idx, part.img_path, *entry) for entry in found]
        verdicts = [
            (judge(row[1], row[2], patient=patient).verdict, read_is_normal(row[3]))
            for row in part.table
            if len(row) == FIELDS_OF_A_ROW
        ]
        decided += sum(verdict != UNDECIDED for verdict, _ in verdicts)
        agreeing += sum(verdict != UNDECIDED and _agree(verdict, written) for verdict, written in verdicts)
    pairs, count = sum(len(part.key_values) for part in parts), sum(len(part.table) for part in parts)
    return CheckReport(len(parts), pairs, count, decided, agreeing, tuple(findings))


def _read(cells: dict[str, str], where: str) -> tuple[_Parts, list[Finding]]:
    findings: list[Finding] = []
    parsed: dict[str, tuple] = {}
    for column, parse in (("kv", parse_key_values), ("table", parse_table)):
        try:
            parsed[column] = parse(cells[column], where)
        except InputError as error:
            parsed[column] = ()
            findings.append(Finding(cells["idx"], cells["img_path"], "not_a_literal", column, str(error)))
    values = {name: cells[name] for name in ("report_type", "image_type", "image_quality")}
    return _Parts(cells["idx"], cells["img_path"], parsed["kv"], parsed["table"], values), findings


def _check_image(root: Path, part: _Parts) -> list[Finding]:
    from medvqa_core.files import join_under

    try:
        path = join_under(root, part.img_path, f"annotation {part.idx}")
    except InputError as error:
        return [Finding(part.idx, part.img_path, "image", "img_path", str(error))]
    if path.is_file():
        return []
    return [Finding(part.idx, part.img_path, "image", "img_path", f"no image {part.img_path!r} in {root}")]


def _check_values(part: _Parts) -> list[tuple[str, str, str]]:
    found = []
    for name, allowed in (("image_type", IMAGE_TYPES), ("image_quality", IMAGE_QUALITIES)):
        if part.values[name].strip().lower() not in allowed:
            found.append(("unknown_value", name, f"{part.values[name]!r}. Allowed: {', '.join(allowed)}"))
    for name, value in part.values.items():
        if value != value.strip():
            found.append(("unknown_value", name, f"{value!r} has white space around it"))
        if not value.strip():
            found.append(("missing_value", name, "empty"))
    return found


def _check_key_values(part: _Parts) -> list[tuple[str, str, str]]:
    found = []
    for number, (key, value) in enumerate(part.key_values, start=1):
        where = f"kv {number}"
        if not key.strip():
            found.append(("missing_key", where, "the key is empty"))
        if not value.strip():
            found.append(("missing_value", where, f"{key!r} has no value. Write 无 if nothing is printed"))
    for key, count in Counter(key.strip() for key, _ in part.key_values).items():
        if count > 1:
            values = {value for name, value in part.key_values if name.strip() == key}
            same = "with the same value" if len(values) == 1 else f"with {len(values)} different values"
            found.append(("duplicate_key", "kv", f"{key!r} occurs {count} times, {same}"))
    return found


def _check_table(part: _Parts, patient: Patient) -> list[tuple[str, str, str]]:
    found = []
    is_laboratory = part.values["report_type"].strip() == LABORATORY
    if is_laboratory != bool(part.table):
        found.append(("count_mismatch", "table", f"report_type {part.values['report_type']!r}, {len(part.table)} rows"))
    for number, row in enumerate(part.table, start=1):
        where = f"table row {number}"
        if len(row) != FIELDS_OF_A_ROW:
            found.append(("row_length", where, f"{len(row)} fields. Expected item, result, range, is_normal"))
            continue
        found += [(kind, where, message) for kind, message in _check_row(row, patient)]
    items: dict[str, list[str]] = {}
    for row in part.table:
        if row and row[0].strip():
            items.setdefault(fold(row[0]), []).append(row[0].strip())
    for names in items.values():
        if len(names) > 1:
            spellings = " and ".join(map(repr, dict.fromkeys(names)))
            found.append(("duplicate_key", "table", f"item {spellings} occurs {len(names)} times"))
    return found


def _check_row(row: Sequence[str], patient: Patient) -> list[tuple[str, str]]:
    item, result, reference, is_normal = row
    found = []
    if is_blank(item):
        found.append(("missing_key", "the item has no name"))
    for name, value in (("result", result), ("range", reference), ("is_normal", is_normal)):
        if not value.strip() or (name == "result" and is_blank(value)):
            found.append(("missing_value", f"{item!r}: {name} is empty"))
    for name, value, slips in _slips(result, reference):
        found.append(("slip", f"{item!r}: {name} {value!r} has {', '.join(slips)}"))
    if not is_normal.strip():
        return found
    written = read_is_normal(is_normal)
    if is_normal not in IS_NORMAL_VALUES:
        meant = f"; {written} is meant" if written else ""
        found.append(
            ("unknown_value", f"{item!r}: is_normal {is_normal!r}{meant}. Allowed: {' '.join(IS_NORMAL_VALUES)}")
        )
    if written is not None:
        found += _check_verdict(item, result, reference, written, patient)
    return found


def _check_verdict(item: str, result: str, reference: str, written: str, patient: Patient) -> list[tuple[str, str]]:
    verdict, reason = judge(result, reference, patient=patient)
    about = f"{item!r}: is_normal {written}, result {result!r}, range {reference!r}"
    if verdict != UNDECIDED and written != UNDECIDED and not _agree(verdict, written):
        return [("contradiction", f"{about}: {verdict} ({reason})")]
    if verdict != UNDECIDED and written == UNDECIDED:
        return [("undecidable", f"{about}: the verdict is {verdict} ({reason})")]
    if verdict == UNDECIDED and written != UNDECIDED and is_blank(reference):
        return [("undecidable", f"{about}: there is no range to judge by")]
    return []


def _agree(verdict: str, written: str | None) -> bool:
    """Whether two verdicts agree. 否 without a direction agrees with high and low."""
    return verdict == written or ABNORMAL in (verdict, written) and {verdict, written} <= {ABNORMAL, HIGH, LOW}


def _slips(result: str, reference: str) -> list[tuple[str, str, tuple[str, ...]]]:
    number, parsed = parse_number(result), parse_range(reference)
    slips = [("result", result, number[3])] if number is not None and number[3] else []
    return slips + ([("range", reference, parsed.slips)] if parsed.slips else [])
