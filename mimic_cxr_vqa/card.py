"""The dataset card of a release, with the metadata that the Hub and `load_dataset(folder)` use."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hub_cards
from hub_cards.dataset_info import CardConfig, describe_configs, size_category
from medvqa_core.governance import Governance
from mimic_cxr_vqa.schema import QA_SCHEMA, STUDY_SCHEMA

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
HUB_SPLITS = {"train": "train", "validate": "validation", "test": "test"}  # as `datasets` names them
# Sources whose licence LICENSES has, by their class. Only its maintainers know the licence of any other source.
LICENSED_SOURCES = {
    "phantom": Governance.OPEN,
    "openi": Governance.NO_DERIVATIVES,
    "physionet": Governance.CREDENTIALED,
}
OTHER_LICENSE = {"license": "other", "license_name": "that-of-the-source"}  # the Hub requires a name
SOURCE_TITLES = {"phantom": "synthetic studies", "openi": "Open-i", "physionet": "MIMIC-CXR"}
CARD = "README.md"


def find_configs(folder: Path) -> list[CardConfig]:
    """Return the configs of a release folder: `default` (a row per question) and `studies`."""
    from datasets import Features

    found = []
    for name, table, schema in (("default", "qa", QA_SCHEMA), ("studies", "studies", STUDY_SCHEMA)):
        files = {hub: sorted((folder / table).glob(f"{split}-*.parquet")) for split, hub in HUB_SPLITS.items()}
        features = Features.from_arrow_schema(schema)
        found.append(CardConfig(name, table, features, {s: f for s, f in files.items() if f}, default=table == "qa"))
    return found


def write_card(
    folder: Path,
    manifest: Mapping[str, Any],
    content: str,
    statistics: Mapping[str, Any],
    configs: Sequence[CardConfig],
    has_images: bool = False,
) -> None:
    """Write `<folder>/README.md` for a release with this manifest.

    Args:
        content: from `hub_cards.dataset_info.content_digest`. `load_dataset(folder)` caches by the folder and the
            card's configs. With the content in the configs, every release has its own cache.
        statistics: from `Statistics.to_json`.
        has_images: whether the images are in the rows of the config `studies`.
    """
    title = SOURCE_TITLES.get(manifest["source"], manifest["source"])
    governance = Governance(manifest["governance"])
    is_licensed = LICENSED_SOURCES.get(manifest["source"]) is governance
    metadata: dict[str, Any] = dict(
        **(LICENSES[governance] if is_licensed else OTHER_LICENSE),
        pretty_name=f"MIMIC-CXR-VQA ({title})",
        task_ids=["visual-question-answering"],
        size_categories=[size_category(manifest["counts"]["rows"])],
        tags=["medical", "radiology", "chest-x-ray", f"governance-{manifest['governance']}"]
        + ["synthetic"] * (manifest["source"] == "phantom"),
        **describe_configs(configs, content),
    )
    judged = _judged(manifest.get("validation"))
    texts = {"statistics": statistics, "judged": judged, "source_title": title}
    texts |= {"is_licensed": is_licensed, "has_images": has_images}
    text = render_card("mimic_cxr_vqa", metadata, **texts, **manifest)
    (folder / CARD).write_text(text, encoding="utf-8")


def render_card(template: str, metadata: Mapping[str, Any], **texts: Any) -> str:
    """Return a card with `metadata` above the template of `hub_cards`."""
    from huggingface_hub import DatasetCard, DatasetCardData

    data = DatasetCardData(language="en", task_categories=["visual-question-answering"], **metadata)
    card = DatasetCard.from_template(data, template_path=str(hub_cards.template_path(template)), **texts)
    return str(card).rstrip() + "\n"


def _judged(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Table 3 (`judging/table3.py`) as cells: the raters, and a row per category of each dimension."""
    if not found:
        return None
    people, sample = found.get("people"), found.get("sample")
    who = [f"{people['raters']} people rated {people['items']} answers."] if people else []
    who += [f"The judge `{found['judge']['name']}` rated {sample['pairs']:,} answers."] if sample else []
    if problem := (found.get("judge") or {}).get("not_independent"):
        who.append(f"**Not independent**: {problem}.")
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
    """A share and its interval as two cells."""
    return (f"{row[name]:.1%}", f"{100 * row['low']:.1f}-{100 * row['high']:.1f}") if row else ("-", "-")
