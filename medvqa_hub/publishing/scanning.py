"""The last look at a staging folder before it leaves: image bytes, ids of MIMIC's range, sentences of reports.

This guards against mistakes: a folder with more in it than its name says, a vocabulary that holds ids, a card with a
quoted report. It does not find what somebody hides on purpose.

- Only kinds of files that a push is made of, named in small letters, whole and readable as what they are called;
  archives and pickles are none of them.
- Images: the first bytes of PNG, JPEG, GIF, WebP and DICOM, also in the middle of a file, and as base64; of TIFF at
  the beginning of one. Columns of bytes, and lists of numbers.
- Ids: patients p1 and studies s5 with seven more digits (MIMIC's ranges) wherever they stand; the bare numbers in
  columns of ids and in texts, where nothing else is an eight-digit number.
- Report sentences: runs of 8 words of a workspace's reports (`phrases.py`), where one is named, in texts and in the
  headers of weights.
- Notes beside the columns of a table.
"""

import json
import mmap
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from medvqa_hub.publishing.marks import found, refuse_bytes, refuse_words
from medvqa_hub.publishing.phrases import Phrases, longest_runs
from medvqa_hub.publishing.table_scan import scan_table

_WEIGHTS, _TABLES = ".safetensors", ".parquet"
_JSON, _JSON_LINES = ".json", ".jsonl"
_ROWS = (_JSON_LINES, ".csv")  # tables as text: any number may stand there
_TEXTS = (_JSON, _JSON_LINES, ".md", ".py", ".yaml", ".txt", ".csv", ".jinja")


def scan(folder: Path, phrases: Phrases | None = None, ids_of: Collection[str] = ()) -> None:
    """Look through every file of `folder`.

    Args:
        phrases: of reports that must not stand in any text.
        ids_of: tables that may hold ids of MIMIC's range: a rebuild spec's, which are checked to hold little else.

    Raises:
        GovernanceError: something is found; names the file and what it is, and quotes nothing.
    """
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.stat().st_size:
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                refuse_bytes(content, name)
        if path.suffix == _WEIGHTS:
            _scan_weights(path, name, phrases)
        elif path.suffix == _TABLES:
            scan_table(path, name, may_hold_ids=name in ids_of)
        elif path.suffix in _TEXTS:
            _scan_text(path, name, phrases)
        else:
            raise found(name, f"its kind ({path.suffix or 'none'}) is not one that is pushed")


def _scan_weights(path: Path, name: str, phrases: Phrases | None) -> None:
    """The header of a safetensors file is a place for text; behind the weights nothing may stand."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np"), open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = file.read(length).decode()
    except (SafetensorError, OSError):
        raise found(name, "it is no safetensors file, or holds more than its header names") from None
    spoken = _strings(header, name)
    refuse_words("\n".join(spoken), name)
    _refuse_phrases(spoken, name, phrases)


def _scan_text(path: Path, name: str, phrases: Phrases | None) -> None:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise found(name, "it is no text in UTF-8") from None
    if "\0" in text:
        raise found(name, "it is no text in UTF-8: it holds NUL, as UTF-16 and binary files do")
    bare = path.suffix not in _ROWS
    refuse_words(text, name, bare)
    if path.suffix == _JSON:
        spoken = _strings(text, name)
    elif path.suffix == _JSON_LINES:
        spoken = [said for line in text.split("\n") if line.strip() for said in _strings(line, name)]
    else:
        _refuse_phrases([text], name, phrases)
        return
    refuse_words("\n".join(spoken), name, bare)  # escapes are read
    _refuse_phrases(spoken, name, phrases)


def _refuse_phrases(spoken: list[str], name: str, phrases: Phrases | None) -> None:
    if phrases is None:
        return
    run = max(longest_runs(Phrases(spoken), phrases, len(spoken)), default=0)
    if run:
        raise found(name, f"{run} words in a row stand in a report that way")


def _strings(text: str, name: str) -> list[str]:
    """The texts in a JSON value, keys too; those of a key that stands twice both times."""
    try:
        return list(_texts_in(json.loads(text, object_pairs_hook=list)))
    except (ValueError, RecursionError):
        raise found(name, "it is no JSON that can be read") from None


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_in(item)
