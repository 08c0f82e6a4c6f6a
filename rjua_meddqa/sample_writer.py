"""Writes the bundled config `sample`: a few synthetic reports.

python -m rjua_meddqa.sample_writer rjua_meddqa/sample
"""

import shutil
import sys
import tempfile
from pathlib import Path

from medvqa_core.files import atomic_folder
from rjua_meddqa.data_folder import KIND
from rjua_meddqa.phantom.folder import write_phantom

REPORTS = 14
SEED = 1854772  # all kinds of reports, image types and qualities, also in the demo's six


def write_sample(folder: Path) -> None:
    """Write or replace the sample. Raises OutputError if `folder` holds something else or cannot be written."""
    with tempfile.TemporaryDirectory() as scratch:
        reports = Path(scratch, "reports")
        write_phantom(reports, REPORTS, seed=SEED)
        with atomic_folder(folder, KIND) as partial:
            shutil.copytree(reports, partial, dirs_exist_ok=True)


if __name__ == "__main__":
    write_sample(Path(sys.argv[1]))
