"""`medvqa-hub cxr …`: the steps from a source of studies to a release. Heavy imports happen inside the steps."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from medvqa_core.errors import ConfigError, OutputError
from mimic_cxr_vqa.cli_answers import answer, merge
from mimic_cxr_vqa.cli_batches import batch_export, batch_import
from mimic_cxr_vqa.cli_output import Out, echo_counts, quote
from mimic_cxr_vqa.cli_rebuild import rebuild, rebuild_spec
from mimic_cxr_vqa.judging import commands as judging
from mimic_cxr_vqa.sources.registry import SOURCES, SourceOptions, read_source

app = typer.Typer(no_args_is_help=True, help="MIMIC-CXR-VQA: build a dataset from radiology reports.")

Data = Annotated[
    Path, typer.Option(help="A release, the folder it was built in, or a folder with the authors' CSV files.")
]


SourceName = StrEnum("SourceName", list(SOURCES))  # type: ignore[misc]  # members come from the registry
PHYSIONET = SourceName("physionet")


PRESETS = {"open-10k": (10_000, 320)}  # studies, and side of the images


@app.command()
def phantom(
    out: Annotated[Path, typer.Option(help="Folder for the tree (the layout of MIMIC-CXR-JPG).")],
    studies: Annotated[int | None, typer.Option(help="Number of studies. Default: 200.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same studies.")] = 0,
    size: Annotated[int | None, typer.Option(help="Side of the square images in pixels. Default: 512.")] = None,
    reports: Annotated[Literal["folder", "zip"], typer.Option(help="Reports as text files or as one zip.")] = "folder",
    preset: Annotated[
        Literal["open-10k"] | None,
        typer.Option(help="open-10k: 10,000 studies at 320 pixels, to push as an open dataset."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that draw.", min=1)] = 1,
) -> None:
    """Write synthetic radiographs with reports and labels in MIMIC-CXR's layout."""
    from mimic_cxr_vqa.phantom.tree import write_phantom

    if preset and (studies is not None or size is not None):
        raise ConfigError(f"--preset {preset} sets --studies and --size. Leave them out")
    studies, size = PRESETS[preset] if preset else (200 if studies is None else studies, 512 if size is None else size)
    write_phantom(out, studies, seed=seed, size=size, reports=reports, processes=workers)
    typer.echo(
        f"{studies} studies in {out}. Next: medvqa-hub cxr questions --source phantom --root {quote(out)} --out …"
    )


@app.command()
def shrink(
    root: Annotated[Path, typer.Option(help="Folder of images, such as MIMIC-CXR-JPG.")],
    out: Annotated[Path, typer.Option(help="Folder for the copies, usable as an image root.")],
    size: Annotated[int, typer.Option(help="Shorter side in pixels.")] = 512,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: one per core.", min=1)] = None,
) -> None:
    """Copy an image tree with smaller images, which training reads many times faster. Can be resumed."""
    from mimic_cxr_vqa.shrinking import shrink_tree

    manifest = shrink_tree(root, out, size, workers)
    echo_counts(manifest["counts"])
    typer.echo(f"governance class: {manifest['governance']}. Train with --image-root {quote(out)}")


@app.command()
def questions(
    root: Annotated[Path, typer.Option(help="Folder of the source (MIMIC-CXR-JPG, phantom tree or Open-i CSVs).")],
    out: Out,
    source: Annotated[SourceName, typer.Option(help="Where the studies come from.")] = PHYSIONET,
    reports: Annotated[Path | None, typer.Option(help="Folder of MIMIC-CXR or its reports zip. Default: root.")] = None,
    labeler: Annotated[str, typer.Option(help="Label table: chexpert or negbio.")] = "chexpert",
    labels: Annotated[
        Literal["text", "mesh"], typer.Option(help="Open-i: labels from the text, or from the MeSH annotation.")
    ] = "text",
    seed: Annotated[int, typer.Option(help="Seed for drawing the questions.")] = 0,
    encoding: Annotated[str, typer.Option(help="Encoding of the report texts.")] = "utf-8",
    sections: Annotated[Path | None, typer.Option(help="MIMIC's mimic_cxr_sectioned.csv, to use its findings.")] = None,
    studies: Annotated[
        Path | None, typer.Option(help="File with one study id per line, to use only these studies.")
    ] = None,
) -> None:
    """Read studies and draw their questions (paper, Section 3.1)."""
    from mimic_cxr_vqa.generation.question_writer import write_questions
    from mimic_cxr_vqa.workspace import Workspace

    options = SourceOptions(reports, labeler, labels, encoding, sections, studies)
    studies_read = read_source(source.value, root, options)
    manifest = write_questions(studies_read, Workspace(out), seed, options.described())
    echo_counts(manifest["counts"])
    typer.echo(f"governance class: {manifest['governance']}. Next: medvqa-hub cxr answer --out {quote(out)}")


app.command()(answer)
app.command("batch-export")(batch_export)
app.command("batch-import")(batch_import)
app.command()(merge)


