"""The steps `figures` and `leave-one-out`: pictures and a measure from files that other steps wrote."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from medvqa_core.errors import ConfigError
from medvqa_core.files import make_folder
from rjua_meddqa import figures
from rjua_meddqa.annotation.drafts import draft
from rjua_meddqa.answering.leave_one_out import leave_one_out_of_all
from rjua_meddqa.data_folder import ANNOTATIONS, REASONING, open_folder
from rjua_meddqa.generation.reasoning_file import read_reasoning
from rjua_meddqa.released import read_annotations
from rjua_meddqa.restoration.ocr import read_boxes
from rjua_meddqa.restoration.pages import read_pages


def draw_figures(out: Path, results: Sequence[Path], data: Path | None, boxes: Path | None) -> Iterator[str]:
    """Draw what there are files for, and say what.

    Raises:
        ConfigError: nothing is given.
        InputError: a file cannot be read.
        OutputError: `out` cannot be written.
    """
    if not results and data is None and boxes is None:
        raise ConfigError("no figure without data: give --results, --data or --boxes")
    make_folder(out)
    if results:
        figures.plot_models(dict(figures.read_results(path) for path in results), out / "figure5.png")
        yield f"Figure 5, {len(results)} results: {out / 'figure5.png'}"
    if data is not None:
        folder = open_folder(data)
        annotations = read_annotations(folder.file(ANNOTATIONS))
        laboratory, clinical = figures.count_diseases(read_reasoning(folder.file(REASONING)), annotations)
        figures.plot_diseases(laboratory, clinical, out / "figure6.png")
        yield f"Figure 6, {len(laboratory)} and {len(clinical)} diseases: {out / 'figure6.png'}"
    if boxes is not None:
        figures.plot_discounts(read_boxes(boxes), out / "figure7.png")
        yield f"Figure 7: {out / 'figure7.png'}"


def measure_leave_one_out(data: Path, pages: Path) -> Iterator[str]:
    """The figure and the wrong answers. Raises InputError where data or pages cannot be read."""
    tables = {a.img_path: a.table for a in read_annotations(open_folder(data).file(ANNOTATIONS)) if a.table}
    found = leave_one_out_of_all(
        (draft(page.restored), tables[page.image]) for page in read_pages(pages) if page.image in tables
    )
    yield str(found)
    for item, said in found.examples:
        yield f"asked for {item}, which is not there: {said}"
