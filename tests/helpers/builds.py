"""Small phantom builds for tests: a drawn tree, its workspace and its release."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
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
    answer_questions(workspace, ExtractiveEngine())
    return Build(tree, workspace, write_release(workspace, **release_options))


def describe_again(folder: Path) -> None:
    """Make a manifest describe the files of its folder as they are now: for damage that shows in other ways."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in manifest["files"]:
        data = (folder / name).read_bytes()
        manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    path.write_text(json.dumps(manifest))
