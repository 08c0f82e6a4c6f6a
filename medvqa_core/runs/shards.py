"""Shards of a run on several machines, and merging them into the file of a single-machine run.

Shard i of n has every n-th group (study), starting with the i-th, and writes its own file. Records are merged in the
order of the questions, so the result is byte-identical to a single-machine run.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import PARTIAL_SUFFIX, output_errors
from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import ANSWERS, Prediction, PredictionStore

G = TypeVar("G")


@dataclass(frozen=True)
class Shard:
    """Part `number` of `of`, counted from 1."""

    number: int
    of: int

    def select_groups(self, groups: Iterable[G]) -> Iterator[G]:
        """The groups of this part."""
        return islice(groups, self.number - 1, None, self.of)

    def path(self, whole: Path) -> Path:
        """This part's file beside `whole`, such as `answers.shard-2-of-4.jsonl`; `whole` itself for the only part."""
        if self.of == 1:
            return whole
        return whole.with_name(f"{whole.stem}.shard-{self.number}-of-{self.of}{whole.suffix}")


WHOLE = Shard(1, 1)


def parse_shard(text: str) -> Shard:
    """`--shard i/n`. Raises ConfigError unless 1 <= i <= n."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ConfigError(f"--shard {text!r}: expected i/n with 1 <= i <= n, such as 2/8 for the second of eight parts")
    return Shard(int(found[1]), int(found[2]))


def shard_files(whole: Path) -> list[Path]:
    """The shards' files beside `whole`, by number."""
    found = {}
    for path in whole.parent.glob(f"{whole.stem}.shard-*{whole.suffix}"):
        if name := re.fullmatch(rf"{re.escape(whole.stem)}\.shard-(\d+)-of-(\d+){re.escape(whole.suffix)}", path.name):
            found[path] = (int(name[1]), int(name[2]))
    return sorted(found, key=lambda path: found[path])


def merge_in_order(
    path: Path, sources: Sequence[Path], order: Iterable[Sequence[str]], governance: Governance, kind: str = ANSWERS
) -> Counter:
    """Write the records of `sources` (and of `path`, where it exists) to `path`, in the order of their keys.

    Of several records of a key an answer counts before a failure, then the first in the order `path`, `sources`. The
    sources are not changed. `path` is replaced atomically.

    Args:
        order: content keys of all questions, in batches.

    Returns:
        `merged` (records), `open` (keys without a record), `differing` (keys with different records), `foreign`
        (records that were left out because their key is not in `order`).

    Raises:
        ConfigError: the sources were made with different settings.
        GovernanceError, InputError, OutputError: as `RecordStore`.
    """
    counts = Counter(merged=0, open=0, differing=0, foreign=0)
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    with ExitStack() as stack:
        settings = read_shard_settings(sources, governance, kind)
        stores = [stack.enter_context(PredictionStore(path, governance, settings, kind=kind))]
        for source in sources:
            if not path.samefile(source):
                stores.append(PredictionStore(source, governance, settings, read_only=True, kind=kind))
                stack.callback(stores[-1].close)
        with output_errors(partial):
            partial.unlink(missing_ok=True)  # of a killed run
        found_in: Counter[Path] = Counter()
        with PredictionStore(partial, governance, settings, kind=kind) as merged:
            for keys in order:
                records = [_choose(key, stores, counts, found_in) for key in keys]
                merged.append(record for record in records if record is not None)
            counts["merged"] = len(merged)
        counts["foreign"] = sum(len(store) - found_in[store.path] for store in stores)
        with output_errors(path):
            os.replace(partial, path)
    return counts


def read_shard_settings(sources: Sequence[Path], governance: Governance, kind: str = ANSWERS) -> Mapping[str, Any]:
    """The settings of the first of `sources`. Raises InputError if there is none."""
    if not sources:
        raise InputError("found nothing to merge. Answer with --shard i/n first, or name the files of the parts")
    with PredictionStore(sources[0], governance, read_only=True, kind=kind) as first:
        return first.settings


def _choose(key: str, stores: Sequence[PredictionStore], counts: Counter, found_in: Counter[Path]) -> Prediction | None:
    found = {store.path: record for store in stores if (record := store.find(key)) is not None}
    found_in.update(found.keys())
    if not found:
        counts["open"] += 1
        return None
    records = list(found.values())
    counts["differing"] += any(record != records[0] for record in records)
    return next((record for record in records if record.error is None), records[0])
