"""`medvqa-hub push dataset`: push releases of class `open` or `share-alike`, synthetic ones with their images.

`no-derivatives` and `credentialed` releases are refused, also for private and gated repositories. Their rebuild spec
can be shared instead (`push rebuild-spec`).
"""

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hub_cards.dataset_info import content_digest
from medvqa_core.errors import GovernanceError, InputError
from medvqa_core.files import MANIFEST
from medvqa_core.governance import Governance, check_publishable
from medvqa_core.image_shards import EXAMPLES, FOLDER
from medvqa_core.json_files import read_object
from medvqa_core.minimum_class import check_minimum_class
from medvqa_hub.evaluation.benchmark_file import FILE as EVAL
from medvqa_hub.evaluation.benchmark_file import make_benchmark_file
from medvqa_hub.publishing.model_folder import as_json, remove_local_paths
from medvqa_hub.publishing.push import DATASET, PushPlan, PushResult
from medvqa_hub.publishing.sending import Push, send
from medvqa_hub.publishing.staging import CARD, staged

_AGAIN = "Run medvqa-hub cxr release again."
_SHARD = re.compile(r"(qa|studies)/(train|validate|test)-\d{5}-of-\d{5}\.parquet")
_FROM_THE_HUB = """## From the Hub

```python
from datasets import load_dataset

rows = load_dataset("{repo_id}"{name}, split="{split}")
```

{images}{attribution}

## Use
"""
_ATTRIBUTION = (
    " Derived from RJUA-MedDQA (Jin et al., KDD 2024, CC BY-NC-SA 4.0), changed by medvqa-hub as described here; "
    "whoever passes it on names both and keeps the licence."
)


@dataclass(frozen=True)
class _Release:
    """The files of a release that are pushed, its card, and the names of files with images."""

    governance: Governance
    files: dict[str, Path | bytes]
    card: str
    image_tables: frozenset[str] = frozenset()


def push_dataset(
    options: Push,
    dry_run: bool = False,
    hub: Any = None,
    log: Callable[[str], None] = print,
    image_root: Path | None = None,
    processes: int = 1,
) -> PushResult | None:
    """Check, stage, scan and push a release. `dry_run` only prints what would be pushed.

    Args:
        options: with a release of MIMIC-CXR-VQA, its workspace, or a folder of RJUA-MedDQA data.
        image_root: phantom tree of a synthetic release, or folder of synthetic reports. Its images are drawn again and
            embedded in the rows.
        processes: number of drawing processes.

    Raises:
        ConfigError, OutputError: see `send`.
        GovernanceError: the class may not be pushed or is weaker than the content's, or the scan found something.
        InputError: the folder does not hold a release, or differs from its manifest.
    """
    from rjua_meddqa.data_folder import KIND

    folder, repo_id = options.folder, options.repo_id
    manifest = read_object(folder / MANIFEST, _AGAIN) if (folder / MANIFEST).is_file() else {}
    with tempfile.TemporaryDirectory(prefix="medvqa-push-") as made:
        if manifest.get("kind") == KIND:
            release = _read_meddqa(folder, repo_id, Path(made), image_root)
        else:
            release = _read_cxr(folder, repo_id, Path(made), image_root, processes)
        if not release.image_tables and release.governance is Governance.OPEN:
            log("The rows name their images but do not include them. --image-root embeds synthetic images.")
        plan = PushPlan(repo_id, DATASET, release.governance, public=options.public, version=options.version)
        name = "RJUA-MedDQA" if manifest.get("kind") == KIND else "MIMIC-CXR-VQA"
        files = {**release.files, CARD: release.card.encode(), EVAL: make_benchmark_file(release.card, name)}
        return send(files, plan, dry_run, hub, log, image_tables=release.image_tables)


