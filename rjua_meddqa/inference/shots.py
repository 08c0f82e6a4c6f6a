"""Few-shot examples: questions of the same task and answer type about other images, with their answers, drawn by seed.

All questions of a kind draw from one shuffled list and take its first ones that are about other images: most of them
have the same examples, which a server's prefix cache then holds. An image is another one where its content is: a copy
of the image asked about under another name is never an example.
"""

import random
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

from medvqa_core.errors import ConfigError
from rjua_meddqa.inference.questions import DocumentQuestion


def draw_shots(
    rows: Sequence[DocumentQuestion], count: int, seed: int, content: Mapping[Path, Hashable]
) -> dict[str, tuple[DocumentQuestion, ...]]:
    """{id: examples} of each row: `count` of them, from as many images, or as many as there are images.

    Args:
        content: a digest of each image that can be shown; a row about another image is no example.

    Raises:
        ConfigError: `count` is negative.
    """
    if count < 0:
        raise ConfigError(f"{count} shots; none or more")
    kinds: dict[tuple[str, str], list[DocumentQuestion]] = {}
    for row in sorted(rows, key=lambda row: row.id):  # the order of the file is no part of the draw
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
