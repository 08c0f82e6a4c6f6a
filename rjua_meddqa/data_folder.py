"""A folder of RJUA-MedDQA data: its files, its images and its governance class.

Every file is optional: `images/`, `annotations.csv`, `questions.jsonl`, `reasoning.jsonl`, `contexts.csv`,
`manifest.json`, or the released names, with or without `sampled_` in front. A folder without a manifest is the
authors' release, which is share-alike.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import GovernanceError, InputError, OutputError
from medvqa_core.files import MANIFEST, join_under
from medvqa_core.governance import Governance, check_not_lowered
from medvqa_core.json_files import find_manifest, write_manifest

SAMPLE_DIR = Path(__file__).parent / "sample"  # bundled synthetic reports
KIND = "meddqa"  # in the manifest
ANNOTATIONS, QUESTIONS, REASONING, CONTEXTS = "annotations", "questions", "reasoning", "contexts"
DRAFT = "draft"  # source of annotations in the manifest: written by a program and not corrected
IMAGES = "images"
OUR_NAMES = {
    ANNOTATIONS: "annotations.csv",
    QUESTIONS: "questions.jsonl",
    REASONING: "reasoning.jsonl",
    CONTEXTS: "contexts.csv",
}
RELEASED_NAMES = {
    ANNOTATIONS: ("image_content_kv_table_annotation.csv",),
    QUESTIONS: ("image_content_vqa.json", "image_content_vqa.jsonl"),
    REASONING: ("clinical_reasoning_vqa.json", "clinical_reasoning_vqa.jsonl"),
    CONTEXTS: ("context_base.csv",),
}
PREFIX = "sampled_"


@dataclass(frozen=True)
class DataFolder:
    """The content of a folder, from `open_folder`.

    Attributes:
        files: {part: file} for the existing parts.
        manifest: empty for the authors' release.
    """

    root: Path
    files: dict[str, Path]
    governance: Governance
    manifest: dict[str, Any]

    @property
    def source(self) -> str:
        """The source of its images, in words."""
        return self.manifest.get("source", "data of unnamed source" if self.manifest else "the authors' release")

    @property
    def drafted(self) -> bool:
        """Whether its annotations, or those behind its questions, are uncorrected drafts."""
        for part in (ANNOTATIONS, QUESTIONS, REASONING):
            details = self.manifest.get(part)
            key = "source" if part == ANNOTATIONS else ANNOTATIONS
            if isinstance(details, dict) and details.get(key) == DRAFT:
                return True
        return False

    def file(self, part: str) -> Path:
        """The file of `part`. Raises InputError if the folder has none."""
        if part not in self.files:
            raise InputError(
                f"{self.root}: {part} not found (looked for {', '.join(_names(part))}). Copy the file into the folder "
                "or choose another folder."
            )
        return self.files[part]

    def fingerprint(self) -> str:
        """A digest of all files and the manifest, for caches."""
        digest = hashlib.sha256()
        paths = [*self.files.values(), *([self.root / MANIFEST] if self.manifest else [])]
        for path in sorted(paths):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
        return digest.hexdigest()[:32]


def open_folder(root: Path) -> DataFolder:
    """Open a data folder.

    Raises:
        InputError: the folder does not exist, has two files for one part, or has a broken manifest.
        GovernanceError: the class in the manifest is unknown.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder. Pass the folder with the annotations and images/.")
    files = {}
    for part, found in find_parts(root).items():
        if len(found) > 1:
            raise InputError(f"{root}: both {found[0].name} and {found[1].name} are {part}. Remove one of them.")
        files[part] = found[0]
    manifest = find_manifest(root, "copy it again")
    governance = Governance(manifest["governance"]) if manifest else Governance.SHARE_ALIKE
    return DataFolder(root, files, governance, manifest)


def find_parts(root: Path) -> dict[str, list[Path]]:
    """The existing files of each part, which are several if the part has more than one of its names."""
    found = {part: [root / name for name in _names(part) if (root / name).is_file()] for part in OUR_NAMES}
    return {part: paths for part, paths in found.items() if paths}


def find_class(images: Path) -> Governance:
    """The class of a folder of images, or of one image: that of its data folder.

    Images outside of a data folder are `credentialed`, since they may be photographs of real patients.
    """
    folder = images if images.is_dir() else images.parent
    for root in (folder, folder.parent):
        if (root == folder or folder.name == IMAGES) and root.is_dir():
            found = open_folder(root)
            is_release = any(path.name not in OUR_NAMES.values() for path in found.files.values())
            if found.manifest or is_release:
                return found.governance
    return Governance.CREDENTIALED


def choose_class(images: Path, stated: Governance | None) -> Governance:
    """`stated`, or the class of the images if it is None.

    Raises:
        GovernanceError: `stated` is weaker than the class of the images.
    """
    found = find_class(images)
    if stated is not None and stated.level < found.level:
        raise GovernanceError(
            f"--governance {stated}: the images in {images} are {found}. Pass {found} or a stricter class. To share "
            f"images of your own, put them into a data folder whose manifest declares their class"
        )
    return stated or found


def find_image(roots: tuple[Path, ...], relative: str, where: str) -> Path | None:
    """Find an `img_path` below the first of `roots` that has it. Raises InputError if the path leaves its root."""
    paths = [join_under(root, relative, where) for root in roots]
    return next((path for path in paths if path.is_file()), None)


def image_roots(root: Path, image_root: Path | None = None) -> tuple[Path, ...]:
    """Where image paths start: in `image_root`, by default `images/` of the data folder, then the folder itself.

    Raises:
        InputError: `image_root` does not exist.
    """
    if image_root is not None and not image_root.is_dir():
        raise InputError(f"image root {image_root}: no such folder. Pass the folder with the images.")
    root = image_root or root
    return root / IMAGES, root


def record_part(root: Path, part: str, governance: Governance, details: dict[str, Any], source: str = "") -> Path:
    """Record `part` and its settings in the manifest of `root`, before the file itself is written.

    Args:
        source: of the images, if the folder has none.

    Returns:
        The manifest.

    Raises:
        GovernanceError: the folder's class is stricter than `governance`.
        OutputError: the folder is of another kind, or the manifest cannot be written.
    """
    found = open_folder(root)
    manifest = dict(found.manifest)
    if manifest.get("kind", KIND) != KIND:
        raise OutputError(f"{root} is of kind {manifest['kind']!r}, not {KIND!r}. Choose another folder.")
    if manifest or found.files or (root / IMAGES).is_dir():  # files without a manifest have a class as well
        check_not_lowered(found.governance, governance, f"the data in {root}")
    if source:
        manifest.setdefault("source", source)
    manifest |= {"kind": KIND, "governance": str(governance), part: details}
    write_manifest(root, manifest, end="")
    return root / MANIFEST


def _names(part: str) -> list[str]:
    released = RELEASED_NAMES[part]
    return [OUR_NAMES[part], *(PREFIX + name for name in released), *released]
