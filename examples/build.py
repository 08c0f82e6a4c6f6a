"""From studies to a released dataset, like `medvqa-hub cxr phantom|questions|answer|release`."""

import sys
from pathlib import Path

from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.phantom.tree import write_phantom
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.sources.physionet import read_studies
from mimic_cxr_vqa.workspace import Workspace

out = Path(sys.argv[1])
tree, workspace = out / "phantom", Workspace(out / "cxr")

write_phantom(tree, studies=40, seed=1, size=72)  # a tree in the layout of MIMIC-CXR-JPG
manifest = write_questions(read_studies(tree), workspace, seed=0)
counts = answer_questions(workspace, ExtractiveEngine())  # resumes an interrupted run
write_release(workspace)
print(f"{manifest['counts']['questions']} questions, {counts['answered']} answered; the release: {workspace.release}")
