"""The dataset card of a release: metadata that the Hub and plain `load_dataset(folder)` read, and a page for people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hub_cards
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
SOURCE_TITLES = {"phantom": "synthetic studies", "openi": "Open-i", "physionet": "MIMIC-CXR"}  # for people
CARD = "README.md"


def write_card(folder: Path, manifest: dict[str, Any], content: str, statistics: Mapping[str, Any]) -> None:
    """Write `<folder>/README.md` for a release with this manifest.

    Args:
        statistics: of `Statistics.to_json`: the paper's Tables 1 and 2, and the numbers of its Figure 1.
        content: of `hub_cards.croissant.content_digest`. Plain `load_dataset(folder)` caches under the folder's last
            name and a hash of the card's configurations: with the content in them, every release has a cache of its
            own.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    title = SOURCE_TITLES.get(manifest["source"], manifest["source"])
    data = DatasetCardData(
        **LICENSES[Governance(manifest["governance"])],
        pretty_name=f"MIMIC-CXR-VQA ({title})",
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
    template = str(hub_cards.template_path("mimic_cxr_vqa"))
    judged = _judged(manifest.get("validation"))
    texts = {"statistics": statistics, "judged": judged, "source_title": title}
    card = DatasetCard.from_template(data, template_path=template, **texts, **manifest)
    (folder / CARD).write_text(str(card).rstrip() + "\n", encoding="utf-8")


def _judged(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Table 3 (`validation/table3.py`) as cells: who rated, and a row per category of each dimension."""
    if not found:
        return None
    people, sample = found.get("people"), found.get("sample")
    who = [f"{people['raters']} people rated {people['items']} answers."] if people else []
    who += [f"The judge `{found['judge']['name']}` rated {sample['pairs']:,} answers."] if sample else []
    raters = list(next(iter(found["dimensions"].values()))["people"] or {})
    head = ["dimension", "category", "judge", "95%", "corrected", "95%", *raters]
    rows = [head, ["---"] * len(head)]
    for dimension, part in found["dimensions"].items():
        large, rated = part["large_scale"] or {}, part["people"] or {}
        for category in large or next(iter(rated.values()), {}):
            row = large.get(category) or {}
            cells = [*_share(row, "share"), *_share(row.get("corrected"), "rate")]
            rows.append([dimension, category, *cells, *(f"{rated[name][category]:.1%}" for name in raters)])
    return {"who": " ".join(who), "rows": rows}


def _share(row: Mapping[str, float] | None, name: str) -> tuple[str, str]:
    """A share and its interval."""
    return (f"{row[name]:.1%}", f"{100 * row['low']:.1f}-{100 * row['high']:.1f}") if row else ("-", "-")
