"""Questions without answers, for `medvqa-hub predict`: a dataset folder, or one file.

folder         whatever `evaluate cxr` reads, and question sets and CSV files without answers
.csv           columns of the authors' layout (study_id, question, image_path, …); or those below
.jsonl, .csv   a question per row: `qa_id` (or `id`, `question_id`), `question`, `images` (a list, or paths separated by
               commas; also `image`, `image_path`), and optionally `views`, `study_id` and `indication`

The first line of a JSON lines file may state the governance class: `{"governance": "open"}`. Rows of a file that does
not state one are credentialed.

A study whose images are missing is never answered. Its questions are failures with the reason.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from medvqa_core.csv_files import column_names
from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import MANIFEST
from medvqa_core.governance import Governance, parse
from medvqa_core.minimum_class import check_minimum_class, minimum_class_for_ids
from medvqa_hub.evaluation.answer_files import IDS
from medvqa_hub.evaluation.cxr.evaluation_data import SPLIT_ALIASES, EvaluationData, open_data
from medvqa_hub.evaluation.cxr.options import DataOptions
from medvqa_hub.evaluation.cxr.question_rows import PLACE, Row, group_rows, read_csv_rows, read_json_rows
from medvqa_hub.evaluation.cxr.studies import Study, check_limit
from mimic_cxr_vqa.authors_csv import read_authors_csv
from mimic_cxr_vqa.image_files import ImageFiles
from mimic_cxr_vqa.images import check_image
from mimic_cxr_vqa.release import IMAGE_VARIABLE, STORE_VARIABLE, Release, find_image_prefix, open_release
from mimic_cxr_vqa.row_checks import RowChecks

AUTHORS = {"study_id", "question"}
NO_IMAGE = "the question has no image"


@dataclass(frozen=True)
class Questions:
    """Attributes:
    data: the studies that can be asked about.
    order: ids of all questions in the order of the source, with their study and text.
    unusable: id -> reason, for questions whose images are missing.
    """

    data: EvaluationData
    order: Mapping[str, tuple[int | str, str]]
    unusable: Mapping[str, str] = field(default_factory=dict)


def open_questions(options: DataOptions) -> Questions:
    """Read the questions that the options name. Answers that they have are not used.

    Args:
        options: `missing_images` is "error", or "skip" to record the questions of such studies as failures.

    Raises:
        ConfigError: images are needed and not given, or an option is out of range.
        InputError: the questions cannot be read, an id occurs twice, or no question has its images.
    """
    check_limit(options.limit)
    if options.layout is not None:
        data = open_data(options, needs_images=False)
    elif options.data.is_dir():
        data = _read_release(options, open_release(options.data))
    else:
        data = _read_file(options)
    studies = data.studies[: options.limit]
    order: dict[str, tuple[int | str, str]] = {}
    rows = [(study, row) for study in studies for row in study.rows]
    for study, row in sorted(rows, key=lambda pair: pair[1].get(PLACE, 0)):
        if row["qa_id"] in order:
            raise InputError(
                f"{options.data}: question {row['qa_id']} occurs twice. Every question needs an id of its own."
            )
        order[row["qa_id"]] = (study.study_id, row["question"])
    problems = {id(study): _find_problem(study) for study in studies}
    usable = [study for study in studies if problems[id(study)] is None]
    unusable = {
        row["qa_id"]: problem for study in studies if (problem := problems[id(study)]) is not None for row in study.rows
    }
    if unusable and (options.missing_images == "error" or not usable):
        first, reason = next(iter(unusable.items()))
        raise InputError(
            f"Question {first}: {reason} ({len(unusable)} of {len(order)} questions). Check --image-root. "
            "--missing-images skip records such questions as failures."
        )
    return Questions(replace(data, studies=usable), order, unusable)


def _find_problem(study: Study) -> str | None:
    """Why the images of a study cannot be shown, or None."""
    if not study.images:
        return NO_IMAGE
    for path in study.images:
        problem = "is absent" if path is None else check_image(path)
        if problem:
            return f"image {path or 'of the study'} {problem}"
    return None


def _read_release(options: DataOptions, release: Release) -> EvaluationData:
    split = SPLIT_ALIASES.get(options.split, options.split)
    if split not in release.files:
        raise InputError(f"{release.folder} does not have a split {split!r}. It has {', '.join(release.files)}.")
    batches = (
        batch
        for file in release.files[split]
        for batch in (
            read_authors_csv(file, split, tolerant=True) if release.kind == "csv" else release.iterate(split, file)
        )
    )
    studies = _group_authors_rows(batches, release.duplicates, split, options.image_root)
    described = {
        "source": release.manifest.get("source", "the authors' release"),
        "fingerprint": release.fingerprint,
    }
    return EvaluationData(studies, release.governance, "sentence", described)


def _group_authors_rows(
    batches: Iterator[pa.RecordBatch], duplicates: str, split: str, image_root: Path | None
) -> list[Study]:
    """Studies of rows with QA_SCHEMA or QUESTION_SCHEMA, with the path of each image."""
    root = image_root or os.environ.get(IMAGE_VARIABLE)
    if not root:
        raise ConfigError(f"No images are given. Pass --image-root (the folder with files/) or set {IMAGE_VARIABLE}.")
    store = os.environ.get(STORE_VARIABLE)
    files = ImageFiles(find_image_prefix(Path(root)), "none", Path(store) if store else None)
    checks, place = RowChecks({}, duplicates), 0
    found: dict[tuple, tuple[Row, list[Row]]] = {}
    for batch in batches:
        for row in files.resolve(pa.Table.from_batches([checks.add(batch)])).to_pylist():
            study = found.setdefault((row["study_id"], *(row["image_paths"] or [])), (row, []))
            study[1].append({**row, "answer": None, "answer_type": None, PLACE: (place := place + 1)})
    checks.finish_split(split)
    return [
        Study(
            first["study_id"],
            first["subject_id"],
            split,
            tuple(
                files.root / name if image is None else Path(image["path"])
                for image, name in zip(first["images"] or [], first["image_paths"] or [], strict=True)
            ),
            tuple(first["views"] or []),
            tuple(rows),
            first["indication"],
        )
        for first, rows in found.values()
    ]


def _read_file(options: DataOptions) -> EvaluationData:
    path = options.data
    if path.suffix == ".gz" or (path.suffix == ".csv" and _is_authors_layout(path)):
        governance = open_release(path.parent).governance if (path.parent / MANIFEST).exists() else None
        batches = read_authors_csv(path, options.split, tolerant=True)
        studies = _group_authors_rows(batches, "first", options.split, options.image_root)
    elif path.suffix in (".csv", ".jsonl"):
        rows = list(read_csv_rows(path) if path.suffix == ".csv" else read_json_rows(path))
        stated = [parse(str(row["governance"]), str(path)) for _, row in rows if set(row) == {"governance"}]
        governance = stated[0] if stated else None
        root = options.image_root or path.parent
        studies = group_rows([pair for pair in rows if set(pair[1]) != {"governance"}], root, options.split)
        if governance is not None:
            ids = (row["qa_id"] for study in studies for row in study.rows)
            check_minimum_class(governance, minimum_class_for_ids(ids), str(path), "a question id of MIMIC's range")
    else:
        raise InputError(f"{path} is not a file of questions. Expected a dataset folder, a .csv or a .jsonl file.")
    if not studies:
        raise InputError(f"{path} does not have a question. Check the file.")
    described = {"source": path.name, "fingerprint": digest_file(path)[:16]}
    return EvaluationData(studies, governance or Governance.CREDENTIALED, "sentence", described)


def _is_authors_layout(path: Path) -> bool:
    """Whether the CSV file has the authors' columns and no id of its own."""
    names = set(column_names(path))
    return names.issuperset(AUTHORS) and names.isdisjoint(IDS)
