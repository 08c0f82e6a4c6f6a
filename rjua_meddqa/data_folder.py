"""A folder of RJUA-MedDQA data: which file is which, where its images are, and its governance class.

Layout, every file optional: `images/`, `annotations.csv`, `questions.jsonl`, `reasoning.jsonl`, `contexts.csv`,
`manifest.json`; or the released names, with or without `sampled_` in front. A folder without a manifest is the
authors' release: share-alike.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError, OutputError
from medvqa_core.files import MANIFEST, join_under
from medvqa_core.governance import Governance, check_not_lowered
from medvqa_core.json_files import find_manifest, write_manifest

SAMPLE_DIR = Path(__file__).parent / "sample"  # bundled synthetic reports, in the layout above
KIND = "meddqa"  # what the manifest says the folder is
ANNOTATIONS, QUESTIONS, REASONING, CONTEXTS = "annotations", "questions", "reasoning", "contexts"
DRAFT = "draft"  # source of annotations, in the manifest: a program wrote them, and nobody has corrected them
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
    """What a folder holds; see `open_folder`.

    Attributes:
        files: {part: file} for the parts that are there.
        manifest: empty for the authors' release.
    """

    root: Path
    files: dict[str, Path]
    governance: Governance
    manifest: dict[str, Any]

    @property
    def source(self) -> str:
        """Where its images come from, in words."""
        unknown = "data of unnamed source" if self.manifest else "the authors' release"
        return self.manifest.get("source", unknown)

    @property
    def drafted(self) -> bool:
        """Whether its annotations, or those that its questions were made of, are drafts that nobody has corrected."""
        parts = {part: self.manifest.get(part) for part in (ANNOTATIONS, QUESTIONS, REASONING)}
        found = {part: details for part, details in parts.items() if isinstance(details, dict)}
        made_of = [details.get("source" if part == ANNOTATIONS else ANNOTATIONS) for part, details in found.items()]
        return DRAFT in made_of

    def file(self, part: str) -> Path:
        """The file of `part`. Raises InputError where the folder has none."""
        if part not in self.files:
            raise InputError(
                f"{self.root}: no {part} there; looked for {', '.join(_names(part))}; "
                "copy the file there or choose another folder"
            )
        return self.files[part]

    def fingerprint(self) -> str:
        """A digest of all files and the manifest: what a cache of rows depends on."""
        digest = hashlib.sha256()
        paths = [*self.files.values(), *([self.root / MANIFEST] if self.manifest else [])]
        for path in sorted(paths):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
        return digest.hexdigest()[:32]


def open_folder(root: Path) -> DataFolder:
    """Look at a folder of data.

    Raises:
        InputError: there is no such folder, it holds two files for one part, or its manifest is broken.
        GovernanceError: the manifest names an unknown class.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; pass the folder that holds the annotations and images/")
    files = {}
    for part in OUR_NAMES:
        found = [root / name for name in _names(part) if (root / name).is_file()]
        if len(found) > 1:
            raise InputError(f"{root}: both {found[0].name} and {found[1].name} are {part}; keep one of them there")
        if found:
            files[part] = found[0]
    manifest = find_manifest(root, "copy it again")
    governance = Governance(manifest["governance"]) if manifest else Governance.SHARE_ALIKE
    return DataFolder(root, files, governance, manifest)


def find_image(roots: tuple[Path, ...], relative: str, where: str) -> Path | None:
    """The file of an `img_path` below the first of `roots` that has it; None where none has.

    Raises:
        InputError: the path leaves its root.
    """
    paths = [join_under(root, relative, where) for root in roots]
    return next((path for path in paths if path.is_file()), None)


def image_roots(root: Path, image_root: Path | None = None) -> tuple[Path, ...]:
    """Folders that image paths start from: `image_root` if given, else `images/` of the folder, then itself.

    Raises:
        InputError: `image_root` is no folder.
    """
    if image_root is not None:
        if not image_root.is_dir():
            raise InputError(f"image root {image_root}: no such folder; pass the folder that holds the images")
        return image_root / IMAGES, image_root
    return root / IMAGES, root


def record_part(root: Path, part: str, governance: Governance, details: dict[str, Any], source: str = "") -> Path:
    """Note in the manifest of `root` that `part` is written there, by what settings; the class is never lowered.

    Called before the file is written: data without its class is worse than a class without data.

    Args:
        source: where the images come from, for a folder that does not say so itself.

    Returns:
        The manifest.

    Raises:
        GovernanceError: the folder's class is stricter than `governance`.
        OutputError: the folder is another step's result, or the manifest cannot be written.
    """
    found = open_folder(root)
    manifest = dict(found.manifest)
    if manifest.get("kind", KIND) != KIND:
        raise OutputError(f"{root} is of kind {manifest['kind']!r}, not {KIND!r}; choose another folder")
    if manifest or found.files or (root / IMAGES).is_dir():  # files without a manifest have a class too
        check_not_lowered(found.governance, governance, f"the data in {root}")
    if source:
        manifest.setdefault("source", source)
    manifest |= {"kind": KIND, "governance": str(governance), part: details}
    write_manifest(root, manifest, end="")
    return root / MANIFEST


def _names(part: str) -> list[str]:
    released = RELEASED_NAMES[part]
    return [OUR_NAMES[part], *(PREFIX + name for name in released), *released]
