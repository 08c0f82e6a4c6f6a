"""The dataset card of a release: metadata that the Hub and plain `load_dataset(folder)` read, and a page for people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hub_cards
from medvqa_core.digests import digest
from medvqa_core.governance import Governance

LICENSES = {
    Governance.OPEN: {"license": "apache-2.0"},
    Governance.SHARE_ALIKE: {"license": "cc-by-nc-sa-4.0"},
    Governance.NO_DERIVATIVES: {"license": "cc-by-nc-nd-4.0"},
    Governance.CREDENTIALED: {
        "license": "other",
        "license_name": "physionet-credentialed-health-data-license-1.5.0",
        "license_link": "https://physionet.org/content/mimic-cxr/view-license/2.1.0/",
    },
}
HUB_SPLITS = {"train": "train", "validate": "validation", "test": "test"}  # the names that `datasets` users expect


CARD = "README.md"


def content_digest(files: Mapping[str, Mapping[str, Any]]) -> str:
    """16 hex digits of what the shards hold (`class_floor.describe_files`), wherever the folder lies."""
    lines = [f"{name} {described['sha256']}" for name, described in sorted(files.items())]
    return digest("\n".join(lines))[:16]


def write_card(folder: Path, manifest: dict[str, Any], content: str) -> None:
    """Write `<folder>/README.md` for a release with this manifest.

    Args:
        content: of `content_digest`. Plain `load_dataset(folder)` caches under the folder's last name and a hash of the
            card's configurations: with the content in them, every release has a cache of its own.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    data = DatasetCardData(
        **LICENSES[Governance(manifest["governance"])],
        pretty_name=f"MIMIC-CXR-VQA ({manifest['source']})",
        language="en",
        task_categories=["visual-question-answering"],
        tags=["medical", "radiology", "chest-x-ray", f"governance-{manifest['governance']}"],
        configs=[
            {
                "config_name": config,
                "description": f"content {content}",
                "data_files": [
                    {"split": HUB_SPLITS[split], "path": f"{table}/{split}-*.parquet"}
                    for split in sorted(manifest["splits"], key=list(HUB_SPLITS).index)
                ],
                **({"default": True} if config == "default" else {}),
            }
            for config, table in (("default", "qa"), ("studies", "studies"))
        ],
    )
    card = DatasetCard.from_template(data, template_path=str(hub_cards.template_path("mimic_cxr_vqa")), **manifest)
    (folder / CARD).write_text(str(card).rstrip() + "\n", encoding="utf-8")