@app.command()
def status(out: Out) -> None:
    """Show the progress of a build."""
    from mimic_cxr_vqa.generation.answers import count_answers
    from mimic_cxr_vqa.release import open_release
    from mimic_cxr_vqa.release_writer import describe_questions
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    echo_counts(workspace.manifest()["counts"])
    echo_counts(count_answers(workspace))
    if workspace.answers.exists():
        from mimic_cxr_vqa.answer_statistics import count_workspace, format_statistics

        typer.echo(f"\n{format_statistics(count_workspace(workspace, workspace.governance()))}")
    if not workspace.release.exists():
        typer.echo("release: not written yet")
    elif describe_questions(workspace) != open_release(workspace.release).manifest.get("questions"):
        typer.echo(f"release: {workspace.release}, made from other questions. Release again.")
    else:
        typer.echo(f"release: {workspace.release}")


@app.command()
def release(
    out: Out,
    flagged: Annotated[
        Literal["keep", "drop"], typer.Option(help="Keep or drop answers that break a wording rule.")
    ] = "keep",
    allow_missing: Annotated[bool, typer.Option(help="Release even if questions are unanswered.")] = False,
    rows_per_shard: Annotated[int, typer.Option(help="Rows per Parquet file.")] = 250_000,
) -> None:
    """Write Parquet shards, the card and the manifest to OUT/release."""
    from mimic_cxr_vqa.release import record_last_release
    from mimic_cxr_vqa.release_writer import write_release
    from mimic_cxr_vqa.workspace import Workspace

    workspace = Workspace(out)
    manifest = write_release(workspace, flagged, allow_missing, rows_per_shard)
    echo_counts(manifest["counts"])
    typer.echo(f"release: {workspace.release} ({manifest['governance']})")
    try:
        record_last_release(workspace.release)
        typer.echo("load_dataset('mimic_cxr_vqa') now loads it")
    except OutputError as error:  # the release is complete, only its record could not be written
        typer.echo(f"load_dataset('mimic_cxr_vqa') will not find it by default ({error}). Pass data_dir or set HF_HOME")


@app.command("export-csv")
def export_csv(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for train.csv, val.csv and test.csv.")],
) -> None:
    """Write a release in the authors' CSV layout."""
    from mimic_cxr_vqa.release import export_authors_csv, open_release

    rows = export_authors_csv(open_release(data), out)
    echo_counts(rows)
    typer.echo(f"authors' layout: {out}")


@app.command()
def stats(
    data: Data,
    out: Annotated[Path | None, typer.Option(help="Folder for statistics.json and figure1.png.")] = None,
) -> None:
    """Print Tables 1 and 2 of the paper for a release. With --out, also write them as JSON and draw Figure 1."""
    from mimic_cxr_vqa.answer_statistics import count_rows, format_statistics
    from mimic_cxr_vqa.authors_csv import ReplyFilter
    from mimic_cxr_vqa.release import open_release
    from mimic_cxr_vqa.statistics import format_section_rules, format_tables, summarise, write_statistics

    release = open_release(data)
    replies = ReplyFilter()
    statistics = summarise(replies.keep(release.iterate_all()), release.manifest.get("label_counts"))
    typer.echo(format_tables(statistics))
    answers = count_rows(ReplyFilter().keep(release.iterate_all()))
    typer.echo(format_statistics(answers))
    if rules := format_section_rules(release.manifest.get("section_rules", {})):
        typer.echo(rules)
    if table3 := release.manifest.get("validation"):
        from mimic_cxr_vqa.judging.table3_text import format_table3

        typer.echo(f"Table 3: ratings of the answers by a judge and by people\n\n{format_table3(table3)}\n")
    if replies.left_out:
        typer.echo(f"left out {replies.left_out:,} rows whose reply could not be parsed")
    if out is not None:
        write_statistics(statistics, out, {"answers": answers.to_json()})
        typer.echo(f"statistics.json and figure1.png: {out}")


@app.command()
def agreement(
    ratings: Annotated[Path, typer.Argument(help="CSV: rater,item,<dimension>… or rater,item,dimension,rating.")],
    order: Annotated[
        list[str] | None, typer.Option(help="dimension=worst,…,best, for dimensions that the paper does not use.")
    ] = None,
    weights: Annotated[
        Literal["quadratic", "linear", "identity"],
        typer.Option(help="Weights of disagreements. Identity for nominal categories."),
    ] = "quadratic",
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples for the intervals. 0 for none.", min=0)] = 2000,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write everything as JSON.")] = None,
) -> None:
    """Print the raters' agreement per dimension: weighted Fleiss' kappa, AC1, AC2 (paper, Table 3)."""
    from medvqa_core.metrics.agreement_table import agreement_record, format_agreement, measure_sheet
    from medvqa_core.metrics.ratings import parse_order, read_ratings

    sheet = read_ratings(ratings, dict(map(parse_order, order or [])))
    measured = measure_sheet(sheet, weights, resamples)
    typer.echo(format_agreement(measured))
    typer.echo("AC1, AC2: Gwet's definition. Published: with the chance terms of the paper's Table 3")
    if sheet.ignored:
        typer.echo(f"ignored (name the order of their categories with --order): {', '.join(sheet.ignored)}")
    if json_file is not None:
        from medvqa_core.json_files import write_json

        write_json(json_file, agreement_record(measured, sheet), indent=2, end="")
        typer.echo(f"written: {json_file}")


app.command("judge")(judging.judge)
app.command("table3")(judging.table3)
app.command("rebuild-spec")(rebuild_spec)
app.command()(rebuild)
app.add_typer(judging.review_app, name="review")
