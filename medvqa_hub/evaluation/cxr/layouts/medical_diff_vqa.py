"""Medical-Diff-VQA: questions about a study of MIMIC-CXR and what changed since another (Hu et al., KDD 2023).

    mimic_pair_questions.csv    study_id, subject_id, ref_id, question_type, question, answer, split (train, val, test)
    mimic_all.csv               subject_id, study_id, dicom_id, view (postero-anterior, antero-posterior), …: the image
                                of each study

See physionet.org/content/medical-diff-vqa/1.0.0 (DOI 10.13026/5jes-bx23). Images are those of MIMIC-CXR-JPG,
files/p10/p10000032/s50414267/DICOM_ID.jpg below the image root. Questions of type `difference` are about the main and
the reference image, all others about the main image. Questions with the answer yes or no are closed. The data are
credentialed (PhysioNet Credentialed Health Data License 1.5.0).
"""

import os
from pathlib import Path

from medvqa_core.csv_files import iterate_cells
from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_hub.evaluation.cxr.layouts.layout import Layout, make_row
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.answer_types import CLOSED, OPEN
from mimic_cxr_vqa.release import IMAGE_VARIABLE, find_image_prefix

QUESTIONS, STUDIES = "mimic_pair_questions.csv", "mimic_all.csv"
COLUMNS = ("study_id", "subject_id", "ref_id", "question_type", "question", "answer", "split")
SPLIT_NAMES = {"train": "train", "validate": "val", "test": "test"}
VIEWS = {"antero-posterior": "AP", "postero-anterior": "PA"}
DIFFERENCE = "difference"


def read(folder: Path, split: str, image_root: Path | None) -> tuple[list[Study], list[Path]]:
    """Read a split. A pair with both kinds of questions becomes two studies. Raises InputError."""
    path, named = folder / QUESTIONS, os.environ.get(IMAGE_VARIABLE)
    root = image_root or (Path(named) if named else folder)
    images = _images(folder / STUDIES, find_image_prefix(root))
    of_pair: dict[tuple[str, str, bool], list[dict]] = {}
    patients: dict[str, str] = {}
    for number, cells in iterate_cells(path, COLUMNS):
        if cells["split"] != SPLIT_NAMES[split]:
            continue
        answer = cells["answer"].strip()
        pair = (cells["study_id"], cells["ref_id"], cells["question_type"] == DIFFERENCE)
        row = make_row(
            f"diff-vqa-{cells['study_id']}-{number}",
            cells["question_type"],
            cells["question"],
            answer,
            CLOSED if answer.lower() in ("yes", "no") else OPEN,
        )
        of_pair.setdefault(pair, []).append(row)
        patients[cells["study_id"]] = cells["subject_id"]
    studies = []
    for (study, reference, is_difference), rows in of_pair.items():
        wanted = (study, reference) if is_difference else (study,)
        lacking = [id for id in wanted if id not in images]
        if lacking:
            raise InputError(f"{folder / STUDIES} lacks the image of study {lacking[0]}. Copy the dataset again.")
        paths, views = zip(*(images[id] for id in wanted), strict=True)
        named_roles = zip(("main image", "reference image, of an earlier or later study"), views, strict=False)
        captions = tuple(f"{role} ({view or 'view not stated'})" for role, view in named_roles)
        name = f"{study}-{reference}" if is_difference else study
        studies.append(Study(name, patients[study], split, paths, views, tuple(rows), None, captions))
    return _merge_same(studies), [path, folder / STUDIES]


def _images(path: Path, root: Path) -> dict[str, tuple[Path, str | None]]:
    """Image and view of each study."""
    found = {}
    for number, cells in iterate_cells(path, ("subject_id", "study_id", "dicom_id", "view")):
        subject, study = cells["subject_id"], cells["study_id"]
        if not (subject.isdecimal() and study.isdecimal()) or "/" in cells["dicom_id"]:
            raise InputError(f"{path}, row {number}: the ids are not those of an image. Copy the dataset again.")
        place = root / f"p{subject[:2]}" / f"p{subject}" / f"s{study}" / f"{cells['dicom_id']}.jpg"
        found[study] = (place, VIEWS.get(cells["view"].strip().lower(), cells["view"].strip() or None))
    return found


def _merge_same(studies: list[Study]) -> list[Study]:
    """Merge studies with one image, whatever the reference of their pair."""
    merged: dict[int | str, Study] = {}
    for study in studies:
        before = merged.get(study.study_id)
        rows = study.rows if before is None else (*before.rows, *study.rows)
        merged[study.study_id] = Study(**{**vars(study), "rows": rows})
    return list(merged.values())


LAYOUT = Layout(
    "Medical-Diff-VQA", Governance.CREDENTIALED, "PhysioNet Credentialed Health Data License 1.5.0", "short", read
)
