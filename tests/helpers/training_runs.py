"""Small supervised runs for the tests: drawn studies, recipes, and a run that stops where a test wants it to."""

from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, Features, Image, List, Value
from PIL import Image as Pillow

from medvqa_hub.training.recipes import Recipe, load_recipe, make_recipe

QUESTIONS = ("Is there an effusion?", "Is the heart enlarged?", "Are the lungs clear?", "What devices are seen?")
ANSWERS = ("no effusion is seen.", "the heart is enlarged.", "yes, clear lungs.", "a small left effusion and a tube.")
FIRST_STUDY = 95_000_000
# A run of a few seconds on a build: a step is 4 studies in two batches.
FAST = {
    "training.epochs": None, "training.max_steps": 8, "training.log_every": 2, "training.save_every": 3,
    "training.studies_per_step": 4, "training.studies_per_batch": 2,
    "training.learning_rates": "{encoder: 1e-3, decoder: 1e-3}", "data.questions_per_study": 2, "selection.every": 2,
    "selection.studies": 4, "selection.studies_per_batch": 2, "selection.questions_per_study": 2,
    "selection.max_new_tokens": 8,
}  # fmt: skip


def study_rows(counts: list[int], answers: dict[tuple[int, int], str | None] | None = None, images: int = 1) -> Dataset:
    """Rows of the `studies` configuration; study i has `counts[i]` questions, and noise images.

    Args:
        answers: (study, place) -> another answer than the usual one.
    """
    rows = []
    for study, count in enumerate(counts):
        questions = [
            {
                "qa_id": f"s{FIRST_STUDY + study}-edema-{place}",
                "question": QUESTIONS[place % 4],
                "answer": (answers or {}).get((study, place), ANSWERS[(study + place) % 4]),
                "category": "Edema",
                "label_value": "positive",
            }
            for place in range(count)
        ]
        pictures = [noise(study * 10 + number) for number in range(images)]
        rows.append(
            {"study_id": FIRST_STUDY + study, "questions": questions, "images": pictures, "views": ["AP"] * images}
        )
    question = {name: Value("string") for name in ("qa_id", "question", "answer", "category", "label_value")}
    features = {
        "study_id": Value("int64"), "questions": List(question), "images": List(Image()),
        "views": List(Value("string")),
    }  # fmt: skip
    return Dataset.from_list(rows, features=Features(features))


def noise(seed: int) -> Pillow.Image:
    return Pillow.fromarray(np.random.default_rng(seed).integers(0, 255, (64, 64), dtype=np.uint8))


def recipe(kind: str = "swin_ved", **sections: dict[str, Any]) -> Recipe:
    """A tiny recipe: two steps of four studies, unless `sections` say otherwise."""
    rates = {"encoder": 1e-3, "decoder": 1e-3} if kind == "swin_ved" else {"q_formers": 1e-3, "prefix": 1e-3}
    values = {
        "model": {"kind": kind, "size": "tiny"},
        "data": {"questions_per_study": 2},
        "training": {
            "epochs": None, "max_steps": 2, "studies_per_step": 4, "studies_per_batch": 4, "log_every": 1,
            "learning_rates": rates,
        },
        "selection": {"every": 1, "studies_per_batch": 2},
    }  # fmt: skip
    for name, changes in sections.items():
        values[name] = {**values.get(name, {}), **changes}
    return make_recipe(values)


def fast_recipe(name: str = "tiny-swin-ved-stage2", **changes: Any) -> Recipe:
    """A shipped recipe, made short by FAST; `section__key=value` changes more."""
    merged = {**FAST, **{key.replace("__", "."): value for key, value in changes.items()}}
    return load_recipe(name, [f"{key}={'null' if value is None else value}" for key, value in merged.items()])


def without_speed(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Log entries without what depends on the clock."""
    timed = ("questions_per_second", "data_wait_share")
    return [{key: value for key, value in entry.items() if key not in timed} for entry in entries]


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")
