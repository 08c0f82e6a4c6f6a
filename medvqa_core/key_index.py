"""Where the record of each key starts, in little memory: 24 bytes per key for all but the latest."""

from collections.abc import Iterator
from typing import Any

RUN = 1 << 20  # keys that are kept in a dictionary before they move to sorted arrays
WIDTH = 16  # bytes of a key


class KeyIndex:
    """A mapping from keys of WIDTH bytes to the offsets of their last records."""

    def __init__(self) -> None:
        self._latest: dict[bytes, int] = {}
        self._runs: list[tuple[Any, Any]] = []  # sorted keys and their offsets, oldest run first

    def __setitem__(self, key: bytes, offset: int) -> None:
        self._latest[key] = offset
        if len(self._latest) >= RUN:
            self._move()

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def get(self, key: bytes) -> int | None:
        """The offset of a key, or None."""
        found = self._latest.get(key)
        if found is None:
            for keys, offsets in reversed(self._runs):
                place = int(keys.searchsorted(key))
                if place < len(keys) and keys[place].ljust(WIDTH, b"\0") == key:  # numpy strips zeros
                    return int(offsets[place])
        return found

    def __len__(self) -> int:
        return len(self._sorted_offsets()) if self._runs else len(self._latest)

    def offsets(self) -> Iterator[int]:
        """The offsets of all keys, ascending."""
        return map(int, self._sorted_offsets() if self._runs else sorted(self._latest.values()))

    def _move(self) -> None:
        import numpy as np

        keys = np.array(list(self._latest), f"S{WIDTH}")
        order = keys.argsort()
        self._runs.append((keys[order], np.fromiter(self._latest.values(), np.int64, len(keys))[order]))
        self._latest = {}

    def _sorted_offsets(self) -> Any:
        import numpy as np

        if self._latest:
            self._move()
        keys = np.concatenate([keys for keys, _ in self._runs])
        offsets = np.concatenate([offsets for _, offsets in self._runs])
        order = np.lexsort((offsets, keys))
        keys, offsets = keys[order], offsets[order]
        is_last = np.append(keys[1:] != keys[:-1], True)
        return np.sort(offsets[is_last])
