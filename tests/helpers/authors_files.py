"""Small files in the authors' CSV layout."""

import csv
import gzip
from pathlib import Path

from mimic_cxr_vqa.authors_csv import COLUMNS, read_authors_csv

HEADER = ",".join(COLUMNS) + "\n"
CANONICAL = HEADER + (
    "0,p90000001,s95000001,Is Edema observed?,Yes,Edema,1.0,cough,p90/a.jpg,PA\n"
    '1,p90000001,s95000001,Is the heart size normal?,"No, ""large"".",heart,1.0,,"p90/a.jpg,p90/b.jpg","PA,"\n'
    '2,p90000001,s95000001,Is a Fracture visible?,"None\nseen.",Fracture,,fever,p90/a.jpg,\n'
    "3,p90000002,s95000002,Is Pneumonia observed?,error,Pneumonia,-1.0,,,\n"
    "4,p90000002,s95000002,Is Edema present?,Possibly.,Edema,0.0,,,\n"
)


def read(path: Path, split: str = "train") -> list[dict]:
    return [row for batch in read_authors_csv(path, split) for row in batch.to_pylist()]


def save(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def write_row(path: Path, **cells: str) -> Path:
    """A file with a good row and, in row 3, the good row with `cells` in its place."""
    good = dict(zip(COLUMNS, next(csv.reader([CANONICAL.split("\n")[1]])), strict=True))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows([good, {**good, **cells}])
    return path
