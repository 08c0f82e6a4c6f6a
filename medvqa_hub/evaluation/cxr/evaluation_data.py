"""The questions of an evaluation: a split of MIMIC-CXR-VQA, or of a public dataset (`--layout`)."""

from dataclasses import dataclass
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_hub.evaluation.cxr.layouts.registry import open_layout
from medvqa_hub.evaluation.cxr.options import DataOptions
from medvqa_hub.evaluation.cxr.studies import Study, load_studies
from mimic_cxr_vqa.release import open_release

SPLIT_ALIASES = {"validation": "validate", "val": "validate", "valid": "validate"}


@dataclass(frozen=True)
class EvaluationData:
    """Attributes:
    style: of the answers, see `prompts.STYLES`.
    described: source of the studies, for the results.
    """

    studies: list[Study]
    governance: Governance
    style: str
    described: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for study in self.studies for row in study.rows]


def open_data(options: DataOptions, needs_images: bool = True) -> EvaluationData:
    """Load the studies that the options name.

    Raises:
        ConfigError: images are needed and not given, or the layout is unknown.
        InputError: the dataset or its split is missing or not usable.
    """
    split = SPLIT_ALIASES.get(options.split, options.split)
    if options.layout is not None:
        found = open_layout(options, split, needs_images)
        described = {"source": found.layout.title, "licence": found.layout.licence, "fingerprint": found.fingerprint}
        return EvaluationData(found.studies, found.layout.governance, found.layout.style, described)
    release = open_release(options.data)
    studies = load_studies(release, split, options.image_root, options.limit, options.missing_images)
    if needs_images and any(path is None for study in studies for path in study.images):
        raise ConfigError("No images are given. Pass --image-root (the folder with files/) or set MIMIC_CXR_JPG_ROOT.")
    source = release.manifest.get("source", "the authors' release")
    described = {"source": source, "fingerprint": release.fingerprint}
    return EvaluationData(studies, release.governance, "sentence", described)
