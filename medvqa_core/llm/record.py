"""`language_model.json`: which language models the answers beside it came from, and what was said about their servers.

One entry for each model at each address, in the order of their first use: date, address, class of the texts, whether
the user said that the server is theirs (`--i-run-this-server`: asked once for an address and a model), the digest of
the attestation, and all that the model says of itself. Texts are not in it.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_object, write_json

FILE = "language_model.json"
_REMEDY = "remove the file, and say again what it kept"


class ModelRecord:
    """The entries of a file; made where it is absent. Raises InputError where it is not whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        found = read_object(path, _REMEDY) if path.exists() else {"entries": []}
        entries = found.get("entries")
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise InputError(f"{path}: no list of entries; {_REMEDY}")
        self.entries: list[dict[str, Any]] = entries
        # A record that came with somebody else's folder holds their word, not the user's.
        status = path.stat() if path.exists() else None
        self._is_users = status is None or (status.st_uid == os.getuid() and not status.st_mode & 0o077)

    def is_own(self, address: str, model: str | None) -> bool:
        """Whether the user said before that the server at `address`, which serves `model` (None: any), is theirs.

        It counts only in a file that is the user's alone, as it is written here: copies from elsewhere are asked anew.
        """
        return self._is_users and any(
            entry.get("own_server") is True and entry.get("address") == address and model in (None, entry.get("model"))
            for entry in self.entries
        )

    def add(
        self,
        address: str | None,
        governance: Governance,
        own_server: bool,
        attestation: str | None,
        description: Mapping[str, Any],
    ) -> None:
        """Keep an entry, unless there is one that says the same on another date. Raises OutputError."""
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
