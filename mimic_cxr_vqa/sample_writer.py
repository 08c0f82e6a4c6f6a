"""Writes the bundled config `sample`, a small synthetic release with its images.

python -m mimic_cxr_vqa.sample_writer mimic_cxr_vqa/sample
"""

import shutil
import sys
import tempfile
from pathlib import Path

from medvqa_core.files import atomic_folder
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.phantom.tree import MARKER, write_phantom
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.sources.physionet import read_studies
from mimic_cxr_vqa.workspace import RELEASE_KIND, Workspace

STUDIES = 40
IMAGE_SIZE = 320  # keeps the bundle below 3 MB
SEED = 0


def write_sample(folder: Path) -> None:
    """Write the sample release to `folder`, replacing an earlier one.

    Raises:
        OutputError: `folder` holds something else, or cannot be written.
    """
    with tempfile.TemporaryDirectory() as scratch:
        tree, workspace = Path(scratch, "phantom"), Workspace(Path(scratch, "cxr"))
        write_phantom(tree, STUDIES, seed=SEED, size=IMAGE_SIZE)
        write_questions(read_studies(tree), workspace, SEED)
        answer_questions(workspace, ExtractiveEngine())
        write_release(workspace)
        with atomic_folder(folder, RELEASE_KIND) as partial:
            shutil.copytree(workspace.release, partial, dirs_exist_ok=True)
            shutil.copytree(tree / "files", partial / "files", ignore=shutil.ignore_patterns("*.txt"))
            shutil.copy(tree / MARKER, partial)


if __name__ == "__main__":
    write_sample(Path(sys.argv[1]))
