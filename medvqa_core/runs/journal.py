"""Keeps the records of groups that finished before an earlier one, so that a killed run does not lose them.

answers.ahead.jsonl    beside answers.jsonl; removed once its records are there
"""

from collections.abc import Iterable, Sequence

from medvqa_core.files import output_errors
from medvqa_core.runs.predictions import Prediction, PredictionStore


class Journal:
    """The journal of a run that writes `store`. The file is created when it is first needed. Use within `with`."""

    def __init__(self, store: PredictionStore) -> None:
        self._store = store
        self._path = store.path.with_name(f"{store.path.stem}.ahead{store.path.suffix}")
        self._file: PredictionStore | None = self._open() if self._path.exists() else None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is None:
            return
        is_needed = any(self._store.is_open(p.key, p.error is None) for p in self._file.predictions())
        self._file.close()
        if not is_needed:
            with output_errors(self._path):
                self._path.unlink()

    def find(self, keys: Iterable[str], retry_failed: bool) -> list[Prediction] | None:
        """The records of a group, or None unless all are there (with `retry_failed`: as answers)."""
        if self._file is None:
            return None
        found = [self._file.find(key) for key in keys]
        kept = [p for p in found if p is not None and not (retry_failed and p.error is not None)]
        return kept if len(kept) == len(found) else None

    def append(self, predictions: Sequence[Prediction]) -> None:
        """Write records with one sync. Raises OutputError."""
        if predictions:
            if self._file is None:  # one without records is falsy
                self._file = self._open()
            self._file.append(predictions)

    def _open(self) -> PredictionStore:
        return PredictionStore(self._path, self._store.governance, self._store.settings, kind=self._store.kind)
