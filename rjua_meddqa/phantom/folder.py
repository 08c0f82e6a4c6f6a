"""Writes synthetic Chinese medical reports, with exact annotation, in the layout of `data_folder`. Open data.

    images/report0001.png|jpg   annotations.csv   questions.jsonl   reasoning.jsonl   contexts.csv   findings.csv
    boxes/report0001.json       where every printed piece stands in the finished image
    texts/report0001.txt        hard pages: every printed piece in reading order, a line per row, pieces by tabs
    difficulties.csv            hard pages: what each of them has
    README.md                   the card
    manifest.json               class, seed, version; "complete" is set last

A report is a pure function of (seed, number) and the fonts. A killed run is continued by calling again with the same
parameters: whole images are kept, missing ones drawn. A finished run is left as it is. What a page says is in `report`
and `hard_report`, how it looks in `layout`, how it is photographed in `photo`.
"""

import csv
import random
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from rjua_meddqa.generation.reasoning_file import write_reasoning
from rjua_meddqa.generation.templates import load_templates
from rjua_meddqa.phantom.contexts import contexts, option
from rjua_meddqa.phantom.difficulties import Difficulty, draw_difficulties
from rjua_meddqa.phantom.hard_report import draw_hard_report
from rjua_meddqa.phantom.layout import draw_style, harden, lay_out
from rjua_meddqa.phantom.photo import draw_effects, photograph
from rjua_meddqa.phantom.report import Report, draw_report
from rjua_meddqa.released import read_cells, write_annotations, write_questions
from rjua_meddqa.restoration.ocr import write_boxes
from rjua_meddqa.schema import CONTEXT_COLUMNS, Annotation, Box
from rjua_meddqa.terms import load_terms

if TYPE_CHECKING:
    from PIL import Image

_VERSION = 2
_JPEG_QUALITY = 82
BOXES, FINDINGS = "boxes", "findings.csv"
TEXTS, DIFFICULTIES = "texts", "difficulties.csv"
IMAGE_TYPE_SHARES = {"photo": 0.5, "pdf": 0.3, "screenshot": 0.2}  # about those of the paper's Table 2
UNANSWERABLE = 2  # questions per image


@dataclass(frozen=True)
class SyntheticReport:
    """A finished page.

    Attributes:
        image: grey. boxes: where every printed piece stands in it.
        annotation: what annotators would write down.
        lines: the printed pieces of each row, in reading order.
        difficulties: what makes the page hard; none on a plain one.
    """

    image: "Image.Image"
    boxes: list[Box]
    annotation: Annotation
    report: Report
    lines: tuple[tuple[str, ...], ...]
    difficulties: frozenset[Difficulty] = frozenset()


def draw_page(seed: int, number: int, fonts: Path | Sequence[Path], hard: bool = False) -> SyntheticReport:
    """Report `number` (from 1) of `seed`; hard ones have difficulties, and all of `fonts` where that is one of them."""
    fonts = [fonts] if isinstance(fonts, Path) else list(fonts)
    name = f"meddqa {seed} {number} {'hard ' * hard}"
    flags = draw_difficulties(random.Random(f"{name}difficulties"), number) if hard else frozenset()
    content = random.Random(f"{name}content")
    report = draw_hard_report(content, flags) if hard else draw_report(content)
    draw = random.Random(f"{name}looks")
    image_type = draw.choices(list(IMAGE_TYPE_SHARES), list(IMAGE_TYPE_SHARES.values()))[0]
    if Difficulty.SIDE_BY_SIDE in flags and image_type == "screenshot":
        image_type = "pdf"
    style = draw_style(draw, report, narrow=image_type == "screenshot")
    style = harden(style, draw, flags) if hard else style
    font = draw.choice(fonts[1:] or fonts) if Difficulty.FONT in flags else fonts[0]
    page = lay_out(report, style, font, flags, draw.randrange(2**32) if hard else 0)
    image, boxes, quality = page.image, page.boxes, "high"
    if image_type == "photo":
        image, boxes, quality = photograph(image, boxes, draw_effects(draw), draw.randrange(2**32))
    suffix = "jpg" if image_type == "photo" else "png"
    annotation = Annotation(
        idx=str(number),
        img_path=f"report{number:04}.{suffix}",
        key_values=report.key_values,
        table=report.table,
        report_type=report.report_type,
        image_type=image_type,
        image_quality=quality,
    )
    return SyntheticReport(image, boxes, annotation, report, page.lines, flags)


