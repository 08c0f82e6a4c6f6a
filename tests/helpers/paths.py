"""Where things are, for tests: the repository, its golden values, and the real data, which is never part of it."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "tests" / "golden"
HELPERS = REPOSITORY / "tests" / "helpers"
MODEL_PACKAGES = tuple(sorted(file.parent.name for file in (REPOSITORY / "models").glob("*/__init__.py")))
PACKAGES = ("medvqa_core", "mimic_cxr_vqa", "rjua_meddqa", "medvqa_hub", "hub_cards", *MODEL_PACKAGES)
REAL_DATA = Path(os.environ.get("MEDVQA_REAL_DATA", REPOSITORY.parent / "shared" / "data"))
