"""The commands preannotate, check, labelstudio-export and labelstudio-import. They yield the lines to print."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from medvqa_core.digests import digest_file
from medvqa_core.errors import InputError, OutputError
from medvqa_core.files import atomic_folder, make_folder
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import find_manifest, read_json, read_manifest, write_json, write_manifest
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.progress import track
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import PredictionStore
from rjua_meddqa.annotation.checking import CheckReport, check_annotations, check_file
from rjua_meddqa.annotation.draft_check import DraftCheck, check_draft
from rjua_meddqa.annotation.drafts import Draft, draft, draft_annotation
from rjua_meddqa.annotation.labelstudio import keep_unchanged, labelling_config, make_task, parse_annotations
from rjua_meddqa.annotation.page_check import page_text
from rjua_meddqa.annotation.table_files import read_tables_file
from rjua_meddqa.annotation.table_guard import check_tables
from rjua_meddqa.corrections import EDITS, SOURCES, Corrections, to_state
from rjua_meddqa.data_folder import (
    ANNOTATIONS,
    DRAFT,
    IMAGES,
    OUR_NAMES,
    find_image,
    image_roots,
    open_folder,
    record_part,
)
from rjua_meddqa.inference.drafting import DROPPED, DraftingModel, DraftRequest, draft_from_reply
from rjua_meddqa.inference.page_images import ImageRule
from rjua_meddqa.released import read_annotations, read_cells, write_annotations
from rjua_meddqa.restoration.ocr import read_boxes
from rjua_meddqa.restoration.pages import Page, read_pages
from rjua_meddqa.restoration.quality import judge_type

TYPE_COLUMNS = ("img_path", "image_type")
CORRECTED = SOURCES[1]  # source of annotations in the manifest, or DRAFT
MODEL_DRAFTS = "model_drafts.jsonl"  # a language model's replies
CHECK_KIND = "meddqa-check"  # in the file of findings
LABELSTUDIO_KIND, TASKS, CONFIG = "meddqa-labelstudio", "tasks.json", "labelling_config.xml"


def preannotate(
    pages: Path,
    out: Path,
    image_type: str | None = None,
    types: Path | None = None,
    connect: Callable[[Governance], ChatModel] | None = None,
    compare: Path | None = None,
    retry_failed: bool = False,
    images: Path | None = None,
) -> Iterator[str]:
    """Draft the annotation of every restored page into `out/annotations.csv`.

    Args:
        image_type: pdf, photo or screenshot for all images. By default, it is detected.
        types: CSV with img_path and image_type of some images.
        connect: takes the class of the pages and connects a language model that drafts instead of the rules.
        compare: folder with annotations of these images, to measure the drafts.
        images: folder of the images, for language models that see them. None: they get the text alone.

    Raises:
        ConfigError: an image type is unknown.
        InputError: `pages` does not hold restored pages.
        OutputError: `out` holds annotations that are not drafts.
    """
    _check_only_drafts(out)
    governance = _read_class(pages)
    named = _read_types(types) if types is not None else {}
    for given in {image_type, *named.values()}:
        if given is not None:
            judge_type(given)  # raises ConfigError
    drafts: dict[str, Draft] | None = None
    details: dict[str, Any] = {}
    if connect is not None:
        drafts, details = draft_by_model(
            connect(governance), list(read_pages(pages)), out, governance, retry_failed, images
        )
    annotations = [
        draft_annotation(
            page,
            str(number),
            page.image,
            named.get(page.image, image_type),
            None if drafts is None else drafts[page.image],
        )
        for number, page in enumerate(track(read_pages(pages), "drafts"), start=1)
        if drafts is None or page.image in drafts
    ]
    counts = {
        "annotations": len(annotations),
        "key_values": sum(len(annotation.key_values) for annotation in annotations),
        "table_rows": sum(len(annotation.table) for annotation in annotations),
        "empty": sum(not annotation.key_values and not annotation.table for annotation in annotations),
        **details.get("counts", {}),
    }
    part = {"source": DRAFT, "counts": counts, **({"model": details["model"]} if details else {})}
    record_part(make_folder(out), ANNOTATIONS, governance, part)
    write_annotations(annotations, out / OUR_NAMES[ANNOTATIONS])
    yield _counts(counts)
    yield from (f"left out: {reason}" for reason in details.get("failures", ()))
    if compare is not None:
        yield from compare_drafts(pages, compare, drafts)
    yield f"drafts: {out / OUR_NAMES[ANNOTATIONS]} ({governance})"
    yield f"next: medvqa-hub explore {out} {pages} --report-images PHOTOS --corrections CORRECTED"


def draft_by_model(
    model: ChatModel,
    pages: list[Page],
    out: Path,
    governance: Governance,
    retry_failed: bool,
    images: Path | None = None,
) -> tuple[dict[str, Draft], dict[str, Any]]:
    """Draft pages by a model, resuming earlier runs. Returns drafts by image, and counts, failures and settings.

    Raises:
        ConfigError: the earlier run had another model or prompt, or no images.
        InputError: `images` lacks the image of a page.
    """
    drafter = DraftingModel(model, ImageRule() if images else None)
    files = _find_images(pages, images)
    drafts: dict[str, Draft] = {}
    dropped: Counter[str] = Counter(dict.fromkeys(DROPPED, 0))
    failures = []
    with PredictionStore(make_folder(out) / MODEL_DRAFTS, governance, drafter.settings) as store:
        seen = {name: {"image": digest_file(path)} for name, path in files.items()}
        keys = {page.image: store.key(text=page.restored.text, **seen.get(page.image, {})) for page in pages}
        ask_all(
            ({keys[page.image]: DraftRequest(page.image, page, files.get(page.image))} for page in pages),
            drafter.answer,
            store,
            in_flight=model.in_flight,
            description="Drafting, page by page",
            total=len(pages),
            retry_failed=retry_failed,
            session=model,
        )
        for page in pages:
            found = store.find(keys[page.image])
            if found is None or found.answer is None:
                failures.append(f"{page.image}: {found.error if found else 'not asked'}")
                continue
            drafts[page.image], lost = draft_from_reply(found.answer, page)
            dropped += lost
    counts = {"failed_pages": len(failures), **{name: dropped[name] for name in DROPPED}}
    return drafts, {"counts": counts, "failures": failures, "model": drafter.settings}


def _find_images(pages: Sequence[Page], folder: Path | None) -> dict[str, Path]:
    """The files of the pages' images by name. Empty without a folder. Raises InputError if one is missing."""
    if folder is None:
        return {}
    found = {}
    for page in pages:
        path = find_image(image_roots(folder, folder), page.image, str(folder))
        if path is None:
            raise InputError(
                f"{folder}: the image {page.image!r} is missing. Pass the folder that meddqa esra has read."
            )
        found[page.image] = path
    return found


