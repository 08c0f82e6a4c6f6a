"""Where things are, for tests: the repository, its golden values, and the real data, which is never part of it."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "tests" / "golden"
HELPERS = REPOSITORY / "tests" / "helpers"
REAL_DATA = Path(os.environ.get("MEDVQA_REAL_DATA", REPOSITORY.parent / "shared" / "data"))
