"""A small record store with three records."""

import json
from pathlib import Path

from medvqa_core.governance import Governance
from medvqa_core.store import RecordStore, content_key

OPEN, CREDENTIALED = Governance.OPEN, Governance.CREDENTIALED
SETTINGS = {"engine": "x", "seed": 0}
RECORDS = [{"key": content_key(n=n), "answer": text} for n, text in enumerate(["clear", "an opacité", "no\neffusion…"])]
LAST_LINE = (json.dumps(RECORDS[-1], ensure_ascii=False) + "\n").encode()


def open_store(path: Path, settings=SETTINGS, governance=OPEN, kind="answers", **options) -> RecordStore:
    return RecordStore(path, kind, governance, settings, **options)


def write_store(path: Path, records=RECORDS, **options) -> bytes:
    with open_store(path, **options) as store:
        for record in records:
            store.append([record])
    return path.read_bytes()