def compare_drafts(pages: Path, data: Path, drafts: Mapping[str, Draft] | None) -> Iterator[str]:
    """Compare the drafts by rules, and by a model if there are any, with annotations of the same pages.

    Raises:
        InputError: `data` does not contain annotations of these pages.
    """
    annotations = {Path(a.img_path).name: a for a in read_annotations(open_folder(data).file(ANNOTATIONS))}
    rules, model, compared = DraftCheck(), DraftCheck(), 0
    for page in read_pages(pages):
        annotation = annotations.get(page.image)
        if annotation is not None:
            compared += 1
            rules += check_draft(draft(page.restored), annotation)
            if drafts is not None:
                model += check_draft(drafts.get(page.image, Draft((), ())), annotation)
    if not compared:
        raise InputError(f"{data} does not contain annotations of the pages in {pages}.")
    yield f"compared with the annotations of {compared:,} pages:"
    for name, found in (("rules", rules), *((("model", model),) if drafts is not None else ())):
        yield (
            f"  {name}: key-values {found.key_values_found:,} of {found.key_values:,}, rows {found.rows_found:,} of "
            f"{found.rows:,} ({found.drafted_rows:,} drafted), ranges {found.rows_with_range:,}, verdicts as annotated "
            f"{found.rows_with_verdict:,}"
        )


