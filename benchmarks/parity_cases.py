"""Studies, questions and ways of answering for `parity.py`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.append(str(Path(__file__).parent.parent / "tests" / "helpers"))

DRAWN_STUDIES, STUDIES, QUESTIONS = 56, 40, 9
FILE_SIDE = 512
Pairs = Sequence[Sequence[tuple[str, str]]]  # all (question, answer) of each study


@dataclass(frozen=True)
class Case:
    """A study with QUESTIONS questions and its images as the authors had them."""

    study: Any
    images: list[Image.Image]

    @property
    def questions(self) -> list[str]:
        return [row["question"] for row in self.study.rows]


@dataclass(frozen=True)
class Way:
    """How ours answers. Everything but `pixels` is a deliberate difference of a control.

    Attributes:
        generate: changed arguments of `generate`, for beam search.
        config: changed values of the model's configuration.
        lower_case: whether questions are read in lower case.
        other_images: whether the next study's images are shown.
    """

    pixels: str = "released"
    generate: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    lower_case: bool = False
    other_images: bool = False


def make_cases(out: Path) -> tuple[list[Case], list[list[tuple[str, str]]]]:
    """Draw studies of 950 to 1,200 pixels a side once, and return STUDIES of them with all their pairs."""
    from builds import build_release

    from medvqa_hub.evaluation.cxr.studies import load_studies
    from mimic_cxr_vqa.release import open_release

    tree = out / "tree"
    if not (out / "cropped").exists():
        build_release(out, studies=DRAWN_STUDIES, size=1200)
        rng = np.random.default_rng(0)
        for path in sorted(tree.rglob("*.jpg")):
            with Image.open(path) as image:
                film = image.convert("L").crop((0, 0, *(int(side) for side in rng.integers(950, 1200, 2))))
            film.save(path, quality=95)
        (out / "cropped").touch()
    studies = load_studies(open_release(out / "cxr"), "train", tree, STUDIES)
    pairs = [[(row["question"], row["answer"]) for row in study.rows] for study in studies]
    spread = [study.rows[:: len(study.rows) // QUESTIONS][:QUESTIONS] for study in studies]
    chosen = [replace(study, rows=rows) for study, rows in zip(studies, spread, strict=True)]
    return [Case(study, [_file_of_512(path) for path in study.images]) for study in chosen], pairs


def _file_of_512(path: Path) -> Image.Image:
    """The copy of a file that the authors' code reads: decoded in full, shorter side 512."""
    with Image.open(path) as image:
        film = image.convert("L")
        scale = FILE_SIDE / min(film.size)
        return film.resize([round(side * scale) for side in film.size], Image.Resampling.BICUBIC)
