"""Edits of items by several people: append-only records of author, time, base version and change.

The version of an item is the number of its edits, and its state is the fold of their changes. Every edit names the
version that it was based on. Older versions stay in the log, so that nothing is lost and each can be restored by a
further edit.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from medvqa_core.errors import InputError, quote_value
from medvqa_core.files import make_folder, output_errors
from medvqa_core.governance import Governance
from medvqa_core.store import RecordStore, content_key

LONGEST_AUTHOR = 64  # characters
EARLIER = "earlier version"  # author of states from files without a log


class EditConflictError(InputError):
    """An item was edited after the version that an edit is based on."""


@dataclass(frozen=True)
class Edit:
    """One accepted edit. `change` has the new values of the fields that it changed; `version` counts from 1."""

    item: str
    version: int
    author: str
    time: str
    base: int
    change: dict[str, Any]


class EditLog:
    """The edits in a JSON-lines file. Thread-safe, and several processes may append to one file.

    Args:
        kind: of the items ("corrections", …). It must match the file's.
        earlier: states from a file without a log. Each is the first edit of an item that has none in the log.

    Raises:
        ConfigError, GovernanceError, InputError: from `RecordStore`.
    """

    def __init__(
        self, path: Path, kind: str, governance: Governance, earlier: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self.path, self._kind, self._governance = path, kind, governance
        self._earlier = {item: Edit(item, 1, EARLIER, "", 0, dict(state)) for item, state in (earlier or {}).items()}
        self._lock = threading.RLock()
        self._edits: dict[str, list[Edit]] = {}
        self._size = 0
        self.refresh()

    def refresh(self) -> None:
        """Read the edits that other processes have appended."""
        with self._lock:
            size = self.path.stat().st_size if self.path.exists() else 0
            if size == self._size or not _has_header(self.path):
                return
            with RecordStore(self.path, self._kind, self._governance, None, read_only=True) as store:
                self._load(store)
            self._size = size

    def items(self) -> list[str]:
        """Items with edits."""
        with self._lock:
            return list(dict.fromkeys([*self._earlier, *self._edits]))

    def history(self, item: str) -> list[Edit]:
        """The edits of an item, oldest first."""
        with self._lock:
            known = self._edits.get(item)
            return list(known) if known else [self._earlier[item]] if item in self._earlier else []

    def version(self, item: str) -> int:
        """The number of edits of an item."""
        return len(self.history(item))

    def state(self, item: str, version: int | None = None) -> dict[str, Any]:
        """The fields of an item, now or at an earlier version."""
        return _fold(self.history(item)[:version])

    def append(
        self, item: str, author: str, base: int | None, state: Mapping[str, Any], time: str | None = None
    ) -> Edit | None:
        """Record the fields of `state` that differ from the current ones. The edit is on disk when this returns.

        Args:
            base: the version that was edited. None: the current one.
            time: ISO 8601. The default is now.

        Returns:
            The edit, or None if nothing changed.

        Raises:
            EditConflictError: the item has another version than `base`.
            InputError: the author or a text cannot be saved.
            OutputError: the file cannot be written. Nothing was saved.
        """
        with self.writing():
            known = self.history(item)
            if base is not None and base != len(known):
                raise EditConflictError(
                    f"{item} was saved by {known[-1].author if known else 'nobody'} in the meantime (version "
                    f"{len(known)}, yours is based on {base}). Nothing was overwritten. Choose what to keep."
                )
            return self._extend([(item, author, time or _now(), state)])[0]

    def extend(self, edits: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> None:
        """Record edits that were made elsewhere: (item, author, time, state) each. Raises as `append`."""
        with self.writing():
            self._extend(edits)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock of the log, for which other processes wait, also for files made from the log."""
        make_folder(self.path.parent, self._governance.private)
        with self._lock, output_errors(self.path), FileLock(self.path.with_name(f".{self.path.name}.lock")):
            self.refresh()
            yield

    def _extend(self, edits: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> list[Edit | None]:
        made: list[Edit | None] = []
        after: dict[str, list[Edit]] = {}  # histories of the edited items
        for item, author, time, state in edits:
            known = after.setdefault(item, self.history(item))
            name, kept = check_author(author), _fold(known)
            check_encodable([time, dict(state)], item)
            change = {field: value for field, value in state.items() if field not in kept or kept[field] != value}
            made.append(Edit(item, len(known) + 1, name, time, len(known), change) if change else None)
            known += [edit for edit in made[-1:] if edit is not None]
        changed = {item: known for item, known in after.items() if len(known) > len(self.history(item))}
        new = [edit for item, known in changed.items() for edit in known[len(self._edits.get(item, ())) :]]
        if new:
            with RecordStore(self.path, self._kind, self._governance, None) as store:
                store.append({"key": content_key(item=edit.item, version=edit.version), **asdict(edit)} for edit in new)
            self._size = self.path.stat().st_size
            self._edits |= changed
        return made

    def _load(self, store: RecordStore) -> None:
        self._edits = {}
        for record in store.records():
            fields = {name: value for name, value in record.items() if name != "key"}
            try:
                edit = Edit(**fields)
                known = self._edits.setdefault(edit.item, [])
                is_next = edit.version == len(known) + 1 and isinstance(edit.change, dict)
            except (TypeError, AttributeError):
                is_next = False
            if not is_next:
                raise InputError(f"{self.path}: record {record.get('key')} is not the next edit of its item")
            known.append(edit)


def _fold(edits: Iterable[Edit]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for edit in edits:
        found |= edit.change
    return found


def _has_header(path: Path) -> bool:
    """Whether the first line is complete. It is not if a process was killed while it created the file."""
    if not path.exists():
        return False
    with open(path, "rb") as file:
        return file.readline().endswith(b"\n")


def check_author(author: Any) -> str:
    """The name without white space around it. Raises InputError for a name that cannot be shown."""
    name = author.strip() if isinstance(author, str) else ""
    if not 1 <= len(name) <= LONGEST_AUTHOR or not name.isprintable():
        raise InputError(
            f"author {quote_value(str(author))} is not a name. Expected 1 to {LONGEST_AUTHOR} printable characters."
        )
    return name


def check_encodable(value: Any, where: str) -> None:
    """Raise InputError if a text holds half of a surrogate pair, which JSON can express and UTF-8 cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(f"{where} contains half of a surrogate pair, which cannot be saved. Remove it.") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
