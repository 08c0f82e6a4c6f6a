"""Writes synthetic Chinese medical reports with exact annotations, in the layout of `data_folder`.

    images/report0001.png|jpg   annotations.csv   questions.jsonl   reasoning.jsonl   contexts.csv   findings.csv
    boxes/report0001.json       boxes of all printed texts in pixels of the image
    texts/report0001.txt        hard pages: the printed texts in reading order, tab-separated
    difficulties.csv            hard and varied pages: the difficulties of each
    README.md                   the card
    manifest.json               class, seed, version; "complete" is set last

Safe to interrupt: the same call keeps the finished images and writes the missing ones.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, OutputError
from medvqa_core.files import PARTIAL_SUFFIX, atomic_file, make_folder
from medvqa_core.governance import Governance
from medvqa_core.json_files import find_manifest, write_manifest
from medvqa_core.progress import track
from rjua_meddqa import data_folder as folders
from rjua_meddqa.card import CARD, write_card
from rjua_meddqa.fonts import find_fonts
from rjua_meddqa.generation.contexts import NGRAMS, ContextBase, NgramEncoder
from rjua_meddqa.generation.questions import Options, QuestionGenerator
from rjua_meddqa.generation.reasoning import ReasoningGenerator, read_findings
from rjua_meddqa.generation.templates import load_templates
from rjua_meddqa.phantom.contexts import contexts, option
from rjua_meddqa.phantom.page import SyntheticReport, draw_page
from rjua_meddqa.phantom.varied import draw_varied_page
from rjua_meddqa.released import read_cells, write_annotations, write_questions
from rjua_meddqa.restoration.ocr import write_boxes
from rjua_meddqa.schema import CONTEXT_COLUMNS, Annotation
from rjua_meddqa.terms import load_terms

_VERSION = 2
_JPEG_QUALITY = 82
BOXES, FINDINGS = "boxes", "findings.csv"
TEXTS, DIFFICULTIES = "texts", "difficulties.csv"
UNANSWERABLE = 2  # questions per image


def write_phantom(
    root: Path,
    reports: int,
    seed: int = 0,
    fonts: Path | Sequence[Path] | None = None,
    hard: bool = False,
    varied: bool = False,
) -> dict[str, Any]:
    """Write `reports` synthetic reports to `root`, or finish an interrupted run.

    Args:
        fonts: font files with Chinese characters. Hard pages use all of them. By default, installed fonts are used.
        hard: add difficulties of real pages (module `difficulties`).
        varied: write laboratory reports with difficulties of continuous strength (module `varied`).

    Returns:
        The manifest, with the counts `images`, `drawn` (in this run), `questions` and `reasoning`.

    Raises:
        ConfigError: a parameter is out of range, a font is missing, or `root` holds reports with other parameters.
        OutputError: `root` holds something else or cannot be written.
    """
    if hard and varied:
        raise ConfigError("Pages are either --hard or --varied.")
    if reports < 1 or seed < 0:
        raise ConfigError(f"{reports} reports, seed {seed}: expected at least 1 report and a seed of at least 0")
    files = select_fonts(find_fonts([fonts] if isinstance(fonts, Path) else fonts or ()), hard)
    flags = {"hard": hard, "varied": varied}
    parameters = {"reports": reports, "seed": seed, "version": _VERSION, "font": ",".join(font.stem for font in files)}
    manifest = _start(make_folder(Path(root)), parameters | {name: True for name, on in flags.items() if on})
    if manifest["complete"]:
        return manifest | {"counts": manifest["counts"] | {"drawn": 0}}
    drawn, annotations, findings, difficulties = 0, [], [], []
    columns: tuple[str, ...] = ()
    for number in track(range(1, reports + 1), "drawing reports", total=reports):
        page, levels = draw_report(seed, number, files, hard, varied)
        difficulties.append((page.annotation.img_path, *levels.values()))
        columns = ("img_path", *levels)
        annotations.append(page.annotation)
        findings += [(page.annotation.img_path, task, title) for task, title in page.report.findings]
        drawn += _write_page(root, page, hard)
    write_annotations(annotations, root / folders.OUR_NAMES[folders.ANNOTATIONS])
    base = [(*astuple(context), option(context)) for context in contexts()]
    _write_csv(root / folders.OUR_NAMES[folders.CONTEXTS], (*CONTEXT_COLUMNS, "option"), base)
    _write_csv(root / FINDINGS, ("img_path", "task", "title"), findings)
    if hard or varied:
        _write_csv(root / DIFFICULTIES, columns, difficulties)
    options = Options(seed=seed, unanswerable=UNANSWERABLE)
    counts = {
        "images": len(annotations),
        "questions": _write_questions(root, annotations, options),
        "reasoning": _write_reasoning(root, annotations, seed),
    }
    manifest |= {folders.QUESTIONS: asdict(options), folders.REASONING: {"encoder": NGRAMS, "seed": seed}}
    write_manifest(root, manifest, end="")
    write_card(folders.open_folder(root))
    manifest |= {"complete": True, "counts": counts}
    write_manifest(root, manifest, end="")
    return manifest | {"counts": counts | {"drawn": drawn}}


def select_fonts(fonts: Sequence[Path], hard: bool) -> Sequence[Path]:
    """The fonts that pages are drawn with: all of them for hard pages, else the first."""
    return fonts if hard else fonts[:1]


def draw_report(
    seed: int, number: int, fonts: Sequence[Path], hard: bool = False, varied: bool = False
) -> tuple[SyntheticReport, dict[str, Any]]:
    """Draw one report. Returns it with its difficulties as columns."""
    if varied:
        return draw_varied_page(seed, number, fonts)
    page = draw_page(seed, number, fonts, hard)
    return page, {"difficulties": ";".join(sorted(page.difficulties))}


def encode_image(page: SyntheticReport) -> bytes:
    """The content of the page's image file."""
    is_jpeg = page.annotation.img_path.endswith(".jpg")
    options: dict[str, Any] = {"quality": _JPEG_QUALITY} if is_jpeg else {"optimize": True}
    content = io.BytesIO()
    page.image.save(content, format="JPEG" if is_jpeg else "PNG", **options)
    return content.getvalue()


