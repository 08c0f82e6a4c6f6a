"""From studies to a released dataset in five calls: what `medvqa-hub cxr phantom|questions|answer|release` do."""

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
counts = answer_questions(workspace, ExtractiveEngine())  # goes on where it stopped
write_release(workspace)
print(f"{manifest['counts']['questions']} questions, {counts['answered']} answered; the release: {workspace.release}")
