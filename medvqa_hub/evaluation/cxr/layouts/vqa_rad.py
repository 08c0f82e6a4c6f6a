"""VQA-RAD: 2,248 questions about 315 radiology images of MedPix (Lau et al., Scientific Data 2018, osf.io/89kps).

    VQA_RAD Dataset Public.json     a list of {qid, phrase_type, image_name, image_organ, question, question_type,
                                    answer, answer_type, …}
    VQA_RAD Image Folder/           synpic54610.jpg …

`phrase_type` marks the test set (`test_freeform`, `test_para`: 451 questions). A validation set does not exist. The
licence is CC0 1.0 according to its page at the Open Science Framework.
"""

from pathlib import Path

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_hub.evaluation.cxr.layouts.layout import Layout, group_by_image, make_row_from_record, records
from medvqa_hub.evaluation.cxr.studies import Study

QUESTIONS, IMAGES = "VQA_RAD Dataset Public.json", "VQA_RAD Image Folder"
FIELDS = ("qid", "phrase_type", "image_name", "question", "question_type", "answer", "answer_type")


def read(folder: Path, split: str, image_root: Path | None) -> tuple[list[Study], list[Path]]:
    """Read `train` or `test`. Raises InputError."""
    path = folder / QUESTIONS
    if split not in ("train", "test"):
        raise InputError(f"VQA-RAD does not have a {split} split. It has train and test.")
    rows = []
    for record in records(path, FIELDS):
        if str(record["phrase_type"]).startswith("test") is not (split == "test"):
            continue
        row = make_row_from_record(
            record, f"vqa-rad-{record['qid']}", "question_type", f"{path}, question {record['qid']}"
        )
        rows.append((str(record["image_name"]).strip(), row))
    return group_by_image(rows, split, image_root or folder / IMAGES, str(path)), [path]


LAYOUT = Layout("VQA-RAD", Governance.OPEN, "CC0 1.0", "short", read)
