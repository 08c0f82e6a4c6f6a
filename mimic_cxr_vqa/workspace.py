"""The folder that a dataset is built in: its parts, and their manifests.

    <out>/questions/   studies.parquet, questions.parquet, manifest.json (appears complete, by rename)
    <out>/answers.jsonl                append-only store (medvqa_core.store), one record per question
    <out>/release/                     the finished dataset (release_writer.py)

`manifest.json` carries the governance class, the seed and the counts on to every later step.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import MANIFEST
from medvqa_core.governance import Governance, parse

SAMPLE_DIR = Path(__file__).parent / "sample"  # the bundled release
QUESTIONS_KIND, RELEASE_KIND = "questions", "release"  # what a manifest describes
FORMAT = 1


@dataclass(frozen=True)
class Workspace:
    """Paths of one build."""

    root: Path

    @property
    def questions(self) -> Path:
        return self.root / "questions"

    @property
    def answers(self) -> Path:
        return self.root / "answers.jsonl"

    @property
    def release(self) -> Path:
        return self.root / "release"

    def manifest(self) -> dict[str, Any]:
        """The manifest of the question step. Raises InputError where that step has not finished."""
        remedy = f"run: medvqa-hub cxr questions --out {self.root} (with --source and --root)"
        return read_manifest(self.questions, QUESTIONS_KIND, remedy, ("counts", "label_counts", "questions_per_split"))

    def studies_with_questions(self) -> int:
        """How many studies there are to answer."""
        return self.manifest()["counts"]["studies_with_questions"]


def read_manifest(folder: Path, kind: str, remedy: str, fields: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read and check `<folder>/manifest.json`.

    Args:
        fields: objects that it must have.

    Raises:
        InputError: it is absent, of another kind, or lacks a field; the message ends in `remedy`.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {remedy}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); {remedy}") from None
    if not isinstance(manifest, dict) or manifest.get("kind") != kind or manifest.get("format") != FORMAT:
        raise InputError(f"{path}: not a {kind} manifest of format {FORMAT}; {remedy}")
    parse(manifest.get("governance", ""), str(path))
    for field in fields:
        if not isinstance(manifest.get(field), dict):
            raise InputError(f"{path}: no object {field!r}; {remedy}")
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write `<folder>/manifest.json` with sorted keys: the same content is the same bytes."""
    text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def governance_of(manifest: dict[str, Any]) -> Governance:
    """The class that a checked manifest carries."""
    return Governance(manifest["governance"])
