"""`language_model.json`: the language models that produced the answers beside it.

One entry per model and address, in the order of first use: date, address, class of the texts, whether the user gave
`--i-run-this-server` (needed once per address and model), the digest of the attestation, and the model's description.
The server's capabilities are tried first when a run is resumed.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_object, write_json
from medvqa_core.llm.completions import ServerCapabilities

FILE = "language_model.json"
_REMEDY = "remove the file and repeat the options that it recorded"


class ModelRecord:
    """The entries of a file, which need not exist. Raises InputError if it is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        found = read_object(path, _REMEDY) if path.exists() else {"entries": []}
        entries = found.get("entries")
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise InputError(f"{path}: expected a list of entries; {_REMEDY}")
        self.entries: list[dict[str, Any]] = entries
        # A record that came with another user's folder is not a statement of this user.
        status = path.stat() if path.exists() else None
        self._is_users = status is None or (status.st_uid == os.getuid() and not status.st_mode & 0o077)

    def is_own(self, address: str, model: str | None) -> bool:
        """Whether the user stated before that they run the server at `address` with `model` (None: any).

        Only files that the user owns and that are not accessible to others count.
        """
        return self._is_users and any(
            entry.get("own_server") is True and entry.get("address") == address and model in (None, entry.get("model"))
            for entry in self.entries
        )

    def find_capabilities(self, address: str, model: str | None) -> ServerCapabilities | None:
        """What the server supported when it was last used with `model` (None: any)."""
        for entry in reversed(self.entries):
            if entry.get("address") == address and model in (None, entry.get("model")) and "schema" in entry:
                return ServerCapabilities(str(entry["schema"]), entry.get("seed") is True)
        return None

    def add(
        self,
        address: str | None,
        governance: Governance,
        own_server: bool,
        attestation: str | None,
        description: Mapping[str, Any],
    ) -> None:
        """Add an entry unless there is an equal one (dates aside). Raises OutputError."""
        entry = {
            "address": address,
            "governance": str(governance),
            "own_server": own_server,
            "attestation": attestation,
            **description,
        }
        if any({**known, "date": None} == {**entry, "date": None} for known in self.entries):
            return
        self.entries.append({"date": datetime.now(UTC).date().isoformat(), **entry})
        private = governance.private or any(entry.get("own_server") for entry in self.entries)
        write_json(self.path, {"entries": self.entries}, private=private)