def _start(root: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    """Write the manifest before the first image. It stays complete if all files of a finished run exist."""
    manifest = find_manifest(root, "choose another folder")
    found = manifest.get("phantom")
    if found is None and any(path.suffix != PARTIAL_SUFFIX for path in root.iterdir()):
        raise OutputError(f"{root} is not empty and does not hold synthetic reports. Choose another folder.")
    if found is not None and found != parameters:
        raise ConfigError(
            f"{root} holds reports with other parameters: {found}, now {parameters}. Choose another folder."
        )
    manifest |= {
        "kind": folders.KIND,
        "governance": str(Governance.OPEN),
        "source": "synthetic reports",
        "phantom": parameters,
        "complete": manifest.get("complete", False) and _is_whole(root, parameters["reports"]),
    }
    write_manifest(root, manifest, end="")
    return manifest


def _is_whole(root: Path, reports: int) -> bool:
    names = [*folders.OUR_NAMES.values(), FINDINGS, CARD]
    images, boxes = (len(list((root / name).glob("report*"))) for name in (folders.IMAGES, BOXES))
    return images == boxes == reports and all((root / name).is_file() for name in names)


def _write_page(root: Path, page: SyntheticReport, hard: bool) -> bool:
    """Write the files of a page, the image last. Returns False if the image exists."""
    image = root / folders.IMAGES / page.annotation.img_path
    if image.is_file():
        return False
    if hard:
        with atomic_file(root / TEXTS / f"{image.stem}.txt", "w") as file:
            file.write("\n".join("\t".join(line) for line in page.lines) + "\n")
    write_boxes(root / BOXES / f"{image.stem}.json", page.boxes)
    with atomic_file(image) as file:
        file.write(encode_image(page))
    return True


def _write_questions(root: Path, annotations: Sequence[Annotation], options: Options) -> int:
    generator = QuestionGenerator(load_templates(), load_terms(), options, corpus=annotations)
    questions = [question for annotation in annotations for question in generator.questions(annotation)]
    write_questions(questions, root / folders.OUR_NAMES[folders.QUESTIONS])
    return len(questions)


def _write_reasoning(root: Path, annotations: Sequence[Annotation], seed: int) -> int:
    base = ContextBase(read_cells(root / folders.OUR_NAMES[folders.CONTEXTS], CONTEXT_COLUMNS), NgramEncoder())
    generator = ReasoningGenerator(base, annotations, seed)
    questions = generator.questions(read_findings(root / FINDINGS))
    assert not generator.problems, generator.problems  # every finding has its context
    write_questions(questions, root / folders.OUR_NAMES[folders.REASONING])
    return len(questions)


def _write_csv(path: Path, columns: Sequence[str], rows: Any) -> None:
    with atomic_file(path, "w") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
