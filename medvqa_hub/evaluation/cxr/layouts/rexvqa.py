"""ReXVQA: multiple-choice questions about the chest radiographs of ReXGradient-160K (Pal et al., arXiv 2506.04353).

    metadata/{train,valid,test}_vqa_data.json    {question id: {study_id, question, options ["A. …", …], correct_answer
                                                 ("B"), task_name, category, ImagePath ["../deid_png/….png", …],
                                                 ImageViewPosition, Indication, PatientID, …}}
    deid_png/                                    of ReXGradient-160K, unpacked beside metadata/

This is the layout of huggingface.co/datasets/rajpurkarlab/ReXVQA. Both datasets are gated, and users agree not to share
the files, so the class is credentialed.
"""

import re
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import join_under
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_object
from medvqa_hub.evaluation.cxr.layouts.layout import Layout, check_record, make_row
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.answer_types import CLOSED

FILES = {"train": "train_vqa_data.json", "validate": "valid_vqa_data.json", "test": "test_vqa_data.json"}
METADATA, IMAGES = "metadata", "deid_png"
FIELDS = ("study_id", "question", "options", "correct_answer", "task_name", "ImagePath")
_OPTION = re.compile(r"\s*\(?([A-Z])[.):]\s*(.*\S)\s*", re.DOTALL)


def read(folder: Path, split: str, image_root: Path | None) -> tuple[list[Study], list[Path]]:
    """Read a split. Raises InputError."""
    path = folder / METADATA / FILES[split]
    root = image_root or folder / IMAGES
    of_study: dict[str, Study] = {}
    for id, record in read_object(path, "name the folder of the published dataset").items():
        where = f"{path}, question {id}"
        check_record(record, FIELDS, where)
        options = _options(record["options"], where)
        answer = str(record["correct_answer"]).strip()
        if answer not in options:
            raise InputError(f"{where}: the correct answer {answer!r} is not one of {', '.join(options)}.")
        row = make_row(
            f"rexvqa-{id}", str(record["task_name"]), str(record["question"]), answer, CLOSED, options=options
        )
        name = str(record["study_id"])
        study = of_study.get(name) or _study(name, split, record, root, where)
        of_study[name] = Study(**{**vars(study), "rows": (*study.rows, row)})
    return list(of_study.values()), [path]


def _study(name: str, split: str, record: dict[str, Any], root: Path, where: str) -> Study:
    paths = [record["ImagePath"]] if isinstance(record["ImagePath"], str) else record["ImagePath"]
    stated = record.get("ImageViewPosition") or []
    views = [stated] if isinstance(stated, str) else list(stated)
    views = views if len(views) == len(paths) else [None] * len(paths)
    images = tuple(join_under(root, _below(path), where) for path in paths)
    named = tuple(str(view) if view else None for view in views)
    return Study(name, str(record.get("PatientID") or name), split, images, named, (), record.get("Indication"))


def _below(path: str) -> str:
    """The path below the folder of the images, from `../deid_png/a/b.png`."""
    return path.rpartition(f"{IMAGES}/")[2] if f"{IMAGES}/" in path else path


def _options(stated: Any, where: str) -> dict[str, str]:
    """Letter -> text."""
    found = [_OPTION.fullmatch(str(option)) for option in stated] if isinstance(stated, list) else []
    options = {match[1]: match[2] for match in found if match}
    if len(options) < 2 or len(options) < len(found):
        raise InputError(f"{where}: options must be a list of 'A. …', 'B. …'. Copy the dataset again.")
    return options


LAYOUT = Layout(
    "ReXVQA", Governance.CREDENTIALED, "gated by its authors; images under ReXGradient-160K's agreement", "choice", read
)
