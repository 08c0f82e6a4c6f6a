"""Draws few-shot examples: answered questions of the same task and answer type about other images.

All questions of a kind take the first suitable ones of one shuffled list, so that most of them share their examples in
a server's prefix cache. Images are compared by content, so that a copy of the image in question is never an example.
"""

import random
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

from medvqa_core.errors import ConfigError
from rjua_meddqa.inference.questions import DocumentQuestion


def draw_shots(
    rows: Sequence[DocumentQuestion], count: int, seed: int, content: Mapping[Path, Hashable]
) -> dict[str, tuple[DocumentQuestion, ...]]:
    """Return {id: examples} of each row, with up to `count` examples from different images.

    Args:
        content: a digest of each image that can be shown. Rows about other images are not used.

    Raises:
        ConfigError: `count` is negative.
    """
    if count < 0:
        raise ConfigError(f"{count} shots: must be 0 or more")
    kinds: dict[tuple[str, str], list[DocumentQuestion]] = {}
    for row in sorted(rows, key=lambda row: row.id):  # independent of the order of the file
        if row.image in content and row.answer.strip():
            kinds.setdefault((row.task, row.answer_type), []).append(row)
    for kind, found in kinds.items():
        random.Random(f"{seed} {' '.join(kind)}").shuffle(found)
    return {row.id: _choose(row, kinds.get((row.task, row.answer_type), ()), count, content) for row in rows}


def _choose(
    row: DocumentQuestion, order: Sequence[DocumentQuestion], count: int, content: Mapping[Path, Hashable]
) -> tuple[DocumentQuestion, ...]:
    chosen: list[DocumentQuestion] = []
    seen = {content.get(row.image)}  # type: ignore[arg-type]
    for other in order:
        if len(chosen) == count:
            break
        digest = content[other.image]  # type: ignore[index]
        if digest not in seen and other.img_path != row.img_path:
            chosen.append(other)
            seen.add(digest)
    return tuple(chosen)
