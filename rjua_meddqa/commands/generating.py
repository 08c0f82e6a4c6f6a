"""The commands generate and reasoning: from a data folder to question files."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError, OutputError
from medvqa_core.files import make_folder
from medvqa_core.progress import track
from rjua_meddqa import data_folder as folders
from rjua_meddqa.card import CARD, write_card
from rjua_meddqa.data_folder import ANNOTATIONS, CONTEXTS, OUR_NAMES, QUESTIONS, REASONING, open_folder
from rjua_meddqa.generation.contexts import ContextBase, load_encoder
from rjua_meddqa.generation.questions import Options, QuestionGenerator
from rjua_meddqa.generation.reasoning import ReasoningGenerator, read_findings
from rjua_meddqa.generation.templates import load_templates
from rjua_meddqa.released import read_annotations, read_cells, write_questions
from rjua_meddqa.schema import CONTEXT_COLUMNS, Annotation, Question, ReasoningQuestion
from rjua_meddqa.terms import load_terms


def generate(
    data: Path,
    out: Path,
    options: Options,
    terms: Sequence[Path] = (),
    templates: Sequence[Path] = (),
) -> tuple[Counter[str], list[str]]:
    """Write `out/questions.jsonl` for the annotations in `data`, and the card `out/README.md`.

    Returns:
        Counts (images, questions, skipped by reason), and messages about what was left out.

    Raises:
        InputError: annotations cannot be read, or a user's file is broken.
        OutputError, GovernanceError: see `data_folder.record_part`.
    """
    folder = open_folder(data)
    words, forms = load_terms(*terms), load_templates(*templates)
    annotations, broken = _read(folder.file(ANNOTATIONS))
    generator = QuestionGenerator(forms, words, options, annotations)
    questions = [row for image in track(annotations, "questions") for row in generator.questions(image)]
    counts = Counter({"images": len(annotations), "questions": len(questions)}) + generator.skipped
    if broken:
        counts["unreadable_annotations"] = len(broken)
    if not questions:
        raise InputError(
            f"{folder.file(ANNOTATIONS)}: no questions could be generated ({dict(counts)}). Choose other forms."
        )
    details = asdict(options) | {"counts": dict(counts)}
    details |= {"terms": [path.name for path in terms], "templates": [path.name for path in templates]}
    return counts, [*broken, *_write(out, QUESTIONS, questions, folder, details, annotations)]


def reason(data: Path, findings: Path, out: Path, encoder: str, seed: int) -> tuple[Counter[str], list[str]]:
    """Write `out/reasoning.jsonl` and the card, from the experts' file `findings` and the data in `data`.

    Returns:
        Counts (questions, left out by reason), and messages about what was left out.

    Raises:
        InputError: a file is missing or broken, or no row of `findings` can be used.
        ConfigError: the encoder cannot be loaded.
        OutputError, GovernanceError: see `data_folder.record_part`.
    """
    folder = open_folder(data)
    base = ContextBase(read_cells(folder.file(CONTEXTS), CONTEXT_COLUMNS), load_encoder(encoder))
    annotations, broken = _read(folder.file(ANNOTATIONS))
    generator = ReasoningGenerator(base, annotations, seed)
    questions = generator.questions(read_findings(findings))
    counts = Counter(row.answer_type for row in questions) + generator.counts
    counts.update({f"contexts_with_{why}": count for why, count in base.skipped.items()})
    if broken:
        counts["unreadable_annotations"] = len(broken)
    if not questions:
        reason = "; ".join(generator.problems[:3]) or "it is empty"
        raise InputError(f"{findings}: no questions could be generated: {reason}")
    details = {"encoder": encoder, "seed": seed, "counts": dict(counts)}
    problems = _write(out, REASONING, questions, folder, details, annotations)
    return counts, [*broken, *generator.problems, *problems]


def _read(path: Path) -> tuple[list[Annotation], list[str]]:
    broken: list[str] = []
    annotations = read_annotations(path, broken)
    if not annotations:
        raise InputError(f"{path}: no annotation can be read: {'; '.join(broken[:3]) or 'it is empty'}")
    return annotations, broken


def _write(
    out: Path,
    part: str,
    questions: Sequence[Question | ReasoningQuestion],
    folder: folders.DataFolder,
    details: dict[str, Any],
    annotations: Sequence[Annotation],
) -> list[str]:
    """Write questions and card. Returns a message if the folder has another README.md."""
    found = open_folder(out).files.get(part) if out.is_dir() else None
    if found is not None and found.name != OUR_NAMES[part]:
        raise OutputError(f"{out} already holds {part} as {found.name}. Choose another output folder.")
    if folder.drafted:
        print(
            f"{folder.root}: the annotations are uncorrected drafts, and so are the answers. Correct them first with "
            "medvqa-hub meddqa labelstudio-export or explore.",
            file=sys.stderr,
        )
        details = details | {ANNOTATIONS: folders.DRAFT}
    folders.record_part(make_folder(out), part, folder.governance, details, folder.source)
    write_questions(questions, out / OUR_NAMES[part])
    if write_card(open_folder(out), annotations) is None:
        return [f"card: {out / CARD} was not written by medvqa-hub and is kept"]
    return []
