"""`medvqa-hub meddqa …`: the steps from report images to questions. Heavy imports wait until a step runs."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medvqa_core.errors import ConfigError
from medvqa_core.files import make_folder
from medvqa_core.governance import Governance
from medvqa_core.llm.options import EngineOptions, with_engine_options
from medvqa_core.llm.record import FILE as RECORD

if TYPE_CHECKING:
    from medvqa_core.llm.chat_model import ChatModel

app = typer.Typer(
    no_args_is_help=True, help="RJUA-MedDQA: from photographed reports to text, annotation and questions."
)


Data = Annotated[Path, typer.Option(help="Folder with annotations, contexts and images/.")]


Images = Annotated[Path, typer.Option(help="Folder of report images, or one image.")]
Workers = Annotated[int, typer.Option(help="Processes that read at the same time, one core each.")]
Class = Annotated[Governance, typer.Option(help="Governance class of the images.")]


@app.callback()
def _group() -> None:
    pass


@app.command()
def ocr(
    images: Images,
    out: Annotated[Path, typer.Option(help="Folder for the readings and boxes/IMAGE.json.")],
    workers: Workers = 1,
    governance: Class = Governance.SHARE_ALIKE,
) -> None:
    """Read report images; boxes as JSON in pixels of the originals. A stopped run goes on where it was."""
    from rjua_meddqa.commands.reading import read_images

    _echo_lines(read_images(images, out, workers, governance))


@app.command()
def esra(
    images: Annotated[Path | None, typer.Option(help="Folder of report images, or one image.")] = None,
    boxes: Annotated[Path | None, typer.Option(help="Instead of images: boxes of one page as JSON.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for pages.jsonl; without: print one page's text.")] = None,
    r: Annotated[float, typer.Option(help="Line discount r*, 0 to 1.")] = 0.15,
    spacing: Annotated[float, typer.Option("--l", help="Space factor l*, 0 to 1.")] = 0.7,
    layout: Annotated[str, typer.Option(help="paper, or absolute: columns below each other.")] = "paper",
    join_wraps: Annotated[
        bool | None,
        typer.Option(help="Cells that wrap go on in their row, margins go to the end. Default: with --layout paper."),
    ] = None,
    workers: Workers = 1,
    governance: Class = Governance.SHARE_ALIKE,
) -> None:
    """Restore report images to structured text (paper, Section 4.1)."""
    from rjua_meddqa.commands.reading import print_boxes, print_image, restore_images

    if (images is None) == (boxes is None):
        raise ConfigError("esra takes either --images or --boxes")
    parameters = {"r": r, "l": spacing, "layout": layout, "join_wraps": join_wraps}
    if boxes is not None:
        typer.echo(print_boxes(boxes, parameters))
    elif out is not None:
        _echo_lines(restore_images(images, out, workers, governance, parameters))
    else:
        typer.echo(print_image(images, parameters))


@app.command()
def quality(
    images: Images,
    out: Annotated[Path, typer.Option(help="Folder of the readings; that of ocr or esra saves the reading.")],
    annotations: Annotated[
        Path | None, typer.Option(help="Annotation CSV: kinds of image, and the quality to compare with.")
    ] = None,
    workers: Workers = 1,
    governance: Class = Governance.SHARE_ALIKE,
) -> None:
    """Tell photos of high from those of low quality, with the reason (paper, Appendix B)."""
    from rjua_meddqa.commands.reading import judge_images

    _echo_lines(judge_images(images, out, workers, governance, annotations))


@app.command()
def picture(
    image: Annotated[Path, typer.Option(help="A report image.")],
    out: Annotated[Path, typer.Option(help="The PNG file to write.")],
    font: Annotated[
        Path | None, typer.Option(help="A font with Chinese characters; default: the system's, or the bundled one.")
    ] = None,
) -> None:
    """Draw a report with its boxes beside the restored text."""
    from rjua_meddqa.page_picture import picture_image

    typer.echo(f"picture: {picture_image(image, out, font)}")


@app.command()
def phantom(
    out: Annotated[Path, typer.Option(help="Folder for the reports, in the layout that load_dataset reads.")],
    reports: Annotated[int, typer.Option(help="Number of reports.")] = 50,
    seed: Annotated[int, typer.Option(help="The same seed draws the same reports.")] = 0,
    font: Annotated[
        list[Path] | None,
        typer.Option(help="A font with Chinese characters; hard pages use several. Default: those there are."),
    ] = None,
    hard: Annotated[bool, typer.Option(help="Pages as hard to read as real ones, each difficulty named.")] = False,
) -> None:
    """Draw synthetic Chinese reports with exact annotation, boxes and questions."""
    from rjua_meddqa.phantom.folder import write_phantom

    manifest = write_phantom(out, reports, seed, font, hard)
    _echo_counts(manifest["counts"], [])
    _echo_next(out, out, "questions")


@app.command()
@with_engine_options("by rule (the default)")
def preannotate(
    pages: Annotated[Path, typer.Option(help="Folder of restored pages, as meddqa esra --out writes it.")],
    out: Annotated[Path, typer.Option(help="Folder for annotations.csv with the drafts.")],
    engine: EngineOptions,
    image_type: Annotated[
        str | None, typer.Option(help="pdf, photo or screenshot for all images. Default: as each looks.")
    ] = None,
    image_types: Annotated[
        Path | None, typer.Option(help="CSV with img_path,image_type: the type of each image that it names.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option(help="Ask the model for failed pages again.")] = False,
    compare: Annotated[
        Path | None, typer.Option(help="Folder with annotations of these images, to measure the drafts by.")
    ] = None,
) -> None:
    """Draft key-values and table rows from restored pages, for people to correct (paper, Section 4.2)."""
    from rjua_meddqa.commands.annotating import preannotate as write

    if not engine.engines:
        engine.check_unused("rules", retry_failed=retry_failed)
    _echo_lines(write(pages, out, image_type, image_types, _connector(engine, out), compare, retry_failed))


@app.command()
def check(
    data: Annotated[Path, typer.Option(help="Folder with annotations and images/, or an annotation CSV.")],
    pages: Annotated[Path | None, typer.Option(help="Restored pages, to compare the annotations with.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for all findings as JSON.")] = None,
    shown: Annotated[int, typer.Option(help="Findings to print.")] = 50,
    strict: Annotated[bool, typer.Option(help="Exit with 1 where there are findings.")] = False,
) -> None:
    """Check annotations for missing values, wrong counts and judgements that numbers contradict (Section 4.2.2)."""
    from rjua_meddqa.commands.annotating import check as run_check

    lines, findings = run_check(data, pages, out, shown)
    _echo_lines(lines)
    if strict and findings:
        raise typer.Exit(1)


@app.command("labelstudio-export")
def labelstudio_export(
    data: Data,
    pages: Annotated[Path, typer.Option(help="Folder of restored pages, as meddqa esra --out writes it.")],
    out: Annotated[Path, typer.Option(help="Folder for tasks.json and labelling_config.xml.")],
    prefix: Annotated[
        str, typer.Option(help="What Label Studio finds images by; the image path follows.")
    ] = "/data/local-files/?d=images/",
) -> None:
    """Write annotations or drafts as Label Studio tasks with boxes, text and drafts."""
    from rjua_meddqa.commands.annotating import export_tasks

    _echo_lines(export_tasks(data, pages, out, prefix))


@app.command("labelstudio-import")
def labelstudio_import(
    export: Annotated[Path, typer.Option(help="The project's export as JSON (not JSON-MIN).")],
    out: Annotated[Path, typer.Option(help="Folder for annotations.csv.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder that the tasks were made from; what nobody corrected stays to the letter."),
    ] = None,
) -> None:
    """Read corrected annotations back from Label Studio and run the quality check on them."""
    from rjua_meddqa.commands.annotating import import_tasks

    _echo_lines(import_tasks(export, out, data))


@app.command()
def generate(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for questions.jsonl; may be the data folder itself.")],
    forms: Annotated[str, typer.Option(help="released, all, or names of templates with commas.")] = "released",
    seed: Annotated[int, typer.Option(help="The same seed asks an image the same questions.")] = 0,
    answers: Annotated[str, typer.Option(help="released (values) or sentence (the paper's Table 4).")] = "released",
    pairs: Annotated[int, typer.Option(help="Pairs of keys and of rows per image; -1 for all.")] = 5,
    unanswerable: Annotated[int, typer.Option(help="Questions per image about what it does not hold.")] = 0,
    synonyms: Annotated[bool, typer.Option(help="Call keys, results and ranges by any of their names.")] = False,
    canonical_keys: Annotated[bool, typer.Option(help="Call every key by its canonical name.")] = False,
    terms: Annotated[list[Path] | None, typer.Option(help="Your synonyms, in the layout of terms.yaml.")] = None,
    templates: Annotated[list[Path] | None, typer.Option(help="Your templates, as templates.yaml.")] = None,
) -> None:
    """Make image-content questions from annotations (paper, Table 4)."""
    from rjua_meddqa.commands.generating import generate as write
    from rjua_meddqa.generation.questions import Options

    every = None if pairs == -1 else pairs
    options = Options(seed, forms, answers, every, synonyms, unanswerable)
    counts, problems = write(data, out, options, terms or (), templates or (), canonical_keys)
    _echo_counts(counts, problems)
    _echo_next(data, out, "questions")


@app.command()
def reasoning(
    data: Data,
    findings: Annotated[
        Path, typer.Option(help="CSV of correct options: img_path,task,title[,option,wrong,question].")
    ],
    out: Annotated[Path, typer.Option(help="Folder for reasoning.jsonl; may be the data folder itself.")],
    encoder: Annotated[str, typer.Option(help="ngrams, minilm, or a folder or Hub id of a text encoder.")] = "ngrams",
    seed: Annotated[int, typer.Option(help="Seed of the options' order.")] = 0,
) -> None:
    """Make multiple-choice and short-answer questions from the context base (paper, Section 4.3.2)."""
    from rjua_meddqa.commands.generating import reason

    counts, problems = reason(data, findings, out, encoder, seed)
    _echo_counts(counts, problems)
    _echo_next(data, out, "reasoning_mc")


@app.command()
def stats(
    data: Data,
    out: Annotated[Path | None, typer.Option(help="Folder for statistics.json and figure2.png.")] = None,
) -> None:
    """Print Tables 2 and 3 of the paper for a folder; with --out also write them as JSON and draw Figure 2."""
    from rjua_meddqa.data_folder import open_folder
    from rjua_meddqa.statistics import format_tables, summarise_folder, write_statistics

    statistics = summarise_folder(open_folder(data))
    typer.echo(format_tables(statistics))
    if out is not None:
        write_statistics(statistics, out)
        typer.echo(f"statistics.json and figure2.png: {out}")


@app.command()
def figures(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")],
    results: Annotated[list[Path] | None, typer.Option(help="results.json of an evaluation; once for each.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with annotations and reasoning questions.")] = None,
    boxes: Annotated[Path | None, typer.Option(help="Boxes of one page as JSON, as ocr writes them.")] = None,
) -> None:
    """Draw the paper's Figures 5 (models by task), 6 (diseases) and 7 (line discount), those with data."""
    from rjua_meddqa.commands.drawing import draw_figures

    _echo_lines(draw_figures(out, results or (), data, boxes))


