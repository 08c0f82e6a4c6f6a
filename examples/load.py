"""The release as a dataset, with a row per question or a row per study."""

import sys
from pathlib import Path

from datasets import load_dataset

import mimic_cxr_vqa  # noqa: F401 - importing registers the builder

out = Path(sys.argv[1])
questions = load_dataset("mimic_cxr_vqa", data_dir=str(out / "cxr"), split="train")
print(questions)
print(questions[0]["question"], "->", questions[0]["answer"])

studies = load_dataset(
    "mimic_cxr_vqa", "studies", data_dir=str(out / "cxr"), image_root=str(out / "phantom"), split="train"
)
study = studies[0]
print(f"study {study['study_id']}: views {study['views']}, {len(study['questions'])} questions")
print("first image:", study["images"][0].size, study["images"][0].mode)
