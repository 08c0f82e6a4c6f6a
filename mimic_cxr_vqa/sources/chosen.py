"""Optional input files that fix which studies take part and what their sections are, to reproduce a published table.

`mimic_cxr_sectioned.csv` (columns study, impression, findings, ...) is the output of MIMIC-CXR's own section script. A
study list is a text file with one study id per line (`s50414267` or `50414267`).
"""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.csv_files import read_csv
from medvqa_core.errors import InputError, quote_value
from mimic_cxr_vqa.reports import fold
from mimic_cxr_vqa.sources.study_set import check_unique

_STUDY_ID = re.compile(r"s?(\d{1,18})")


def read_sections(path: Path) -> dict[int, tuple[str | None, str | None]]:
    """Return {study id: (findings, impression)} with white space folded, None for an empty section.

    Raises:
        InputError: the file or a column is missing, or a study id is invalid or repeated.
    """
    table = read_csv(path, {"study": pa.string(), "findings": pa.string(), "impression": pa.string()})
    check_unique(table["study"], f"{path}: study")
    columns = [table[name].to_pylist() for name in ("study", "findings", "impression")]
    return {
        _parse_study_id(study or "", f"{path}, row {row}"): (fold(findings or ""), fold(impression or ""))
        for row, (study, findings, impression) in enumerate(zip(*columns, strict=True), start=2)
    }


def read_study_list(path: Path) -> list[int]:
    """Return the study ids of a list in file order, without repetitions. Empty lines are skipped.

    Raises:
        InputError: the file is missing or empty, or a line is not a study id.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}). Expected a text file with one study id per line") from None
    ids = [_parse_study_id(line.strip(), f"{path}, line {n}") for n, line in enumerate(lines, start=1) if line.strip()]
    if not ids:
        raise InputError(f"{path} has no study id. Write one per line (s50414267 or 50414267)")
    return list(dict.fromkeys(ids))


def choose_studies(rows: pa.Table, chosen: Path, where: str) -> pa.Table:
    """Return the rows whose `study_id` is in the list `chosen`, in their own order.

    Args:
        where: the origin of the rows, for the message.

    Raises:
        InputError: as `read_study_list`, or a study of the list is not in the rows.
    """
    wanted = pa.array(read_study_list(chosen), pa.int64())
    missing = wanted.filter(pc.invert(pc.is_in(wanted, rows["study_id"].combine_chunks())))
    if len(missing):
        raise InputError(
            f"{chosen}: study {missing[0]} is not in {where} ({len(missing)} such studies). Remove its line"
        )
    return rows.filter(pc.is_in(rows["study_id"], wanted))


def _parse_study_id(text: str, where: str) -> int:
    if match := _STUDY_ID.fullmatch(text):
        return int(match[1])
    raise InputError(f"{where}: {quote_value(text)} is not a study id. Expected s50414267 or 50414267")
