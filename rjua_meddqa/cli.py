"""`medvqa-hub meddqa …`: commands from report images to questions. Heavy imports are inside the commands."""

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
    no_args_is_help=True, help="RJUA-MedDQA: from photographed reports to text, annotations and questions."
)


Data = Annotated[Path, typer.Option(help="Folder with annotations, contexts and images/.")]
Pages = Annotated[Path, typer.Option(help="Folder of restored pages, from meddqa esra --out.")]
Images = Annotated[Path, typer.Option(help="Folder of report images, or one image.")]
Workers = Annotated[int, typer.Option(help="Number of processes, one core each.")]
Class = Annotated[
    Governance | None,
    typer.Option(
        help="Governance class of the images. Default: that of their data folder (synthetic or released reports), "
        "else credentialed. It can only be made stricter."
    ),
]


@app.callback()
def _group() -> None:
    pass


@app.command()
def ocr(
    images: Images,
    out: Annotated[Path, typer.Option(help="Folder for the readings and boxes/IMAGE.json.")],
    workers: Workers = 1,
    governance: Class = None,
) -> None:
    """Run OCR on report images and write boxes in pixels of the originals. Run it again to resume."""
    from rjua_meddqa.commands.reading import read_images
    from rjua_meddqa.data_folder import choose_class

    _echo_lines(read_images(images, out, workers, choose_class(images, governance)))


