"""Predictions and answers of any dataset: JSON lines, appended as a model answers, resumed by content key.

One record per distinct request: `{"key", "id", "answer", "error", …details}`. Exactly one of `answer` and `error`
is null. The key is a hash of the run's settings (model fingerprint, generation settings) and of the request (image
content, question), so the same request is never sent twice and a changed request is a new one.

Files of `predictions` (of a model under evaluation) name the id `id`, files of `answers` (of a dataset) `qa_id`.
Several processes write a file each (`part_path`), which `merge_parts` joins.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import output_errors
from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from medvqa_core.store import RecordStore, content_key

PREDICTIONS, ANSWERS = "predictions", "answers"  # kinds of file
FILE = "predictions.jsonl"
_ID_NAMES = {PREDICTIONS: "id", ANSWERS: "qa_id"}


@dataclass(frozen=True)
class Prediction:
    """The outcome of one request.

    Attributes:
        key: content key, from `prediction_key`.
        id: the row that the request was first sent for.
        answer: the model's text, possibly empty; None for a failure.
        error: the reason of a failure; None for an answer.
        details: more fields of the record, such as token counts.
    """

    key: str
    id: str
    answer: str | None
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Reply(self.answer, self.error)  # raises if both or neither is set


def prediction_key(settings: Mapping[str, Any], **request: Any) -> str:
    """Content key of a request (JSON values) to a model with `settings`."""
    return content_key(settings=dict(settings), request=request)


class PredictionStore:
    """The predictions of one model, or the answers of one engine, with one set of settings.

    Args:
        path: the file; created with mode 0600 if it does not exist.
        governance: class of the data.
        settings: all that answers depend on besides the request; part of every key and of the header. None to read.
        read_only: open an existing file without a lock.
        kind: PREDICTIONS or ANSWERS.

    Raises:
        ConfigError: the file was started with other settings (the message lists them).
        GovernanceError, InputError, OutputError: as `RecordStore`.
    """

    def __init__(
        self,
        path: Path,
        governance: Governance,
        settings: Mapping[str, Any] | None = None,
        read_only: bool = False,
        kind: str = PREDICTIONS,
    ) -> None:
        self._store = RecordStore(path, kind, governance, settings, read_only)
        self._id = _ID_NAMES[kind]
        self.path, self.kind, self.governance, self.settings = path, kind, governance, self._store.settings

    def __enter__(self) -> "PredictionStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._store)

    def close(self) -> None:
        self._store.close()

    def key(self, **request: Any) -> str:
        """Content key of a request (JSON values) under this store's settings."""
        return prediction_key(self.settings, **request)

    def read(self, key: str) -> Prediction:
        """The prediction under `key`, which must exist."""
        found = self.find(key)
        assert found is not None, key
        return found

    def find(self, key: str) -> Prediction | None:
        """The outcome of a request, or None."""
        record = self._store.get(key)
        return None if record is None else self._read(record)

    def is_open(self, key: str, retry_failed: bool = False) -> bool:
        """Whether the request lacks a record or, with `retry_failed`, has failed."""
        found = self.find(key) if retry_failed else None
        return key not in self._store or (found is not None and found.error is not None)

    def append(self, predictions: Iterable[Prediction]) -> None:
        """Write `predictions` with one sync. Raises OutputError."""
        records = [
            {"key": p.key, self._id: p.id, "answer": p.answer, "error": p.error, **p.details} for p in predictions
        ]
        if records:
            self._store.append(records)

    def predictions(self) -> Iterator[Prediction]:
        """Every prediction, in the order of the file."""
        return (self._read(record) for record in self._store.records())

    def _read(self, record: dict[str, Any]) -> Prediction:
        fields = ("key", self._id, "answer", "error")
        details = {name: value for name, value in record.items() if name not in fields}
        try:
            key, id, answer, error = (record[name] for name in fields)
            if not isinstance(answer, str | None):
                raise ValueError
            return Prediction(key, id, answer, error, details)
        except (KeyError, ValueError):
            raise InputError(
                f"{self.path}: the record of key {record.get('key')!r} has neither an answer nor an error. Remove its "
                "line and run again"
            ) from None


def part_path(path: Path, process: int) -> Path:
    """`predictions.part-0.jsonl`: the file of one of several processes."""
    return path.with_name(f"{path.stem}.part-{process}{path.suffix}")


def merge_parts(path: Path, governance: Governance, settings: Mapping[str, Any]) -> int:
    """Move the predictions of all part files beside `path` into it, in order of their names, and return their number.

    It can be interrupted: a part is removed once its records are synced, and no record is written twice.
    """
    moved = 0
    parts = sorted(path.parent.glob(f"{path.stem}.part-*{path.suffix}"))
    if not parts:
        return 0
    with PredictionStore(path, governance, settings) as store:
        for part in parts:
            with PredictionStore(part, governance, settings) as source:
                new = [p for p in source.predictions() if store.find(p.key) != p]
                store.append(new)
                moved += len(new)
            with output_errors(part):
                part.unlink()
    return moved