def _read_cxr(folder: Path, repo_id: str, made: Path, image_root: Path | None, processes: int) -> _Release:
    """A release of MIMIC-CXR-VQA. Its shards must have exactly the columns of the schema.

    Args:
        made: empty folder for the files that are made.
    """
    from mimic_cxr_vqa import embedded_images
    from mimic_cxr_vqa.card import find_configs, write_card
    from mimic_cxr_vqa.minimum_class import describe_files
    from mimic_cxr_vqa.release import open_release
    from mimic_cxr_vqa.schema import QA_SCHEMA, STUDY_SCHEMA
    from mimic_cxr_vqa.statistics import summarise

    release = open_release(folder)
    check_publishable(release.governance, str(folder), "the Hub")
    if release.kind != "parquet":
        raise InputError(f"{folder} does not hold a release in Parquet. Run medvqa-hub cxr release.")
    manifest, files = remove_local_paths(release.manifest), {}
    for name in manifest["files"]:
        if name in (CARD, "croissant.json") or name.startswith(f"{FOLDER}/"):
            continue
        if not _SHARD.fullmatch(name):
            raise GovernanceError(
                f"{release.folder}: {name} is not a shard of a release, and only shards are pushed. {_AGAIN}"
            )
        schema = QA_SCHEMA if name.startswith("qa/") else STUDY_SCHEMA
        if pq.read_schema(release.folder / name).names != schema.names:
            raise GovernanceError(f"{release.folder / name} does not have the columns of a release. {_AGAIN}")
        files[name] = release.folder / name
    shards = {name: manifest["files"][name] for name in files}
    statistics = summarise(release.iterate_all(), manifest.get("label_counts")).to_json()
    configs = find_configs(release.folder)
    if image_root is not None:
        parameters = embedded_images.read_parameters(image_root)
        made_shards = embedded_images.write_shards(release, parameters, made, processes=processes)
        embedded_images.draw_examples(made, made / EXAMPLES)
        configs = embedded_images.list_configs(made_shards, release.files)
    with_images = describe_files(made, [path for path in made.rglob("*.p*") if path.is_file()])
    write_card(made, manifest, content_digest(shards | with_images), statistics, configs, bool(with_images))
    card = _with_hub_section(
        (made / CARD).read_text(encoding="utf-8"), repo_id, "", next(iter(release.files)), has_images=bool(with_images)
    )
    (made / CARD).write_text(card, encoding="utf-8")
    described = describe_files(made, [made / CARD])
    manifest = {**manifest, "files": {**shards, **with_images, **described}}
    files |= {name: made / name for name in with_images} | {MANIFEST: as_json(manifest)}
    return _Release(release.governance, files, card, frozenset(with_images))


def _read_meddqa(folder: Path, repo_id: str, made: Path, image_root: Path | None) -> _Release:
    """The texts of a folder of RJUA-MedDQA data, and the images of synthetic reports. Only these are open.

    Args:
        made: empty folder for the files that are made.
    """
    from rjua_meddqa import card as cards
    from rjua_meddqa import embedded_images
    from rjua_meddqa.data_folder import OUR_NAMES, open_folder

    found = open_folder(folder)
    drawn = "phantom" in found.manifest and found.source == "synthetic reports"
    floor = Governance.OPEN if drawn else Governance.SHARE_ALIKE
    governance = check_minimum_class(found.governance, floor, str(folder), f"the source {found.source!r}")
    check_publishable(governance, str(folder), "the Hub")
    other = [path.name for part, path in found.files.items() if path.name != OUR_NAMES[part]]
    if other or not found.files:
        raise InputError(f"{folder} holds {', '.join(other) or 'no data'}. Expected {', '.join(OUR_NAMES.values())}.")
    files: dict[str, Path | bytes] = {path.name: path for path in found.files.values()}
    files[MANIFEST] = as_json(remove_local_paths(found.manifest))
    configs = []
    if image_root is not None:
        configs = embedded_images.write_shards(found, embedded_images.read_parameters(image_root), made)
    tables = {path.relative_to(made).as_posix(): path for path in made.rglob("*.p*")}
    with staged(files, DATASET, governance) as folder_of_texts:
        cards.write_card(open_folder(folder_of_texts), configs=configs)
        card = (folder_of_texts / CARD).read_text(encoding="utf-8")
    names = [part for part in (cards.QUESTIONS, cards.REASONING) if part in found.files and not configs]
    name = f', "{names[0]}"' if names else ""
    card = _with_hub_section(card, repo_id, name, cards.SPLIT, governance, bool(configs))
    return _Release(governance, {**files, **tables}, card, frozenset(tables))


def _with_hub_section(
    card: str,
    repo_id: str,
    name: str,
    split: str,
    governance: Governance = Governance.OPEN,
    has_images: bool = False,
) -> str:
    attribution = _ATTRIBUTION if governance is Governance.SHARE_ALIKE else ""
    split = "validation" if split == "validate" else split
    images = "The images are in the rows." if has_images else "Rows name their images, which are not included."
    section = _FROM_THE_HUB.format(repo_id=repo_id, name=name, split=split, images=images, attribution=attribution)
    return card.replace("## Use\n", section, 1)