@app.command()
def esra(
    images: Annotated[Path | None, typer.Option(help="Folder of report images, or one image.")] = None,
    boxes: Annotated[
        Path | None,
        typer.Option(
            help="Boxes of one upright page as JSON, instead of images: a list of objects with points, text and score, "
            "or of lists of the three."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for pages.jsonl. Default: print one page.")] = None,
    r: Annotated[float, typer.Option(help="Line discount r*, 0 to 1.")] = 0.15,
    spacing: Annotated[float, typer.Option("--l", help="Space factor l*, 0 to 1.")] = 0.7,
    layout: Annotated[str, typer.Option(help="paper, or absolute to align columns.")] = "paper",
    join_wraps: Annotated[
        bool | None,
        typer.Option(help="Join wrapped cells and move margin text to the end. Default: only with --layout paper."),
    ] = None,
    workers: Workers = 1,
    governance: Class = None,
) -> None:
    """Restore report images to structured text (paper, Section 4.1)."""
    from rjua_meddqa.commands.reading import print_boxes, print_image, restore_images
    from rjua_meddqa.data_folder import choose_class

    if (images is None) == (boxes is None):
        raise ConfigError("Pass either --images or --boxes.")
    if boxes is not None and out is not None:
        raise ConfigError("--boxes only prints the text. For pages of your own OCR, see examples/own_ocr.py.")
    parameters = {"r": r, "l": spacing, "layout": layout, "join_wraps": join_wraps}
    if boxes is not None:
        typer.echo(print_boxes(boxes, parameters))
    elif out is not None and images is not None:
        _echo_lines(restore_images(images, out, workers, choose_class(images, governance), parameters))
    else:
        assert images is not None  # checked above
        typer.echo(print_image(images, parameters))


@app.command()
def quality(
    images: Images,
    out: Annotated[
        Path, typer.Option(help="Output folder. Pass the --out of meddqa ocr or esra to reuse its OCR results.")
    ],
    annotations: Annotated[
        Path | None, typer.Option(help="Annotation CSV with image types, and with qualities to compare.")
    ] = None,
    workers: Workers = 1,
    governance: Class = None,
) -> None:
    """Classify photos as high or low quality, with the reason (paper, Appendix B)."""
    from rjua_meddqa.commands.reading import judge_images
    from rjua_meddqa.data_folder import choose_class

    _echo_lines(judge_images(images, out, workers, choose_class(images, governance), annotations))


@app.command()
def picture(
    image: Annotated[Path, typer.Option(help="A report image.")],
    out: Annotated[Path, typer.Option(help="The PNG file to write.")],
    font: Annotated[
        Path | None, typer.Option(help="Font with Chinese characters. Default: an installed or the bundled one.")
    ] = None,
) -> None:
    """Draw a report with its boxes beside the restored text."""
    from rjua_meddqa.page_picture import picture_image

    typer.echo(f"picture: {picture_image(image, out, font)}")


@app.command()
def phantom(
    out: Annotated[Path, typer.Option(help="Folder for the reports, in the layout that load_dataset reads.")],
    reports: Annotated[int, typer.Option(help="Number of reports.")] = 50,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    font: Annotated[
        list[Path] | None,
        typer.Option(help="Font with Chinese characters. Hard pages use several. Default: installed ones."),
    ] = None,
    hard: Annotated[bool, typer.Option(help="Add named difficulties of real pages.")] = False,
    varied: Annotated[bool, typer.Option(help="Laboratory reports with difficulties of varying strength.")] = False,
) -> None:
    """Generate synthetic Chinese reports with exact annotations, boxes and questions."""
    from rjua_meddqa.phantom.folder import write_phantom

    manifest = write_phantom(out, reports, seed, font, hard, varied)
    _echo_counts(manifest["counts"], [])
    _echo_next(out, out, "questions")


@app.command()
@with_engine_options("rules (the default, without a model)")
def preannotate(
    pages: Pages,
    out: Annotated[Path, typer.Option(help="Folder for annotations.csv with the drafts.")],
    engine: EngineOptions,
    image_type: Annotated[
        str | None, typer.Option(help="pdf, photo or screenshot for all images. Detected by default.")
    ] = None,
    image_types: Annotated[Path | None, typer.Option(help="CSV with img_path,image_type for some images.")] = None,
    retry_failed: Annotated[bool, typer.Option(help="Retry failed pages.")] = False,
    compare: Annotated[
        Path | None, typer.Option(help="Folder with annotations of these images, to measure the drafts.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder of the images: send each to an --engine that sees images.")
    ] = None,
) -> None:
    """Draft key-values and table rows from restored pages for annotators (paper, Section 4.2)."""
    from rjua_meddqa.commands.annotating import preannotate as write

    if not engine.engines:
        engine.check_unused("rules", retry_failed=retry_failed, images=images)
    _echo_lines(write(pages, out, image_type, image_types, _connector(engine, out), compare, retry_failed, images))


@app.command()
def check(
    data: Annotated[
        Path | None, typer.Option(help="Folder with annotations and images/, or an annotation CSV.")
    ] = None,
    pages: Annotated[Path | None, typer.Option(help="Restored pages to compare with.")] = None,
    table: Annotated[
        Path | None, typer.Option(help="Instead of --data: a parser's table (HTML, Markdown or JSON) of one page.")
    ] = None,
    boxes: Annotated[Path | None, typer.Option(help="Boxes of that page as JSON, from meddqa ocr.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for all findings as JSON.")] = None,
    shown: Annotated[int, typer.Option(help="Findings to print.")] = 50,
    strict: Annotated[bool, typer.Option(help="Exit with 1 if there are findings.")] = False,
) -> None:
    """Check annotations (paper, Section 4.2.2), or with --table the table of any document parser.

    Annotations are checked for missing values, wrong counts and wrong verdicts. Tables are checked for invented,
    shifted, doubled and missing cells.
    """
    from rjua_meddqa.commands.annotating import check as run_check
    from rjua_meddqa.commands.annotating import check_table

    if (data is None) == (table is None) or (table is None) != (boxes is None):
        raise ConfigError("Pass either --data, or --table and --boxes.")
    if data is not None:
        lines, findings = run_check(data, pages, out, shown)
    else:
        assert table is not None and boxes is not None  # checked above
        lines, findings = check_table(table, boxes, out)
    _echo_lines(lines)
    if strict and findings:
        raise typer.Exit(1)


@app.command("labelstudio-export")
def labelstudio_export(
    data: Data,
    pages: Pages,
    out: Annotated[Path, typer.Option(help="Folder for tasks.json and labelling_config.xml.")],
    prefix: Annotated[
        str, typer.Option(help="Prefix of the image paths in Label Studio.")
    ] = "/data/local-files/?d=images/",
) -> None:
    """Write annotations or drafts as Label Studio tasks with boxes and text."""
    from rjua_meddqa.commands.annotating import export_tasks

    _echo_lines(export_tasks(data, pages, out, prefix))


@app.command("labelstudio-import")
def labelstudio_import(
    export: Annotated[Path, typer.Option(help="The project's export as JSON (not JSON-MIN).")],
    out: Annotated[Path, typer.Option(help="Folder for annotations.csv.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the tasks. Its uncorrected cells are written back unchanged."),
    ] = None,
) -> None:
    """Import corrected annotations from Label Studio and check them."""
    from rjua_meddqa.commands.annotating import import_tasks

    _echo_lines(import_tasks(export, out, data))


@app.command()
def generate(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for questions.jsonl, such as the data folder.")],
    forms: Annotated[str, typer.Option(help="released, all, or comma-separated names of templates.")] = "released",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    answers: Annotated[str, typer.Option(help="released (values) or sentence (paper, Table 4).")] = "released",
    pairs: Annotated[int, typer.Option(help="Pairs of keys and of rows per image. -1 takes all.")] = 5,
    unanswerable: Annotated[int, typer.Option(help="Unanswerable questions per image.")] = 0,
    synonyms: Annotated[bool, typer.Option(help="Call keys, results and ranges by any of their names.")] = False,
    terms: Annotated[list[Path] | None, typer.Option(help="Your synonyms, as in terms.yaml.")] = None,
    templates: Annotated[list[Path] | None, typer.Option(help="Your templates, as in templates.yaml.")] = None,
) -> None:
    """Generate image-content questions from annotations (paper, Table 4)."""
    from rjua_meddqa.commands.generating import generate as write
    from rjua_meddqa.generation.questions import Options

    every = None if pairs == -1 else pairs
    options = Options(seed, forms, answers, every, synonyms, unanswerable)
    counts, problems = write(data, out, options, terms or (), templates or ())
    _echo_counts(counts, problems)
    _echo_next(data, out, "questions")


@app.command()
def reasoning(
    data: Data,
    findings: Annotated[
        Path, typer.Option(help="CSV of correct options: img_path,task,title[,option,wrong,question].")
    ],
    out: Annotated[Path, typer.Option(help="Folder for reasoning.jsonl, such as the data folder.")],
    encoder: Annotated[str, typer.Option(help="ngrams, minilm, or a folder or Hub id of a text encoder.")] = "ngrams",
    seed: Annotated[int, typer.Option(help="Random seed of the order of options.")] = 0,
) -> None:
    """Generate multiple-choice and short-answer questions from the context base (paper, Section 4.3.2)."""
    from rjua_meddqa.commands.generating import reason

    counts, problems = reason(data, findings, out, encoder, seed)
    _echo_counts(counts, problems)
    _echo_next(data, out, "reasoning_mc")


@app.command()
def stats(
    data: Data,
    out: Annotated[Path | None, typer.Option(help="Folder for statistics.json.")] = None,
) -> None:
    """Print Tables 2 and 3 of the paper for a folder. With --out, also write them as JSON."""
    from rjua_meddqa.data_folder import open_folder
    from rjua_meddqa.statistics import summarise_folder, write_statistics

    statistics = summarise_folder(open_folder(data))
    typer.echo(statistics.format())
    if out is not None:
        write_statistics(statistics, out)
        typer.echo(f"statistics: {out / 'statistics.json'}")


def _connector(engine: EngineOptions, out: Path) -> "Callable[[Governance], ChatModel] | None":
    """The function that connects to a language model for texts of a class, or None without `--engine`."""
    from medvqa_core.llm.connecting import connect_model

    return (lambda governance: connect_model(engine, governance, make_folder(out) / RECORD)) if engine.engines else None


def _echo_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _echo_counts(counts: dict[str, int], problems: list[str]) -> None:
    """Print counts, then everything that was left out."""
    typer.echo(", ".join(f"{name.replace('_', ' ')}: {value:,}" for name, value in counts.items()))
    for problem in problems:
        typer.echo(f"left out: {problem}", err=True)


def _echo_next(data: Path, out: Path, config: str) -> None:
    place = repr(str(data)) if (data / "images").is_dir() else "PHOTOS"
    images = "" if out.resolve() == data.resolve() else f", image_root={place}"
    typer.echo(f"next: load_dataset('rjua_meddqa', {config!r}, data_dir={str(out)!r}{images})")
