"""Columns, categories and label values of MIMIC-CXR-VQA.

A *study* is a row with report sections, 14 CheXpert labels and images. A *question* is a row per (study, category,
question number). A *QA* row is a question with its answer and the answer's provenance.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CHEXPERT_LABELS = (
    "Atelectasis",
    "Cardiomegaly",
    "Consolidation",
    "Edema",
    "Enlarged Cardiomediastinum",
    "Fracture",
    "Lung Lesion",
    "Lung Opacity",
    "No Finding",
    "Pleural Effusion",
    "Pleural Other",
    "Pneumonia",
    "Pneumothorax",
    "Support Devices",
)
HEART = "Heart"  # the 15th category (paper, Section 3.1): positive where the findings contain the word "heart"
NO_FINDING = "No Finding"
CATEGORIES = (*CHEXPERT_LABELS, HEART)

# CheXpert label value -> its name in the rows (paper, Table 2).
LABEL_VALUES = {1: "positive", 0: "negative", -1: "uncertain", None: "not_mentioned"}

SPLITS = ("train", "validate", "test")  # as in MIMIC-CXR's split file

# ViewPosition and its aliases -> the three views of the multi-view model.
CANONICAL_VIEWS = {"AP": "AP", "PA": "PA", "LAT": "LAT", "LATERAL": "LAT", "LL": "LAT", "L": "LAT"}


def canonical_view(view: str | None) -> str | None:
    """Return `AP`, `PA` or `LAT` for a ViewPosition or an alias in any case, None for other views."""
    return CANONICAL_VIEWS.get(view.strip().upper()) if view else None


def category_slug(category: str) -> str:
    """Return the form for ids and file names: `Pleural Effusion` -> `pleural_effusion`."""
    return category.lower().replace(" ", "_")


LABELS_TYPE = pa.struct([(label, pa.int8()) for label in CHEXPERT_LABELS])
IMAGES_TYPE = pa.list_(pa.struct([("path", pa.string()), ("dicom_id", pa.string()), ("view", pa.string())]))

STUDY_SCHEMA = pa.schema(
    [
        ("subject_id", pa.int64()),
        ("study_id", pa.int64()),
        ("split", pa.string()),
        ("findings", pa.string()),  # null: no findings section, so the study lacks questions
        ("impression", pa.string()),
        ("indication", pa.string()),
        ("labels", LABELS_TYPE),  # 1 | 0 | -1 | null each
        ("images", IMAGES_TYPE),  # path relative to the image root; `view` as in the source
    ]
)

QUESTION_SCHEMA = pa.schema(
    [
        ("qa_id", pa.string()),  # s<study>-<category slug>-<question number 1..6>
        ("subject_id", pa.int64()),
        ("study_id", pa.int64()),
        ("split", pa.string()),
        ("category", pa.string()),
        ("label_value", pa.string()),
        ("question", pa.string()),
        ("indication", pa.string()),
        ("images", pa.list_(pa.string())),  # paths relative to the image root
        ("views", pa.list_(pa.string())),  # aligned with `images`
    ]
)

LABEL_CONFLICT = "label_conflict"  # in a row's `provenance.lint`: the answer contradicts its label


def has_flag(provenance: pa.StructArray, flag: str) -> pa.BooleanArray:
    """Return which rows have `flag` in the lint rules of their provenance."""
    lint = pc.struct_field(provenance, "lint")
    found = np.zeros(len(lint), bool)
    hits = pc.fill_null(pc.equal(pc.list_flatten(lint), flag), False)
    found[pc.list_parent_indices(lint).filter(hits).to_numpy()] = True
    return pa.array(found)


PROVENANCE_TYPE = pa.struct(
    [
        ("engine", pa.string()),
        ("model", pa.string()),
        ("revision", pa.string()),
        ("prompt_version", pa.string()),
        ("temperature", pa.float32()),
        ("seed", pa.int64()),
        ("attempts", pa.int8()),
        ("lint", pa.list_(pa.string())),  # rules that the answer breaks, then flags (generation/lint.py)
    ]
)

QA_SCHEMA = pa.schema(
    [
        *[QUESTION_SCHEMA.field(n) for n in QUESTION_SCHEMA.names[:7]],
        pa.field("answer", pa.string()),
        pa.field("answer_type", pa.string()),  # open | closed
        *[QUESTION_SCHEMA.field(n) for n in QUESTION_SCHEMA.names[7:]],
        pa.field("provenance", PROVENANCE_TYPE),
    ]
)
