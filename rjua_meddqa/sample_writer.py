"""Writes the bundled `sample` configuration: a few synthetic reports as finished images, so that users need no font.

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
SEED = 1854772  # mixes all kinds of reports, image types and qualities; the demo's six show each of them


def write_sample(folder: Path) -> None:
    """Write the sample to `folder`, replacing an earlier one.

    Raises:
        ConfigError: there is no Chinese font.
        OutputError: `folder` holds something else, or cannot be written.
    """
    with tempfile.TemporaryDirectory() as scratch:
        reports = Path(scratch, "reports")
        write_phantom(reports, REPORTS, seed=SEED)
        with atomic_folder(folder, KIND) as partial:
            shutil.copytree(reports, partial, dirs_exist_ok=True)


if __name__ == "__main__":
    write_sample(Path(sys.argv[1]))
