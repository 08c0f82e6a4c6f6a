"""Open the folders that the user names. The kind of each folder is detected from its content.

a release or its workspace                        studies
the authors' CSV files, or one of them            studies (`authors_files.py`)
annotations or drafts of `meddqa preannotate`     report pages
output of `meddqa esra`                           restored pages of those reports
a review sample                                   rating
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import find_manifest
from medvqa_hub.explore.authors_files import find_release, lay_out
from medvqa_hub.explore.live_questions import ChatHandler
from medvqa_hub.explore.page_models import Connect, open_models
from medvqa_hub.explore.pictures import find_image_root
from medvqa_hub.explore.report_pages import BoxPages, PageSource, RestoredPages
from medvqa_hub.explore.reports import ANNOTATED, DRAFTED, ReportView, annotations_by_path
from medvqa_hub.explore.reviewing import ReviewView
from medvqa_hub.explore.row_index import index_rows
from medvqa_hub.explore.runs import open_runs
from medvqa_hub.explore.studies import StudyView
from medvqa_hub.explore.verdicts import open_judges
from mimic_cxr_vqa.judging.review import KIND as REVIEW_KIND
from mimic_cxr_vqa.judging.review import open_review
from mimic_cxr_vqa.workspace import SAMPLE_DIR
from rjua_meddqa import data_folder as reports
from rjua_meddqa.corrections import EDITS, Corrections
from rjua_meddqa.released import read_annotations
from rjua_meddqa.restoration.pages import KIND as PAGES_KIND

RELEASE, PAGES, REPORTS, REVIEW = "releases", "restored pages", "report annotations", "review samples"


@dataclass(frozen=True)
class ExploreOptions:
    """Options besides the folders.

    Attributes:
        predictions: runs whose answers are shown beside the reference.
        image_root: folder of the radiographs.
        report_images: folder of the report images.
        corrections: folder for corrected annotations.
        compare: two annotators' folders of corrections, to be adjudicated.
        rater: the only rater. None lets each rater of the sample rate.
        connect: connects the model for data of a class. None if no model was named.
        checkpoint: folder of a checkpoint that answers questions.
        image_class: class of uploaded images.
    """

    predictions: Sequence[Path] = ()
    image_root: Path | None = None
    report_images: Path | None = None
    corrections: Path | None = None
    compare: Sequence[Path] = ()
    rater: str | None = None
    connect: Connect | None = None
    checkpoint: Path | None = None
    image_class: Governance = Governance.CREDENTIALED


@dataclass(frozen=True)
class OpenDataset:
    """The parts of the page."""

    studies: StudyView | None = None
    reports: ReportView | None = None
    review: ReviewView | None = None
    ask: ChatHandler | None = None

    @property
    def governance(self) -> Governance:
        """The strictest class of all parts."""
        return strictest(part.governance for part in vars(self).values() if part is not None)

    def about(self) -> dict[str, Any]:
        """The first thing that the page requests."""
        described = {name: part.describe() for name, part in vars(self).items() if part is not None}
        return {"governance": str(self.governance), **described}


def open_folders(folders: Sequence[Path], options: ExploreOptions | None = None) -> OpenDataset:
    """Open `folders`, or the bundled samples without any.

    Raises:
        InputError: a folder holds nothing that the page shows or is damaged, or two folders are of the same kind.
        GovernanceError: a folder states a weaker class than its content has, or the model may not see the data.
        ConfigError, ServerError: the model cannot be connected.
    """
    options = options or ExploreOptions()
    found: dict[str, Path] = {}
    for folder in folders or (SAMPLE_DIR, reports.SAMPLE_DIR):
        kind = detect_kind(folder)
        if kind in found:
            raise InputError(f"{found[kind]} and {folder} are both {kind}. The explorer shows one at a time.")
        found[kind] = folder
    studies = _open_studies(found[RELEASE], options) if RELEASE in found else None
    if studies is None and options.predictions:
        raise InputError("--predictions needs the folder of a release")
    pages = _open_reports(found.get(REPORTS), found.get(PAGES), options)
    review = ReviewView(open_review(found[REVIEW]), options.rater) if REVIEW in found else None
    opened = OpenDataset(studies, pages, review)
    if studies is None and pages is None and options.connect is None and options.checkpoint is None:
        return opened
    models = open_models(opened.governance, options.connect, options.checkpoint, options.image_class)
    return replace(opened, ask=ChatHandler(studies, pages, opened.governance, models))


def detect_kind(folder: Path) -> str:
    """RELEASE, PAGES, REPORTS or REVIEW. Raises InputError if the folder is missing or its manifest is damaged."""
    if folder.is_file():
        return RELEASE  # one of the authors' CSV files
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. Pass a release, annotated reports, restored pages or a review.")
    kinds = {PAGES_KIND: PAGES, REVIEW_KIND: REVIEW}
    if (stated := find_manifest(folder, "build it again").get("kind")) in kinds:
        return kinds[stated]
    return REPORTS if reports.ANNOTATIONS in reports.open_folder(folder).files else RELEASE


def _open_studies(place: Path, options: ExploreOptions) -> StudyView:
    release = find_release(place)
    images = find_image_root(release, options.image_root, beside=release.folder == SAMPLE_DIR)
    judges, scratch = open_judges(release), None
    if release.kind == "csv":
        scratch = lay_out(release)
        release = scratch.release
    return StudyView(index_rows(release), images, open_runs(options.predictions), judges, scratch)


def _open_reports(annotated: Path | None, restored: Path | None, options: ExploreOptions) -> ReportView | None:
    if annotated is None and restored is None:
        if options.corrections is not None or options.compare:
            raise InputError("--corrections and --compare need a folder of annotations or of restored pages")
        return None
    pages: list[PageSource] = [RestoredPages(restored)] if restored is not None else []
    rows: dict[str, Any] = {}
    roots: tuple[Path, ...] = ()
    governance, status = Governance.OPEN, ANNOTATED
    if annotated is not None:
        folder = reports.open_folder(annotated)
        governance = folder.governance
        rows = annotations_by_path(folder, read_annotations(folder.file(reports.ANNOTATIONS)))
        roots = reports.image_roots(annotated)
        status = DRAFTED if folder.drafted else ANNOTATED
        pages.append(BoxPages(annotated, governance))
    if options.report_images is not None:
        roots = (*reports.image_roots(options.report_images, options.report_images), *roots)
    governance = strictest([governance, *(source.governance for source in pages)])
    corrections = Corrections(options.corrections, governance) if options.corrections is not None else None
    if len(options.compare) not in (0, 2):
        raise InputError(f"--compare was given {len(options.compare)} folders. Expected two, one of each annotator.")
    if missing := [folder for folder in options.compare if not (folder / EDITS).is_file()]:
        raise InputError(
            f"{missing[0]} does not hold corrections ({EDITS}). Pass a folder that --corrections has made."
        )
    compared = tuple(Corrections(folder, governance) for folder in options.compare)
    name = Path(annotated or restored or "").name
    return ReportView(name, governance, rows, pages, roots, corrections, status, compared)