def check(data: Path, pages: Path | None, out: Path | None, shown: int) -> tuple[Iterator[str], int]:
    """Check the annotations of a folder or of a CSV file.

    Args:
        pages: restored pages to compare the annotations with.
        out: file for all findings as JSON.
        shown: number of findings to print.

    Returns:
        Lines to print, and the number of findings.

    Raises:
        InputError: annotations are missing.
    """
    if data.is_file():
        path, images, governance = data, None, Governance.SHARE_ALIKE
    else:
        folder = open_folder(data)
        path, governance = folder.file(ANNOTATIONS), folder.governance
        images = data / IMAGES if (data / IMAGES).is_dir() else None  # drafts have none
    texts = {page.image: page_text(page.restored) for page in read_pages(pages)} if pages is not None else None
    make_page = (lambda image: texts.get(Path(image).name)) if texts is not None else None
    report = check_file(path, images, make_page)
    if out is not None:
        stated = {"kind": CHECK_KIND, "governance": str(governance), "file": path.name}
        write_json(out, {**stated, **report.to_json()}, end="")
    return _report_lines(report, shown), len(report.findings)


def check_table(table: Path, boxes: Path, out: Path | None) -> tuple[Iterator[str], int]:
    """Check a table of a document parser against the boxes of its page.

    Args:
        table: HTML, Markdown or JSON.
        boxes: of the page as JSON, from meddqa ocr.
        out: file for all findings as JSON.

    Returns:
        Lines to print, and the number of findings.

    Raises:
        InputError: a file cannot be read.
    """
    grids = read_tables_file(table)
    findings = check_tables(grids, read_boxes(boxes))
    if out is not None:
        stated = find_manifest(boxes.parent, "choose boxes of meddqa ocr")
        governance = stated.get("governance", str(Governance.CREDENTIALED))
        found = [asdict(finding) for finding in findings]
        write_json(out, {"kind": CHECK_KIND, "governance": governance, "table": table.name, "findings": found}, end="")
    counts = _counts(Counter(finding.kind for finding in findings)) or "none"
    lines = [f"tables: {len(grids)}, cells: {sum(map(len, grids)):,}, findings: {counts}", *map(str, findings)]
    return iter(lines), len(findings)


def export_tasks(data: Path, pages: Path, out: Path, prefix: str) -> Iterator[str]:
    """Write Label Studio tasks for the annotations of a folder, with the boxes of its restored pages.

    Raises:
        InputError: annotations or their pages are missing.
    """
    folder = open_folder(data)
    governance = strictest((folder.governance, _read_class(pages)))
    by_name = _by_name(read_pages(pages), pages)
    tasks, missing, report_types = [], [], set()
    corrections = Corrections(data, folder.governance) if (data / EDITS).exists() else None
    skipped: list[str] = []
    for annotation in read_annotations(folder.file(ANNOTATIONS), skipped):
        page = by_name.get(Path(annotation.img_path).name)
        if page is None:
            missing.append(f"{annotation.img_path}: no restored page. Run meddqa esra on its image.")
        else:
            edits = [edit for edit, _ in corrections.history(annotation.img_path)] if corrections is not None else []
            history = [{name: getattr(edit, name) for name in ("author", "time", "change")} for edit in edits]
            tasks.append(make_task(page, annotation, prefix + quote(annotation.img_path), governance, history))
            report_types.add(annotation.report_type)
    if not tasks:
        raise InputError(
            f"{pages} does not contain pages of the images in {folder.file(ANNOTATIONS)}. Run meddqa esra."
        )
    counts = {"tasks": len(tasks), "left_out": len(missing) + len(skipped)}
    with atomic_folder(out, LABELSTUDIO_KIND) as partial:
        write_json(partial / TASKS, tasks, end="")
        (partial / CONFIG).write_text(labelling_config(report_types), encoding="utf-8")
        manifest = {"kind": LABELSTUDIO_KIND, "governance": str(governance), "counts": counts}
        write_manifest(partial, manifest, end="")
    yield _counts(counts)
    yield from (f"left out: {reason}" for reason in (*missing, *skipped))
    yield f"import {out / TASKS} into a project with the labelling interface {out / CONFIG}"


