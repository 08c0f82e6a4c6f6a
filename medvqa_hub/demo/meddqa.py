"""The RJUA-MedDQA part of `medvqa-hub demo`: bundled report images to text, drafts, questions and scores, no model.

OUT/data/         six of the bundled synthetic reports and the questions made from their annotation
OUT/evaluation/   restored pages, predictions, scored questions, results
OUT/page.png      one page: its boxes beside the restored text
"""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule

from medvqa_core.files import atomic_folder
from medvqa_core.json_files import read_manifest, write_manifest

IMAGES = (  # every kind of image, both qualities, tables of one and two columns, reports without a table
    "report0002.png",
    "report0003.png",
    "report0004.jpg",
    "report0005.jpg",
    "report0009.png",
    "report0010.png",
)
PICTURED = "report0004.jpg"
REASONED = "report0003.png"  # a table with results inside and outside their ranges
LINES_SHOWN, ROWS_SHOWN = 10, 8
OCR_MODULES = ("rapidocr", "onnxruntime", "cv2")
UNANSWERABLE = 2  # questions per image
DATA, EVALUATION, PICTURE = "data", "evaluation", "page.png"


def run_meddqa_demo(out: Path, console: Console | None = None) -> dict[str, Any] | None:
    """Read, draft, ask and score, all below `out`; says what it does. A second run reads and asks nothing again.

    Returns:
        The results of `evaluate_meddqa`, or None where the extra `ocr` is not installed, which is said in one line.

    Raises:
        OutputError: `out` cannot be written, or `out/data` holds something else.
    """
    console = console or Console()
    missing = [name for name in OCR_MODULES if find_spec(name) is None]
    if missing:
        console.print(
            f"RJUA-MedDQA is left out: reading images needs {', '.join(missing)}: pip install 'medvqa-hub[ocr]'",
            markup=False,
            highlight=False,
        )
        return None
    console.print(Rule(f"{len(IMAGES)} synthetic Chinese reports, photographed, as PDF pages and as screenshots"))
    _copy_sample(out / DATA)
    pages = _read_images(out, console)
    _compare_drafts(out / DATA, pages, console)
    _make_questions(out / DATA, console)
    results = _answer_questions(out, console)
    _draw_page(out, pages[PICTURED], console)
    return results


def _copy_sample(data: Path) -> None:
    """The chosen images with their annotation, as a data folder of its own."""
    from rjua_meddqa import SAMPLE_DIR
    from rjua_meddqa.data_folder import KIND
    from rjua_meddqa.released import read_annotations, write_annotations

    annotations = [a for a in read_annotations(SAMPLE_DIR / "annotations.csv") if a.img_path in IMAGES]
    manifest = read_manifest(SAMPLE_DIR, "install medvqa-hub again")
    kept = {name: manifest[name] for name in ("kind", "governance", "source")}
    with atomic_folder(data, KIND) as folder:
        (folder / "images").mkdir()
        for name in IMAGES:
            shutil.copyfile(SAMPLE_DIR / "images" / name, folder / "images" / name)
        write_annotations(annotations, folder / "annotations.csv")
        write_manifest(folder, kept, indent=None, end="")


def _read_images(out: Path, console: Console) -> dict[str, Any]:
    """Restored pages by image, kept where the evaluation looks for them."""
    from medvqa_core.governance import Governance
    from medvqa_hub.evaluation.meddqa.evaluating import PAGES_FOLDER
    from rjua_meddqa.restoration.ocr import RapidOcrEngine
    from rjua_meddqa.restoration.pages import read_pages, restore_folder

    console.print(Rule("OCR, rectification, ESRA: images to structured text"))
    folder = out / EVALUATION / PAGES_FOLDER
    done = restore_folder(out / DATA / "images", folder, RapidOcrEngine(), governance=Governance.OPEN)
    pages = {page.image: page for page in read_pages(folder)}
    turned = max(pages.values(), key=lambda page: abs(page.angle))
    boxes = sum(len(page.boxes) for page in pages.values())
    lines = sum(len(page.restored.lines) for page in pages.values())
    low = [page.image for page in pages.values() if page.quality == "low"]
    console.print(
        f"{done.pages} pages ({done.read_now} read now), {boxes:,} boxes on {lines:,} lines; "
        f"{turned.image} was turned by {abs(turned.angle):.1f} degrees; of low quality: {', '.join(low) or 'none'}",
        highlight=False,
    )
    return pages


def _compare_drafts(data: Path, pages: dict[str, Any], console: Console) -> None:
    from rjua_meddqa.annotation.draft_check import DraftCheck, check_draft
    from rjua_meddqa.annotation.drafts import draft
    from rjua_meddqa.released import read_annotations

    console.print(Rule("Pre-annotation: drafts for people to correct"))
    total = DraftCheck()
    for annotation in read_annotations(data / "annotations.csv"):
        total += check_draft(draft(pages[annotation.img_path].restored), annotation)
    console.print(
        f"of what is annotated the drafts hold {total.key_values_found} of {total.key_values} filled fields and "
        f"{total.rows_found} of {total.rows} table rows; is_normal, computed from result and range, is right in "
        f"{total.rows_with_verdict}",
        highlight=False,
    )
    restored = pages[REASONED].restored
    _print_lines(console, f"the text of {REASONED}, as restored:", restored.text.splitlines()[:LINES_SHOWN])
    rows = draft(restored).rows[:ROWS_SHOWN]
    verdicts = [f"{row.item} {row.result} {row.is_normal}: {row.is_normal_reason}" for row in rows]
    _print_lines(console, "its draft, each verdict with its reason:", verdicts)


def _print_lines(console: Console, title: str, lines: list[str]) -> None:
    console.print(title, highlight=False)
    for line in lines:
        console.print(f"  {line}", highlight=False, markup=False, no_wrap=True, overflow="ellipsis")


def _make_questions(data: Path, console: Console) -> None:
    from rjua_meddqa.commands.generating import generate
    from rjua_meddqa.generation.questions import Options

    console.print(Rule("Questions from the annotation"))
    counts, _ = generate(data, data, Options(unanswerable=UNANSWERABLE))
    console.print(
        f"{counts['questions']:,} questions about {counts['images']} images, {UNANSWERABLE} per image about what it "
        "does not hold",
        highlight=False,
    )


def _answer_questions(out: Path, console: Console) -> dict[str, Any]:
    from medvqa_hub.evaluation.meddqa.evaluating import SCORED, MeddqaOptions, evaluate_meddqa
    from medvqa_hub.evaluation.meddqa.printing import print_tables
    from rjua_meddqa.schema import MISSING

    console.print(Rule("Scores: esra-rules answers from the restored text alone"))
    results = evaluate_meddqa(MeddqaOptions("esra-rules", out / DATA, out / EVALUATION))
    print_tables(results, console)
    rows = map(json.loads, (out / EVALUATION / SCORED).read_text(encoding="utf-8").splitlines())
    refused = next((row for row in rows if row["unanswerable"] and row["prediction"] == MISSING), None)
    if refused is not None:
        asked = f"{refused['img_path']}: {refused['question']} -> {refused['prediction']}"
        _print_lines(console, "a question about what the page does not hold, refused:", [asked])
    return results


def _draw_page(out: Path, page: Any, console: Console) -> None:
    from rjua_meddqa.page_picture import write_page_picture

    picture = write_page_picture(page, out / DATA / "images" / page.image, out / PICTURE)
    console.print(f"{'a page, its boxes beside its text':36}{picture}", highlight=False, soft_wrap=True)
