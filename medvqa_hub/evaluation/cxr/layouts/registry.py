"""Registry of public datasets: `evaluate cxr --layout NAME`. Add a dataset as a file and a line in LAYOUTS."""

from dataclasses import dataclass

from medvqa_core.digests import digest, digest_file
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.registry import load_entry
from medvqa_hub.evaluation.cxr.layouts.layout import Layout
from medvqa_hub.evaluation.cxr.options import DataOptions
from medvqa_hub.evaluation.cxr.studies import Study, check_limit

LAYOUTS = {  # name -> module and Layout
    "vqa-rad": "medvqa_hub.evaluation.cxr.layouts.vqa_rad:LAYOUT",
    "slake": "medvqa_hub.evaluation.cxr.layouts.slake:LAYOUT",
    "medical-diff-vqa": "medvqa_hub.evaluation.cxr.layouts.medical_diff_vqa:LAYOUT",
    "rexvqa": "medvqa_hub.evaluation.cxr.layouts.rexvqa:LAYOUT",
}


@dataclass(frozen=True)
class PublicSet:
    """The studies of a split of a public dataset. `fingerprint` is a digest of the files with questions."""

    layout: Layout
    studies: list[Study]
    fingerprint: str


def open_layout(options: DataOptions, split: str, needs_images: bool = True) -> PublicSet:
    """Read a split of the public dataset `options.layout`.

    Raises:
        ConfigError: the layout is unknown, or `--limit` is below one.
        InputError: a file or an image is missing or broken, the split does not exist, or an id occurs twice.
    """
    name, folder = options.layout, options.data
    if name not in LAYOUTS:
        raise ConfigError(f"--layout {name!r} is unknown. Expected one of {', '.join(LAYOUTS)}.")
    layout: Layout = load_entry(LAYOUTS[name])
    check_limit(options.limit)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. Name the one that {layout.title} was unpacked to.")
    studies, files = layout.read(folder, split, options.image_root)
    if needs_images:
        studies = [study for study in studies if _has_images(study, options.missing_images)]
    studies = studies[: options.limit]
    if not studies:
        raise InputError(f"The {split} split of {layout.title} in {folder} has no question that can be used.")
    seen: set[str] = set()
    for study in studies:
        for row in study.rows:
            if row["qa_id"] in seen:
                raise InputError(f"{folder}: question {row['qa_id']} occurs twice. Copy the dataset again.")
            seen.add(row["qa_id"])
    whole = "\n".join(f"{path.name} {digest_file(path)}" for path in files)
    return PublicSet(layout, studies, digest(whole)[:16])


def _has_images(study: Study, missing_images: str) -> bool:
    absent = [path for path in study.images if path is None or not path.is_file()]
    if absent and missing_images == "error":
        raise InputError(
            f"Study {study.study_id}: image {absent[0]} is missing. Unpack the images, name their folder with "
            f"--image-root, or leave such studies out with --missing-images skip."
        )
    return not absent
