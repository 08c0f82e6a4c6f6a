"""Keeps the records that must wait for others of their group or of an earlier one, so that a killed run keeps them.

answers.ahead.jsonl    beside answers.jsonl; removed once its records are there
"""

from pathlib import Path

from medvqa_core.files import output_errors
from medvqa_core.runs.predictions import Prediction, PredictionStore

MOST = 100_000  # records in the file before those that are in the store are dropped


class Journal:
    """The journal of a run that writes `store`. The file is created when it is first needed. Use within `with`."""

    def __init__(self, store: PredictionStore) -> None:
        self._store, self._new = store, list[Prediction]()
        self._path = store.path.with_name(f"{store.path.stem}.ahead{store.path.suffix}")
        self._file: PredictionStore | None = self._open(self._path) if self._path.exists() else None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is None:
            return
        is_needed = any(map(self._is_open, self._file.predictions()))
        self._file.close()
        if not is_needed:
            with output_errors(self._path):
                self._path.unlink()

    def find(self, key: str, retry_failed: bool) -> Prediction | None:
        """The record of a request (with `retry_failed`: if it is an answer), or None."""
        found = self._file.find(key) if self._file is not None else None  # one without records is falsy
        return None if found is not None and retry_failed and found.error is not None else found

    def add(self, prediction: Prediction) -> None:
        """Add a record, which `write` writes."""
        self._new.append(prediction)

    def write(self) -> None:
        """Write the added records that the store lacks, with one sync. Raises OutputError."""
        new, self._new = [p for p in self._new if self._is_open(p)], []
        if new:
            if self._file is None:
                self._file = self._open(self._path)
            elif len(self._file) >= MOST:
                self._drop_stored(self._file)
            self._file.append(new)

    def _drop_stored(self, old: PredictionStore) -> None:
        fresh = self._path.with_suffix(".new")
        with output_errors(fresh):
            fresh.unlink(missing_ok=True)
        self._file = self._open(fresh)
        self._file.append([p for p in old.predictions() if self._is_open(p)])
        with output_errors(self._path):
            fresh.replace(self._path)
        old.close()

    def _is_open(self, prediction: Prediction) -> bool:
        return self._store.is_open(prediction.key, prediction.error is None)

    def _open(self, path: Path) -> PredictionStore:
        return PredictionStore(path, self._store.governance, self._store.settings, kind=self._store.kind)
