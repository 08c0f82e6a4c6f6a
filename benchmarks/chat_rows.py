"""100,000 conversations of 10,000 studies: `load_dataset(…, "chat")`, against a `map` that puts images into its rows.

The release is in the authors' CSV layout, ten questions to a study, each study with one image of 512 x 512 noise (some
100 KB as JPEG). Ours refers to the files. The baseline reads the rows with their image paths and writes images, prompt
and completion by `Dataset.map`, as one would without a thought: every row gets a copy of its study's image. It is given
a twentieth of the studies, and its cache is compared by the row. Each way runs in a fresh process with a fresh cache.
Peak memory is that of the process, libraries included. Both ways' first rows are compared.

Run: python benchmarks/chat_rows.py [--studies 10000]
"""

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from timing import measure_in_child, write_result

from mimic_cxr_vqa.question_list import QUESTIONS

QUESTIONS_PER_STUDY, BASELINE_SHARE = 10, 20
COMPARED = ("images", "prompt", "completion")
SIDE, KINDS = 512, 8  # of the images, and how many different ones there are


def write_data(folder: Path, studies: int) -> None:
    """CSV files and images. The studies' files are links to a few, which `load_dataset` cannot tell from copies."""
    import PIL.Image

    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for kind in range(KINDS):
        pixels = rng.normal(128, 20, (SIDE, SIDE)).clip(0, 255).astype(np.uint8)
        PIL.Image.fromarray(pixels).save(folder / f"{kind}.jpg", quality=90)
    asked = [("Edema", question) for question in QUESTIONS["Edema"]] + [("heart", q) for q in QUESTIONS["Heart"]]
    header = (
        "index,patient_id,study_id,question,answer,question_label,question_value,indication,image_path,view_position"
    )
    with open(folder / "train.csv", "w", encoding="utf-8") as file:
        file.write(header + "\n")
        for study in range(studies):
            patient, name = f"p{10_000_000 + study}", f"s{50_000_000 + study}"
            image = f"p10/{patient}/{name}/{study:08x}-0a1b2c3d-4e5f6071-8293a4b5-00000000.jpg"
            path = folder / "files" / image
            path.parent.mkdir(parents=True)
            os.link(folder / f"{study % KINDS}.jpg", path)
            for number, (label, question) in enumerate(asked[:QUESTIONS_PER_STUDY]):
                index = study * QUESTIONS_PER_STUDY + number
                answer = f"The radiograph of study {study} shows no sign of it beside what was known before."
                file.write(f"{index},{patient},{name},{question},{answer},{label},0.0,chest pain,{image},PA\n")


def load_ours(folder: str, cache: str) -> dict:
    os.environ.update(HF_HOME=cache, HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
    from datasets import load_dataset

    import mimic_cxr_vqa  # noqa: F401 - registers the builder

    return describe(load_dataset("mimic_cxr_vqa", "chat", data_dir=folder, image_root=folder, split="train"))


def load_by_map(folder: str, cache: str) -> dict:
    os.environ.update(HF_HOME=cache, HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
    from datasets import Features, load_dataset

    import mimic_cxr_vqa  # noqa: F401 - registers the builder
    from mimic_cxr_vqa.chat_rows import chat_features

    rows = load_dataset("mimic_cxr_vqa", data_dir=folder, split="train")
    features = {name: kind for name, kind in chat_features("question").items() if name in COMPARED}

    def put(row: dict) -> dict:
        images = [{"bytes": Path(folder, "files", path).read_bytes(), "path": path} for path in row["images"]]
        content = [{"type": "image"}] * len(images) + [{"type": "text", "text": row["question"]}]
        answer = [{"type": "text", "text": row["answer"]}]
        return {
            "images": images,
            "prompt": [{"role": "user", "content": content}],
            "completion": [{"role": "assistant", "content": answer}],
        }

    return describe(rows.map(put, remove_columns=rows.column_names, features=Features(features)))


def describe(rows) -> dict:
    first = rows[0]
    pixels = [image.tobytes() for image in first["images"]]
    return {"rows": len(rows), "first": [first["prompt"], first["completion"], [len(p) for p in pixels]]}


def cache_bytes(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.rglob("*.arrow"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=10_000)
    studies = parser.parse_args().studies
    figures, firsts = {}, []
    with tempfile.TemporaryDirectory() as place:
        for name, load, count in (("chat", load_ours, studies), ("map", load_by_map, studies // BASELINE_SHARE)):
            folder, cache = Path(place, name), Path(place, f"cache_{name}")
            write_data(folder, count)
            described, seconds, peak = measure_in_child(load, str(folder), str(cache))
            size = cache_bytes(cache)
            firsts.append(described["first"])
            figures[name] = {
                "rows": described["rows"],
                "studies": count,
                "seconds": round(seconds, 1),
                "peak_memory_mib": round(peak / 2**20),
                "cache_mib": round(size / 2**20, 1),
                "cache_bytes_a_row": round(size / described["rows"]),
            }
            print(name, figures[name])
            shutil.rmtree(cache)
            shutil.rmtree(folder)
    assert firsts[0] == firsts[1]
    ratio = figures["map"]["cache_bytes_a_row"] / figures["chat"]["cache_bytes_a_row"]
    print(f"cache a row: {ratio:.0f} times smaller")
    write_result("chat_rows", {**figures, "cache_ratio": round(ratio, 1), "image_side": SIDE})


if __name__ == "__main__":
    main()
