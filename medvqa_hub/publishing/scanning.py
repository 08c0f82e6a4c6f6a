"""Scan a staging folder before it is pushed, for images, MIMIC ids and sentences of reports.

The scan finds mistakes, such as ids in a vocabulary or a quoted report in a card, not data that is hidden on purpose.

- Files: only known suffixes, which must be readable as that kind. Archives and pickles are refused.
- Images: markers of PNG, JPEG, GIF, WebP, DICOM (anywhere in a file), TIFF (at its start), base64, columns of bytes,
  and lists of numbers.
- Ids: p1 or s5 with seven more digits (MIMIC's ranges) anywhere, and bare numbers in id columns and texts.
- Reports: runs of 8 words of a workspace's reports (`phrases.py`) in texts and headers of weights.
- Metadata of tables.
"""

import json
import mmap
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from medvqa_hub.publishing.marks import check_bytes, check_text, scan_error
from medvqa_hub.publishing.phrases import Phrases, longest_runs
from medvqa_hub.publishing.table_scan import scan_table

_WEIGHTS, _TABLES, _PICTURE = ".safetensors", ".parquet", ".png"
_JSON, _JSON_LINES = ".json", ".jsonl"
_ROWS = (_JSON_LINES, ".csv")  # may contain any number
_TEXTS = (_JSON, _JSON_LINES, ".md", ".py", ".yaml", ".txt", ".csv", ".jinja")


def scan(
    folder: Path, phrases: Phrases | None = None, id_tables: Collection[str] = (), image_tables: Collection[str] = ()
) -> None:
    """Scan every file of `folder`.

    Args:
        phrases: phrases of reports that must not occur in any text.
        id_tables: tables of a rebuild spec, which may hold ids in MIMIC's range.
        image_tables: tables and pictures that this push has made, with synthetic images.

    Raises:
        GovernanceError: something was found. The message names the file and quotes nothing.
    """
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.stat().st_size:
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                check_bytes(content, name, may_hold_images=name in image_tables)
        if path.suffix == _WEIGHTS:
            _scan_weights(path, name, phrases)
        elif path.suffix == _TABLES:
            scan_table(path, name, may_hold_ids=name in id_tables, may_hold_images=name in image_tables)
        elif path.suffix in _TEXTS:
            _scan_text(path, name, phrases)
        elif not (path.suffix == _PICTURE and name in image_tables):
            raise scan_error(name, f"files of kind {path.suffix or 'none'} are not allowed")


def _scan_weights(path: Path, name: str, phrases: Phrases | None) -> None:
    """The header may hold text, and nothing may follow the weights."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np"), open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = file.read(length).decode()
    except (SafetensorError, OSError):
        raise scan_error(name, "it is not a valid safetensors file") from None
    texts = _strings(header, name)
    check_text("\n".join(texts), name)
    _check_phrases(texts, name, phrases)


def _scan_text(path: Path, name: str, phrases: Phrases | None) -> None:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise scan_error(name, "it is not a UTF-8 text") from None
    if "\0" in text:
        raise scan_error(name, "it is not a UTF-8 text: it contains NUL, as UTF-16 and binary files do")
    bare = path.suffix not in _ROWS
    check_text(text, name, bare)
    if path.suffix == _JSON:
        texts = _strings(text, name)
    elif path.suffix == _JSON_LINES:
        texts = [string for line in text.split("\n") if line.strip() for string in _strings(line, name)]
    else:
        _check_phrases([text], name, phrases)
        return
    check_text("\n".join(texts), name, bare)  # with escapes resolved
    _check_phrases(texts, name, phrases)


def _check_phrases(texts: list[str], name: str, phrases: Phrases | None) -> None:
    if phrases is None:
        return
    run = max(longest_runs(Phrases(texts), phrases, len(texts)), default=0)
    if run:
        raise scan_error(name, f"it contains {run} consecutive words of a report")


def _strings(text: str, name: str) -> list[str]:
    """The keys and texts in a JSON value, including duplicate keys."""
    try:
        return list(_texts_in(json.loads(text, object_pairs_hook=list)))
    except (ValueError, RecursionError):
        raise scan_error(name, "it is not valid JSON") from None


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_in(item)