@app.command()
@with_engine_options("esra-rules (the default)")
def leave_one_out(
    data: Data,
    pages: Annotated[Path, typer.Option(help="Folder of restored pages, as esra writes it.")],
    engine: EngineOptions,
    out: Annotated[Path | None, typer.Option(help="Folder of a model's answers.")] = None,
) -> None:
    """Take each table item from its page and ask for it: how often another item's value comes back."""
    from rjua_meddqa.commands.drawing import measure_leave_one_out

    if not engine.engines:
        engine.check_unused("esra-rules", out=out)
    _echo_lines(measure_leave_one_out(data, pages, _connector(engine, out or Path()), out))


def _connector(engine: EngineOptions, out: Path) -> "Callable[[Governance], ChatModel] | None":
    """The function that connects to a language model for texts of a class, or None without `--engine`."""
    from medvqa_core.llm.connecting import connect_model

    return (lambda governance: connect_model(engine, governance, make_folder(out) / RECORD)) if engine.engines else None


def _echo_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _echo_counts(counts: dict[str, int], problems: list[str]) -> None:
    """What came out, then what was left out and why."""
    typer.echo(", ".join(f"{name.replace('_', ' ')}: {value:,}" for name, value in counts.items()))
    for problem in problems:
        typer.echo(f"left out: {problem}", err=True)


def _echo_next(data: Path, out: Path, config: str) -> None:
    images = "" if out.resolve() == data.resolve() else f", image_root={str(data)!r}"
    typer.echo(f"next: load_dataset('rjua_meddqa', {config!r}, data_dir={str(out)!r}{images})")
