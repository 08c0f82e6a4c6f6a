"""Append-only record store: one JSONL file from which an interrupted run resumes.

Line 1 is the header `{"store": 1, "kind": …, "governance": …, "settings": {…}}`. Every other line is a record
`{"key": "<32 hex digits>", …}`. A torn last line, left by a crash, is removed on opening. Any other broken line is an
error. The last record of a key counts, so a failure can be retried. One process writes at a time.

Keys are hashes of the request that a record answers (`content_key`), never positions.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError, OutputError
from medvqa_core.files import lock_file, make_folder, output_errors
from medvqa_core.governance import Governance, check_not_lowered, parse
from medvqa_core.json_lines import reject_repeated_names
from medvqa_core.key_index import KeyIndex

STORE_VERSION = 1
_HEADER_PREFIX = b'{"store": '
_KEY_PREFIX = b'{"key": "'
_KEY_LENGTH = 32
_CLOSED = -1  # not a file descriptor


def content_key(**content: Any) -> str:
    """A hash (32 hex digits) of the named JSON values of `content`."""
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=_KEY_LENGTH // 2).hexdigest()


class RecordStore:
    """Records by content key, in the order in which they were appended. Use it as a context manager.

    Args:
        path: the JSONL file; created if it does not exist.
        kind: of the records ("answers", …); must match the file's.
        governance: class of the records; must match the file's. (Files of Open-i may still have its old class,
            `share-alike`, in place of `no-derivatives`.)
        settings: those of the run; must match the file's. None to read: the attribute `settings` has the file's.
        read_only: open an existing file without a lock.

    Raises:
        ConfigError: the file is of another kind or was started with other settings (the message lists them).
        GovernanceError: `governance` is weaker than the file's class.
        InputError: the file is missing (read-only) or has a broken line before its end.
        OutputError: the file cannot be written, or another process is writing it.
    """

    def __init__(
        self, path: Path, kind: str, governance: Governance, settings: Mapping[str, Any] | None, read_only: bool = False
    ) -> None:
        self.path = path
        self._offsets = KeyIndex()  # key -> start of its last line
        self._descriptor = _CLOSED
        written = json.loads(json.dumps(dict(settings or {})))  # tuples become lists
        header = {"store": STORE_VERSION, "kind": kind, "governance": str(governance), "settings": written}
        if read_only:
            self._open_for_reading()
        else:
            self._open_for_writing()
        try:
            self._end = _end_of_last_line(self._file)
            if not self._end and not read_only:
                self._write_header(header)
            self.settings = self._check_header(header, compare_settings=settings is not None)
            self.governance = governance
            self._index()
            if not read_only:
                self._cut_torn_line()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "RecordStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._offsets

    def __getitem__(self, key: str) -> dict[str, Any]:
        """The last record of `key`. Raises KeyError."""
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def get(self, key: str) -> dict[str, Any] | None:
        """The last record of `key`, or None."""
        offset = self._offsets.get(bytes.fromhex(key))
        if offset is None:
            return None
        return self._read(offset)

    def records(self) -> Iterator[dict[str, Any]]:
        """The last record of every key, in file order."""
        for offset in self._offsets.offsets():
            yield self._read(offset)

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write `records` (each with a "key") with one sync. Raises OutputError; earlier records stay valid."""
        lines, offsets, position = [], {}, self._end
        for record in records:
            fields = {"key": record["key"], **{name: value for name, value in record.items() if name != "key"}}
            line = _encode_line(fields)
            assert line.startswith(_KEY_PREFIX) and len(fields["key"]) == _KEY_LENGTH, fields["key"]
            offsets[bytes.fromhex(fields["key"])] = position
            position += len(line)
            lines.append(line)
        try:
            self._write(b"".join(lines))
        except OutputError:
            os.ftruncate(self._descriptor, self._end)
            raise
        for key, offset in offsets.items():
            self._offsets[key] = offset

    def close(self) -> None:
        """Release the file and its lock."""
        self._file.close()
        if self._descriptor != _CLOSED:
            os.close(self._descriptor)
            self._descriptor = _CLOSED

    def _open_for_reading(self) -> None:
        try:
            self._file = open(self.path, "rb")  # noqa: SIM115 - closed by close()
        except FileNotFoundError:
            raise InputError(f"{self.path}: no such file. Run the step that writes it first") from None
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror}). Check the path") from None

    def _open_for_writing(self) -> None:
        make_folder(self.path.parent)
        with output_errors(self.path):
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            self._file = open(self.path, "rb")  # noqa: SIM115 - closed by close()
        try:
            lock_file(self._descriptor, self.path)
        except OutputError:
            self.close()
            raise

    def _write_header(self, header: dict[str, Any]) -> None:
        """Write the header into a file that is empty or torn within its header."""
        self._file.seek(0)
        start = self._file.read(len(_HEADER_PREFIX))
        if not _HEADER_PREFIX.startswith(start):
            raise ConfigError(f"{self.path} starts with {start!r} and is not a store. Choose another output folder")
        self._cut_torn_line()
        self._write(_encode_line(header))

    def _cut_torn_line(self) -> None:
        with output_errors(self.path):
            os.ftruncate(self._descriptor, self._end)

    def _write(self, data: bytes) -> None:
        """Append `data` after the last complete line and sync it."""
        with output_errors(self.path):
            written = 0
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], self._end + written)
            os.fsync(self._descriptor)
        self._end += len(data)

    def _check_header(self, header: dict[str, Any], compare_settings: bool) -> dict[str, Any]:
        found = self._read(0)
        if found.get("store") != STORE_VERSION or found.get("kind") != header["kind"]:
            raise ConfigError(
                f"{self.path} is a {found.get('kind')!r} store of version {found.get('store')!r}. Expected "
                f"{header['kind']!r}, version {STORE_VERSION}. Choose another output folder"
            )
        settings = found.get("settings", {})
        current, wanted = parse(found.get("governance", ""), str(self.path)), Governance(header["governance"])
        renamed = (current, wanted) == (Governance.SHARE_ALIKE, Governance.NO_DERIVATIVES)  # older files of Open-i
        raised = check_not_lowered(current, wanted, str(self.path)) is not current
        if raised and not renamed:
            raise ConfigError(
                f"{self.path} was written as {current!s} data, but the input is {header['governance']}. Remove the "
                "file or choose another output folder, so that every row has the stricter class"
            )
        differing = _differences(settings, header["settings"])
        if differing and compare_settings:
            raise ConfigError(
                f"{self.path} was started with other settings: {differing}. Use the same, or another output folder"
            )
        return settings

    def _read(self, offset: int) -> dict[str, Any]:
        """The record (or the header) whose line starts at `offset`."""
        self._file.seek(offset)
        line = self._file.readline()
        try:
            record = json.loads(line, object_pairs_hook=reject_repeated_names)
        except ValueError as error:
            raise InputError(f"{self._name_line(offset)}: not valid JSON ({error}); {_remedy(offset)}") from None
        if not isinstance(record, dict):
            found = type(record).__name__
            raise InputError(f"{self._name_line(offset)}: expected a JSON object, found {found}; {_remedy(offset)}")
        return record

    def _name_line(self, offset: int) -> str:
        self._file.seek(0)
        lines_before = self._file.read(offset).count(b"\n")
        return f"{self.path}, line {lines_before + 1}"

    def _index(self) -> None:
        self._file.seek(0)
        position = len(self._file.readline())
        for number, line in enumerate(iter(self._file.readline, b""), start=2):
            if position >= self._end:  # a torn line
                break
            key = line[len(_KEY_PREFIX) : len(_KEY_PREFIX) + _KEY_LENGTH]
            if not line.startswith(_KEY_PREFIX) or not line.endswith(b"}\n"):
                raise InputError(f"{self.path}, line {number}: not a record. Remove the line and run again")
            try:
                self._offsets[bytes.fromhex(key.decode("ascii"))] = position
            except ValueError:
                raise InputError(f"{self.path}, line {number}: broken key {key!r}. Remove the line") from None
            position += len(line)


def _end_of_last_line(file: Any) -> int:
    """Position after the last newline."""
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(0, position - 65536)
        file.seek(start)
        newline = file.read(position - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0


def _encode_line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _remedy(offset: int) -> str:
    return "remove the line and run again" if offset else "not a store. Choose another output folder"


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    return ", ".join(f"{name} was {before.get(name)!r}, now {now.get(name)!r}" for name in names)
