"""Small phantom builds for tests: a drawn tree, its workspace and its release."""

from dataclasses import dataclass
from pathlib import Path

from mimic_cxr_vqa.generation.answers import answer_questions, load_engine
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.phantom.tree import write_phantom
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.sources.physionet import read_studies
from mimic_cxr_vqa.workspace import Workspace


@dataclass(frozen=True)
class Build:
    tree: Path
    workspace: Workspace
    manifest: dict


def build_release(folder: Path, studies: int = 24, seed: int = 0, size: int = 64, **release_options) -> Build:
    """Everything from drawing to the release, below `folder`."""
    tree, workspace = folder / "tree", Workspace(folder / "cxr")
    write_phantom(tree, studies, seed=seed, size=size)
    write_questions(read_studies(tree), workspace, seed)
    answer_questions(workspace, load_engine("extractive"))
    return Build(tree, workspace, write_release(workspace, **release_options))