def write_phantom(
    root: Path, reports: int, seed: int = 0, fonts: Path | Sequence[Path] | None = None, hard: bool = False
) -> dict[str, Any]:
    """Write `reports` synthetic reports below `root`, or finish a run that was stopped.

    Args:
        fonts: files of fonts with Chinese characters; hard pages use all of them. None looks for them (module `fonts`).
        hard: pages with the difficulties that real ones have (module `difficulties`).

    Returns:
        The manifest, with the counts `images`, `drawn` (in this run), `questions` and `reasoning`.

    Raises:
        ConfigError: a parameter out of range, no font, or `root` holds reports with other parameters.
        OutputError: `root` holds something else or cannot be written.
    """
    if reports < 1 or seed < 0:
        raise ConfigError(f"{reports} reports, seed {seed}: at least 1 report and a seed of 0 or more are needed")
    files = find_fonts([fonts] if isinstance(fonts, Path) else fonts or ())
    files = files if hard else files[:1]
    parameters = {"reports": reports, "seed": seed, "version": _VERSION, "font": ",".join(font.stem for font in files)}
    manifest = _start(make_folder(Path(root)), parameters | ({"hard": True} if hard else {}))
    if manifest["complete"]:
        return manifest | {"counts": manifest["counts"] | {"drawn": 0}}
    drawn, annotations, findings, difficulties = 0, [], [], []
    for number in track(range(1, reports + 1), "drawing reports", total=reports):
        page = draw_page(seed, number, files, hard)
        annotations.append(page.annotation)
        findings += [(page.annotation.img_path, task, title) for task, title in page.report.findings]
        difficulties.append((page.annotation.img_path, ";".join(sorted(page.difficulties))))
        drawn += _write_page(root, page, hard)
    write_annotations(annotations, root / folders.OUR_NAMES[folders.ANNOTATIONS])
    base = [(*astuple(context), option(context)) for context in contexts()]
    _write_csv(root / folders.OUR_NAMES[folders.CONTEXTS], (*CONTEXT_COLUMNS, "option"), base)
    _write_csv(root / FINDINGS, ("img_path", "task", "title"), findings)
    if hard:
        _write_csv(root / DIFFICULTIES, ("img_path", "difficulties"), difficulties)
    options = Options(seed=seed, unanswerable=UNANSWERABLE)
    counts = {"images": len(annotations), "questions": _write_questions(root, annotations, options)}
    counts["reasoning"] = _write_reasoning(root, annotations, seed)
    manifest |= {folders.QUESTIONS: asdict(options), folders.REASONING: {"encoder": NGRAMS, "seed": seed}}
    write_manifest(root, manifest, end="")
    write_card(folders.open_folder(root))
    manifest |= {"complete": True, "counts": counts}
    write_manifest(root, manifest, end="")
    return manifest | {"counts": counts | {"drawn": drawn}}


def _start(root: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a new run, of one to continue, or of a finished one whose files are all there still.

    It is there before the first image.
    """
    manifest = find_manifest(root, "choose another folder")
    found = manifest.get("phantom")
    if found is None and any(path.suffix != PARTIAL_SUFFIX for path in root.iterdir()):
        raise OutputError(f"{root} holds something else than synthetic reports; choose another folder")
    if found is not None and found != parameters:
        raise ConfigError(f"{root} holds reports of other parameters: {found}, now {parameters}; choose another folder")
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
    images = len(list((root / folders.IMAGES).glob("report*"))) if (root / folders.IMAGES).is_dir() else 0
    boxes = len(list((root / BOXES).glob("report*.json"))) if (root / BOXES).is_dir() else 0
    return images == boxes == reports and all((root / name).is_file() for name in names)


def _write_page(root: Path, page: SyntheticReport, hard: bool) -> bool:
    """Write boxes and image unless they are there; files appear whole, so that what is there is whole."""
    image = root / folders.IMAGES / page.annotation.img_path
    if image.is_file():
        return False
    if hard:
        with atomic_file(root / TEXTS / f"{image.stem}.txt", "w") as file:
            file.write("\n".join("\t".join(line) for line in page.lines) + "\n")
    write_boxes(root / BOXES / f"{image.stem}.json", page.boxes)
    with atomic_file(image) as file:
        if image.suffix == ".jpg":
            page.image.save(file, format="JPEG", quality=_JPEG_QUALITY)
        else:
            page.image.save(file, format="PNG", optimize=True)
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
    assert not generator.problems, generator.problems  # our own contexts fit our own findings
    write_reasoning(questions, root / folders.OUR_NAMES[folders.REASONING])
    return len(questions)


def _write_csv(path: Path, columns: Sequence[str], rows: Any) -> None:
    with atomic_file(path, "w") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
