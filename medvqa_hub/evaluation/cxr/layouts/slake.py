"""SLAKE, its English half: questions about 642 CT, MRI and X-ray images (Liu et al., ISBI 2021, med-vqa.com/slake).

    train.json, validate.json (validation.json on the Hub), test.json     lists of {qid, img_name, question, answer,
                                                                          q_lang, answer_type, content_type, …}
    imgs/xmlab384/source.jpg …                                            (imgs.zip on the Hub, unpacked)

The licence is CC BY 4.0 according to the dataset's card (BoKelvin/SLAKE). It requires attribution, so the class is
share-alike.
"""

from pathlib import Path

from medvqa_core.governance import Governance
from medvqa_hub.evaluation.cxr.layouts.layout import Layout, group_by_image, make_row_from_record, records
from medvqa_hub.evaluation.cxr.studies import Study

FILES = {"train": ("train.json",), "validate": ("validate.json", "validation.json"), "test": ("test.json",)}
IMAGES, ENGLISH = "imgs", "en"
FIELDS = ("qid", "img_name", "question", "answer", "q_lang", "answer_type", "content_type")


def read(folder: Path, split: str, image_root: Path | None) -> tuple[list[Study], list[Path]]:
    """Read a split with one study per image. Raises InputError."""
    names = FILES[split]
    path = next((folder / name for name in names if (folder / name).is_file()), folder / names[0])
    rows = []
    for record in records(path, FIELDS):
        if record["q_lang"] != ENGLISH:
            continue
        row = make_row_from_record(
            record, f"slake-{record['qid']}", "content_type", f"{path}, question {record['qid']}"
        )
        rows.append((str(record["img_name"]), row))
    return group_by_image(rows, split, image_root or folder / IMAGES, str(path)), [path]


LAYOUT = Layout("SLAKE (English)", Governance.SHARE_ALIKE, "CC BY 4.0", "short", read)
