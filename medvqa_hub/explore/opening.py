"""From folders that a user names to what the page shows of them: each folder says itself what it is.

a release, or the folder that it was built in              studies (mimic_cxr_vqa)
the authors' CSV files, or one of them                     the same, laid out anew (authors_files.py)
a folder with annotations, or of `meddqa preannotate`      report pages (rjua_meddqa)
a folder of `meddqa esra --out`                            the restored pages of those reports
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import find_manifest
from medvqa_hub.explore.authors_files import find_release, lay_out
from medvqa_hub.explore.corrections import Corrections
from medvqa_hub.explore.live_questions import ChatHandler
from medvqa_hub.explore.page_models import Connect, open_models
from medvqa_hub.explore.pictures import image_root_of
from medvqa_hub.explore.report_pages import BoxPages, PageSource, RestoredPages
from medvqa_hub.explore.reports import ANNOTATED, DRAFTED, ReportView, annotations_by_path
from medvqa_hub.explore.reviewing import ReviewView
from medvqa_hub.explore.row_index import index_rows
from medvqa_hub.explore.runs import open_runs
from medvqa_hub.explore.studies import StudyView
from medvqa_hub.explore.verdicts import judges_of
from mimic_cxr_vqa.judging.review import KIND as REVIEW_KIND
from mimic_cxr_vqa.judging.review import open_review
from mimic_cxr_vqa.workspace import SAMPLE_DIR
from rjua_meddqa import data_folder as reports
from rjua_meddqa.released import read_annotations
from rjua_meddqa.restoration.pages import KIND as PAGES_KIND

RELEASE, PAGES, REPORTS, REVIEW = "a release", "restored pages", "report annotations", "a review sample"


@dataclass(frozen=True)
class Asked:
    """What the command line names besides the folders.

    Attributes:
        predictions: runs whose answers stand beside the reference.
        image_root: of the radiographs; report_images: of the reports.
        corrections: where corrected annotations are saved.
        rater: the only one who rates; None: each of the sample's raters may.
        connect: makes the model that is asked, for data of a class; None: rules alone answer.
        checkpoint: folder of a checkpoint of ours that is asked.
        image_class: of images that people bring to the page.
    """

    predictions: Sequence[Path] = ()
    image_root: Path | None = None
    report_images: Path | None = None
    corrections: Path | None = None
    rater: str | None = None
    connect: Connect | None = None
    checkpoint: Path | None = None
    image_class: Governance = Governance.CREDENTIALED


@dataclass(frozen=True)
class Opened:
    """What the page shows: each part where there is one."""

    studies: StudyView | None = None
    reports: ReportView | None = None
    review: ReviewView | None = None
    ask: ChatHandler | None = None

    @property
    def governance(self) -> Governance:
        """The strictest class of all that is shown: the page has it."""
        return strictest(part.governance for part in vars(self).values() if part is not None)

    def about(self) -> dict[str, Any]:
        """What the page asks for first."""
        described = {name: part.describe() for name, part in vars(self).items() if part is not None}
        return {"governance": str(self.governance), **described}


def open_folders(folders: Sequence[Path], asked: Asked | None = None) -> Opened:
    """Look at what is in `folders`, and open it; without one, the bundled samples.

    Raises:
        InputError: a folder holds nothing that the page shows, two hold the same kind, or what is there is broken.
        GovernanceError: a folder says that it is of a weaker class than its content, or the model may not have it.
        ConfigError, ServerError: the model cannot be connected.
    """
    asked = asked or Asked()
    found: dict[str, Path] = {}
    for folder in folders or (SAMPLE_DIR, reports.SAMPLE_DIR):
        kind = kind_of(folder)
        if kind in found:
            raise InputError(f"{found[kind]} and {folder} are both {kind}; the explorer shows one at a time")
        found[kind] = folder
    studies = _open_studies(found[RELEASE], asked) if RELEASE in found else None
    if studies is None and asked.predictions:
        raise InputError("--predictions stand beside the rows of a release: name its folder too")
    pages = _open_reports(found.get(REPORTS), found.get(PAGES), asked)
    review = ReviewView(open_review(found[REVIEW]), asked.rater) if REVIEW in found else None
    opened = Opened(studies, pages, review)
    if studies is None and pages is None and asked.connect is None and asked.checkpoint is None:
        return opened  # nothing to ask about, and nobody
    models = open_models(opened.governance, asked.connect, asked.checkpoint, asked.image_class)
    return replace(opened, ask=ChatHandler(studies, pages, opened.governance, models))


def kind_of(folder: Path) -> str:
    """RELEASE, PAGES, REPORTS or REVIEW. Raises InputError where a folder is missing or its manifest broken."""
    if folder.is_file():
        return RELEASE  # one of the authors' CSV files, or an error
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name a release, annotated reports, restored pages or a review")
    kinds = {PAGES_KIND: PAGES, REVIEW_KIND: REVIEW}
    if (stated := find_manifest(folder, "make it again").get("kind")) in kinds:
        return kinds[stated]
    return REPORTS if reports.ANNOTATIONS in reports.open_folder(folder).files else RELEASE


def _open_studies(place: Path, asked: Asked) -> StudyView:
    release = find_release(place)
    images = image_root_of(release, asked.image_root, beside=release.folder == SAMPLE_DIR)
    judges, scratch = judges_of(release), None
    if release.kind == "csv":
        scratch = lay_out(release)
        release = scratch.release
    return StudyView(index_rows(release), images, open_runs(asked.predictions), judges, scratch)


def _open_reports(annotated: Path | None, restored: Path | None, asked: Asked) -> ReportView | None:
    if annotated is None and restored is None:
        if asked.corrections is not None:
            raise InputError("--corrections are of reports: name a folder of annotations or of restored pages too")
        return None
    pages: list[PageSource] = [RestoredPages(restored)] if restored is not None else []
    rows, roots, governance, status = {}, (), Governance.OPEN, ANNOTATED
    if annotated is not None:
        folder = reports.open_folder(annotated)
        governance = folder.governance
        rows = annotations_by_path(folder, read_annotations(folder.file(reports.ANNOTATIONS)))
        roots = reports.image_roots(annotated)
        status = DRAFTED if folder.drafted else ANNOTATED
        pages.append(BoxPages(annotated, governance))
    if asked.report_images is not None:
        roots = (*reports.image_roots(asked.report_images, asked.report_images), *roots)
    governance = strictest([governance, *(source.governance for source in pages)])
    corrections = Corrections(asked.corrections, governance) if asked.corrections is not None else None
    name = (annotated or restored).name
    return ReportView(name, governance, rows, pages, roots, corrections, status)
