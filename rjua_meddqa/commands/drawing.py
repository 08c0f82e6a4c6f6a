"""The commands figures and leave-one-out. They yield the lines to print."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from medvqa_core.errors import ConfigError
from medvqa_core.files import make_folder
from medvqa_core.governance import Governance, parse
from medvqa_core.json_files import read_manifest
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import PredictionStore
from rjua_meddqa import figures
from rjua_meddqa.annotation.drafts import draft
from rjua_meddqa.data_folder import ANNOTATIONS, REASONING, open_folder
from rjua_meddqa.inference.engines import DocumentRequest
from rjua_meddqa.inference.language_model import ESRA, DocumentModel, record_details
from rjua_meddqa.inference.leave_one_out import LeaveOneOut, TextCase, count_case, leave_one_out_pages, text_cases
from rjua_meddqa.released import read_annotations, read_reasoning
from rjua_meddqa.restoration.ocr import read_boxes
from rjua_meddqa.restoration.pages import read_pages

LEFT_OUT = "leave_one_out.jsonl"  # a model's responses


def draw_figures(out: Path, results: Sequence[Path], data: Path | None, boxes: Path | None) -> Iterator[str]:
    """Draw the figures for the given files.

    Raises:
        ConfigError: no file is given.
        InputError: a file cannot be read.
        OutputError: `out` cannot be written.
    """
    if not results and data is None and boxes is None:
        raise ConfigError("data is missing. Pass --results, --data or --boxes.")
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


def measure_leave_one_out(
    data: Path, pages: Path, connect: Callable[[Governance], ChatModel] | None = None, out: Path | None = None
) -> Iterator[str]:
    """Ask for items after removing them from their pages.

    Args:
        connect: takes the class of the pages and connects a language model, instead of `esra-rules`.
        out: folder of its responses, for resuming.

    Raises:
        InputError: data or pages cannot be read.
        ConfigError: `out` is missing.
    """
    tables = {Path(a.img_path).name: a.table for a in read_annotations(open_folder(data).file(ANNOTATIONS)) if a.table}
    held = [page for page in read_pages(pages) if page.image in tables]
    if connect is None:
        found = leave_one_out_pages((draft(page.restored), tables[page.image]) for page in held)
    else:
        if out is None:
            raise ConfigError("--out is missing. A model's responses need a folder.")
        governance = parse(read_manifest(pages, "restore them: medvqa-hub meddqa esra")["governance"], str(pages))
        cases = [text_cases(page, tables[page.image]) for page in held]
        found = _ask_model(connect(governance), cases, out, governance)
        left = sum(len(tables[page.image]) for page in held) - sum(map(len, cases))
        yield f"{left:,} items are left out, because their names are not on a line of their pages"
    yield str(found)
    for item, answer in found.examples:
        yield f"asked for {item}, which was removed: {answer}"


def _ask_model(
    connected: ChatModel, cases: Sequence[Sequence[TextCase]], out: Path, governance: Governance
) -> LeaveOneOut:
    model = DocumentModel(connected, input=ESRA)
    with PredictionStore(make_folder(out, governance.private) / LEFT_OUT, governance, model.settings) as store:

        def key(request: DocumentRequest) -> str:
            text = request.page.restored.text if request.page else None
            return store.key(text=text, question=request.question, **model.asked_as(request))

        groups = [{key(r): r for case in page for r in (case.without, case.whole)} for page in cases]
        ask_all(
            groups,
            model.answer,
            store,
            in_flight=model.in_flight,
            description="Asking, page by page",
            total=len(groups),
            review=record_details,
            session=model,
        )
        result = LeaveOneOut()
        for case in chain.from_iterable(cases):
            replies = [store.find(key(request)) for request in (case.without, case.whole)]
            result += count_case(case, *(reply.answer if reply is not None else None for reply in replies))
        return result
