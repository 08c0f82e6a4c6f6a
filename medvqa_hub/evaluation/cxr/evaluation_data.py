"""What an evaluation asks about: a split of MIMIC-CXR-VQA in any of its forms, or of a public dataset (`--layout`)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_hub.evaluation.cxr.layouts.registry import open_layout
from medvqa_hub.evaluation.cxr.studies import Study, load_studies
from mimic_cxr_vqa.release import open_release

if TYPE_CHECKING:
    from medvqa_hub.evaluation.cxr.evaluating import CxrOptions

SPLIT_ALIASES = {"validation": "validate", "val": "validate", "valid": "validate"}


@dataclass(frozen=True)
class EvaluationData:
    """Attributes:
    style: of the answers, see `prompts.STYLES`.
    described: where the studies come from, for results.
    """

    studies: list[Study]
    governance: Governance
    style: str
    described: dict[str, Any]


def open_data(options: "CxrOptions") -> EvaluationData:
    """The studies that the options name.

    Raises:
        ConfigError: no images where they are needed, or an unknown layout.
        InputError: the dataset or its split is not there or not usable.
    """
    split = SPLIT_ALIASES.get(options.split, options.split)
    needs_images = options.predictions is None
    if options.layout is not None:
        found = open_layout(
            options.layout, options.data, split, options.image_root, options.limit, options.missing_images, needs_images
        )
        described = {"source": found.layout.title, "licence": found.layout.licence, "fingerprint": found.fingerprint}
        return EvaluationData(found.studies, found.layout.governance, found.layout.style, described)
    release = open_release(options.data)
    studies = load_studies(release, split, options.image_root, options.limit, options.missing_images)
    if needs_images and any(path is None for study in studies for path in study.images):
        raise ConfigError("no images: pass --image-root (the folder that holds files/), or set MIMIC_CXR_JPG_ROOT")
    source = release.manifest.get("source", "the authors' release")
    return EvaluationData(
        studies, release.governance, "sentence", {"source": source, "fingerprint": release.fingerprint}
    )