def import_tasks(export: Path, out: Path, original: Path | None) -> Iterator[str]:
    """Convert a Label Studio export to a folder of corrections, with authors and times, and check it.

    Args:
        original: folder of the tasks. Its uncorrected cells are written back unchanged.

    Raises:
        InputError: the export cannot be read or does not contain annotations.
    """
    imported = parse_annotations(read_json(export, "export the project from Label Studio as JSON"), str(export))
    annotations, governance = list(imported.annotations), imported.governance
    if not annotations:
        raise InputError(f"{export} does not contain annotations. Correct some tasks and export again.")
    if original is not None:
        folder = open_folder(original)
        governance = strictest((governance, folder.governance))
        annotations = keep_unchanged(annotations, read_annotations(folder.file(ANNOTATIONS)))
    corrections = Corrections(out, governance, CORRECTED)
    corrections.extend(_new_edits(corrections, imported.histories))
    saved = [row for path in imported.histories if (row := corrections.find(path)) is not None]
    corrections.extend(
        (row.img_path, author, time, to_state(row))
        for row, (author, time) in zip(keep_unchanged(annotations, saved), imported.made, strict=True)
        if (author, time) not in _made(corrections, row.img_path)
    )
    counts = {"annotations": len(annotations), "left_out": len(imported.skipped)}
    yield _counts(counts)
    yield from (f"left out: {reason}" for reason in imported.skipped)
    findings = check_annotations(annotations).counts()
    yield f"quality check: {_counts(findings) if findings else 'no findings'}. Details: medvqa-hub meddqa check"
    yield f"annotations: {out / OUR_NAMES[ANNOTATIONS]} ({governance})"


def _made(corrections: Corrections, path: str) -> list[tuple[str, str]]:
    """The authors and times of a report's edits."""
    return [(edit.author, edit.time) for edit, _ in corrections.history(path)]


def _new_edits(
    corrections: Corrections, histories: Mapping[str, list[tuple[str, str, dict[str, Any]]]]
) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """The exported edits that the folder does not have. Raises InputError if it has others in their place."""
    for path, history in histories.items():
        known, exported = _made(corrections, path), [edit[:2] for edit in history]
        if known[: len(exported)] != exported[: len(known)]:
            raise InputError(f"{corrections.folder} has other edits of {path} than the export. Choose another folder.")
        yield from ((path, *edit) for edit in history[len(known) :])


def _report_lines(report: CheckReport, shown: int) -> Iterator[str]:
    yield f"annotations: {report.annotations:,}, key-values: {report.key_values:,}, table rows: {report.table_rows:,}"
    if report.decided:
        yield f"is_normal as derived from result and range: {report.agreeing:,} of {report.decided:,} decided rows"
    yield f"findings: {len(report.findings):,}" + (f" ({_counts(report.counts())})" if report.findings else "")
    for finding in report.findings[:shown]:
        yield f"{finding.img_path} {finding.where}: {finding.message} [{finding.kind}]"
    if len(report.findings) > shown:
        yield f"… {len(report.findings) - shown:,} more. Write all of them with --out."


def _read_types(path: Path) -> dict[str, str]:
    """Read {file name: type} from a CSV. Raises InputError."""
    return {Path(cells["img_path"]).name: cells["image_type"].strip() for _, cells in read_cells(path, TYPE_COLUMNS)}


def _check_only_drafts(out: Path) -> None:
    path = out / OUR_NAMES[ANNOTATIONS]
    part = find_manifest(out, "choose another folder").get(ANNOTATIONS)
    if path.exists() and (not isinstance(part, dict) or part.get("source") != DRAFT):
        raise OutputError(f"{path} holds annotations that are not drafts. Choose another folder.")


def _read_class(pages: Path) -> Governance:
    return Governance(read_manifest(pages, f"run: medvqa-hub meddqa esra --images … --out {pages}")["governance"])


def _by_name(pages: Iterator[Page], where: Path) -> dict[str, Page]:
    found: dict[str, Page] = {}
    for page in pages:
        if page.image in found:
            raise InputError(f"{where}: two images are named {page.image!r}. Rename one of them.")
        found[page.image] = page
    return found


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')}: {value:,}" for name, value in counts.items())
