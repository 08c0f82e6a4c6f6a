"""The last look at a staging folder before it leaves: image bytes, ids of MIMIC's range, sentences of reports.

This guards against mistakes: a folder with more in it than its name says, a vocabulary that holds ids, a card with a
quoted report. It does not find what somebody hides on purpose.

- Only kinds of files that a push is made of; archives and pickles are none of them.
- Images: the first bytes of PNG, JPEG, GIF, TIFF, WebP and DICOM, also in the middle of a file, in columns of bytes
  and as base64.
- Ids: patients p1 and studies s5 with seven more digits (MIMIC's ranges) wherever they stand; the bare numbers in
  columns of ids and in texts, where nothing else is an eight-digit number.
- Report sentences: runs of 8 words of a workspace's reports (`phrases.py`), where one is named.
"""

import json
import mmap
import re
import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medvqa_core.content_floor import floor_of_columns
from medvqa_core.errors import GovernanceError
from medvqa_core.governance import Governance
from medvqa_hub.publishing.phrases import Phrases, longest_runs

# Long enough not to stand in random weights by chance.
_IMAGES = (
    b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", b"\xff\xd8\xff\xee\x00\x0eAdobe", b"GIF89a", b"GIF87a",
    b"\x00" * 100 + b"DICM",
)  # fmt: skip
_STARTS = (  # of images, archives and pickles
    b"\xff\xd8\xff", b"II*\x00", b"MM\x00*", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf",
    b"\x80\x04",
)  # fmt: skip
_BASE64 = re.compile(r"data:image|iVBORw0KGgo|/9j/4[A-Za-z0-9+/]{6}|R0lGOD[dl]")
_NAMED_ID = r"(?:^|[^0-9A-Za-z])(?:p1[0-9]{7}|s5[0-9]{7})(?:$|[^0-9])"
_BARE_ID = re.compile(r"(?<![0-9A-Za-z.,_-])(?:1[0-9]{7}|5[0-9]{7})(?![0-9A-Za-z,_-]|\.[0-9])")
_SIZES = re.compile(r'"(?:total_size|total_parameters)": [0-9]+')  # of a weights index: no ids
_WEIGHTS, _TABLES = ".safetensors", ".parquet"
_ROWS = (".jsonl", ".csv")  # tables as text: any number may stand there
_TEXTS = (".json", ".jsonl", ".md", ".py", ".yaml", ".txt", ".csv", ".jinja")


def scan(folder: Path, phrases: Phrases | None = None, ids_of: Collection[str] = ()) -> None:
    """Look through every file of `folder`.

    Args:
        phrases: of reports that must not stand in any text.
        ids_of: tables that may hold ids of MIMIC's range: a recipe's, which are checked to hold little else.

    Raises:
        GovernanceError: something is found; names the file and what it is, and quotes nothing.
    """
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        _refuse_bytes(path, name)
        if path.suffix == _WEIGHTS:
            _scan_weights(path, name)
        elif path.suffix == _TABLES:
            _scan_table(path, name, may_hold_ids=name in ids_of)
        elif path.suffix in _TEXTS:
            _scan_text(path, name, phrases)
        else:
            raise _found(name, f"its kind ({path.suffix or 'none'}) is not one that is pushed")


def _found(name: str, what: str) -> GovernanceError:
    return GovernanceError(f"{name} is not pushed: {what}; nothing was uploaded. Take it out, and push again")


def _refuse_bytes(path: Path, name: str) -> None:
    if not path.stat().st_size:
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[:8].startswith(_STARTS):
            raise _found(name, "it begins as an image, an archive or a pickle does")
        if any(content.find(mark) >= 0 for mark in _IMAGES) or _holds_exif(content):
            raise _found(name, "it holds the bytes of an image")


def _holds_exif(content: mmap.mmap) -> bool:
    """A JPEG with Exif data: two bytes of length stand between its mark and the word."""
    place = content.find(b"\xff\xd8\xff\xe1")
    while place >= 0:
        if content[place + 6 : place + 10] == b"Exif":
            return True
        place = content.find(b"\xff\xd8\xff\xe1", place + 1)
    return False


def _scan_weights(path: Path, name: str) -> None:
    """The header of a safetensors file is a place for text."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    _scan_words(json.dumps(header.get("__metadata__", {})), name)
    _scan_words("\n".join(key for key in header if key != "__metadata__"), name)


def _scan_table(path: Path, name: str, may_hold_ids: bool) -> None:
    with pq.ParquetFile(path) as table:
        for batch in table.iter_batches(batch_size=65_536):
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            if not may_hold_ids and floor_of_columns(columns) is Governance.CREDENTIALED:
                raise _found(name, "it holds a patient or study id of MIMIC's range")
            for column, values in _leaves(zip(batch.schema.names, batch.columns, strict=True)):
                if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
                    raise _found(name, f"its column {column} holds bytes, and rows refer to images, they carry none")
                if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                    if not may_hold_ids and _any(values, _NAMED_ID):
                        raise _found(name, f"its column {column} holds a patient or study id of MIMIC's range")
                    if holds_image_text(values):
                        raise _found(name, f"its column {column} holds an image as text")


def holds_image_text(values: pa.Array) -> bool:
    """Whether a text of a column holds an image as base64."""
    return _any(values, _BASE64.pattern)


def _any(values: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, pattern), min_count=0).as_py())


def _leaves(columns: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, pa.Array]]:
    """Columns with what lists, structs and dictionaries are made of."""
    for name, values in columns:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
            yield from _leaves([(name, pc.list_flatten(values))])
        elif pa.types.is_struct(values.type):
            fields = [values.type.field(i).name for i in range(values.type.num_fields)]
            yield from _leaves((f"{name}.{field}", pc.struct_field(values, field)) for field in fields)
        else:
            yield name, values


def _scan_text(path: Path, name: str, phrases: Phrases | None) -> None:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise _found(name, "it is no text in UTF-8") from None
    _scan_words(text, name, bare=path.suffix not in _ROWS)
    if phrases is not None:
        spoken = list(_strings(json.loads(text))) if path.suffix == ".json" else [text]
        run = max(longest_runs(Phrases(spoken), phrases, len(spoken)), default=0)
        if run:
            raise _found(name, f"{run} words in a row stand in a report that way")


def _strings(value: Any) -> Iterator[str]:
    """The texts in a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _scan_words(text: str, name: str, bare: bool = True) -> None:
    if re.search(_NAMED_ID, text, re.MULTILINE) or (bare and _BARE_ID.search(_SIZES.sub("", text))):
        raise _found(name, "it holds what may be a patient or study id of MIMIC's range")
    if _BASE64.search(text):
        raise _found(name, "it holds an image as text")
