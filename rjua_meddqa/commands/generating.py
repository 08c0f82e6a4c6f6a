"""The steps `generate` and `reasoning`: from a data folder to question files, with class and settings beside them."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from medvqa_core.errors import InputError, OutputError
from medvqa_core.files import make_folder
from medvqa_core.progress import track
from rjua_meddqa.card import CARD, write_card
from rjua_meddqa.data_folder import (
    ANNOTATIONS,
    CONTEXTS,
    DRAFT,
    OUR_NAMES,
    QUESTIONS,
    REASONING,
    DataFolder,
    open_folder,
    record_part,
)
from rjua_meddqa.generation.contexts import ContextBase, load_encoder
from rjua_meddqa.generation.questions import Options, QuestionGenerator
from rjua_meddqa.generation.reasoning import ReasoningGenerator, read_findings
from rjua_meddqa.generation.reasoning_file import write_reasoning
from rjua_meddqa.generation.templates import load_templates
from rjua_meddqa.released import read_annotations, read_cells, write_questions
from rjua_meddqa.schema import CONTEXT_COLUMNS, Annotation
from rjua_meddqa.terms import load_terms, normalise


def generate(
    data: Path,
    out: Path,
    options: Options,
    terms: Sequence[Path] = (),
    templates: Sequence[Path] = (),
    canonical_keys: bool = False,
) -> tuple[Counter[str], list[str]]:
    """Write `out/questions.jsonl` for the annotations in `data`, and the card `out/README.md`.

    Args:
        canonical_keys: ask for keys by their canonical name.

    Returns:
        Counts (images, questions, what was skipped and why), and what was left out: annotation rows that could not be
        read, a card.

    Raises:
        InputError: there are no annotations that can be read, or a user's file is wrong.
        OutputError, GovernanceError: see `data_folder.record_part`.
    """
    folder = open_folder(data)
    words, forms = load_terms(*terms), load_templates(*templates)
    annotations, broken = _read(folder.file(ANNOTATIONS))
    if canonical_keys:
        annotations = [normalise(annotation, words) for annotation in annotations]
    generator = QuestionGenerator(forms, words, options, annotations)
    questions = [row for image in track(annotations, "questions") for row in generator.questions(image)]
    counts = Counter({"images": len(annotations), "questions": len(questions)}) + generator.skipped
    if broken:
        counts["unreadable_annotations"] = len(broken)
    if not questions:
        raise InputError(f"{folder.file(ANNOTATIONS)}: no question came out of it; {dict(counts)}; choose other forms")
    _refuse_second_file(out, QUESTIONS)
    details = asdict(options) | {"canonical_keys": canonical_keys, "counts": dict(counts)}
    details |= {"terms": [path.name for path in terms], "templates": [path.name for path in templates]}
    details |= _say_drafted(folder)
    record_part(make_folder(out), QUESTIONS, folder.governance, details, folder.source)
    write_questions(questions, out / OUR_NAMES[QUESTIONS])
    return counts, [*broken, *_write_card(out, annotations)]


def reason(data: Path, findings: Path, out: Path, encoder: str, seed: int) -> tuple[Counter[str], list[str]]:
    """Write `out/reasoning.jsonl` and the card, from the experts' file `findings` and what is in `data`.

    Returns:
        Counts (questions, what was left out and why), and the first rows that could not be used.

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
    counts.update({f"contexts_with_{reason}": count for reason, count in base.skipped.items()})
    if broken:
        counts["unreadable_annotations"] = len(broken)
    if not questions:
        problems = "; ".join(generator.problems[:3]) or "it has no rows"
        raise InputError(f"{findings}: no question came out of it: {problems}")
    _refuse_second_file(out, REASONING)
    details = {"encoder": encoder, "seed": seed, "counts": dict(counts)} | _say_drafted(folder)
    record_part(make_folder(out), REASONING, folder.governance, details, folder.source)
    write_reasoning(questions, out / OUR_NAMES[REASONING])
    return counts, [*broken, *generator.problems, *_write_card(out, annotations)]


def _say_drafted(folder: DataFolder) -> dict[str, str]:
    """What the manifest keeps of annotations that nobody has corrected; says so."""
    if not folder.drafted:
        return {}
    print(
        f"{folder.root}: its annotations are drafts that nobody has corrected, and the answers come from them; correct "
        "them first: medvqa-hub meddqa labelstudio-export, or explore",
        file=sys.stderr,
    )
    return {ANNOTATIONS: DRAFT}


def _read(path: Path) -> tuple[list[Annotation], list[str]]:
    broken: list[str] = []
    annotations = read_annotations(path, broken)
    if not annotations:
        raise InputError(f"{path}: no annotation in it can be read; {'; '.join(broken[:3]) or 'it has no rows'}")
    return annotations, broken


def _write_card(out: Path, annotations: Sequence[Annotation]) -> list[str]:
    """Write the card beside the questions; says so where somebody else's README.md is there."""
    if write_card(open_folder(out), annotations) is None:
        return [f"card: {out / CARD} is none of ours and stays as it is"]
    return []


def _refuse_second_file(out: Path, part: str) -> None:
    """Two files of one part in a folder: nobody could tell which one is meant."""
    found = open_folder(out).files.get(part) if out.is_dir() else None
    if found is not None and found.name != OUR_NAMES[part]:
        raise OutputError(f"{out} holds {found.name} already, which is {part} too; choose another output folder")
