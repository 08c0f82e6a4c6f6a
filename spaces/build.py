"""Builds a Space from this folder's files and the packages that the explorer imports.

    python spaces/build.py out/space
    python -m venv out/space-env && out/space-env/bin/pip install -r out/space/requirements.txt
    out/space-env/bin/python out/space/app.py

Upload the folder with `huggingface_hub.upload_folder(repo_type="space", …)`. The packages are copied, because
installing them would also install torch, which the explorer does not need.
"""

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = ("hub_cards", "medvqa_core", "medvqa_hub", "mimic_cxr_vqa", "rjua_meddqa")
FILES = ("README.md", "app.py", "requirements.txt")
KIND = ".medvqa-space"  # marks the output of this script


def build(out: Path) -> None:
    """Write the Space to `out`, or replace an earlier one."""
    if out.exists() and any(out.iterdir()) and not (out / KIND).exists():
        sys.exit(f"{out} is not empty and was not written by this script. Choose another folder.")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / KIND).touch()
    for name in FILES:
        shutil.copy(HERE / name, out / name)
    for name in PACKAGES:
        shutil.copytree(HERE.parent / name, out / name, ignore=shutil.ignore_patterns("__pycache__"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python spaces/build.py FOLDER")
    build(Path(sys.argv[1]))
    print(f"Space: {sys.argv[1]}")
