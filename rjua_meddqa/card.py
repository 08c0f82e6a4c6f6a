"""The dataset card of a data folder, with metadata for the Hub and plain `load_dataset(folder)`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import hub_cards
from hub_cards.dataset_info import CardConfig, describe_configs, describe_json_lines, size_category
from medvqa_core.digests import digest, digest_file
from medvqa_core.files import atomic_file
from medvqa_core.governance import Governance
from rjua_meddqa.data_folder import ANNOTATIONS, CONTEXTS, IMAGES, QUESTIONS, REASONING, DataFolder
from rjua_meddqa.schema import Annotation
from rjua_meddqa.statistics import summarise_folder

LICENSES = {
    Governance.OPEN: {"license": "apache-2.0"},
    Governance.SHARE_ALIKE: {"license": "cc-by-nc-sa-4.0"},
    Governance.NO_DERIVATIVES: {"license": "other", "license_name": "not-to-be-passed-on"},
    Governance.CREDENTIALED: {"license": "other", "license_name": "not-to-be-passed-on"},
}
SPLIT = "test"
CARD = "README.md"
MARK = "card written by medvqa-hub"  # in a comment; files without it are not overwritten
CONFIGURATIONS = {
    QUESTIONS: ("entity", "table", "table_nr", "questions"),
    REASONING: ("reasoning_mc", "reasoning_sa"),
    ANNOTATIONS: ("annotations",),
    CONTEXTS: ("contexts",),
}


def write_card(
    folder: DataFolder, annotations: Iterable[Annotation] | None = None, configs: Sequence[CardConfig] = ()
) -> Path | None:
    """Write `README.md` into a data folder.

    Args:
        annotations: of the images. By default, those in the folder.
        configs: of shards with images, instead of the text files.

    Returns:
        The card, or None if the folder has another `README.md`, which is kept.

    Raises:
        InputError: annotations are missing, or a file cannot be read.
        OutputError: a file cannot be written.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    path = folder.root / CARD
    if path.is_file() and MARK.encode() not in path.read_bytes():
        return None
    # A loader takes one format, JSON lines, and rejects an empty file.
    parts = [part for part in (QUESTIONS, REASONING) if part in folder.files and folder.files[part].stat().st_size]
    statistics = summarise_folder(folder, annotations).to_json()
    questions = sum(row["questions"] for row in statistics["questions"])
    if configs:
        shards = sorted({path for config in configs for paths in config.files.values() for path in paths})
        described = describe_configs(configs, digest("".join(map(digest_file, shards)))[:16])
    else:
        described = describe_json_lines({part: folder.files[part] for part in parts}, SPLIT)
    data = DatasetCardData(
        **LICENSES[folder.governance],
        pretty_name=f"RJUA-MedDQA ({folder.source})",
        language="zh",
        task_categories=["visual-question-answering", "document-question-answering"],
        tags=["medical", "medical reports", "ocr", f"governance-{folder.governance}"]
        + ["synthetic"] * (folder.governance is Governance.OPEN),
        task_ids=["visual-question-answering", "document-question-answering"],
        size_categories=[size_category(questions)],
        **described,
    )
    card = DatasetCard.from_template(
        data,
        template_path=str(hub_cards.template_path("rjua_meddqa")),
        source=folder.source,
        drafted=folder.drafted,
        governance=str(folder.governance),
        mark=MARK,
        statistics=statistics,
        questions_total=questions,
        generated=folder.manifest.get(QUESTIONS),
        reasoning=folder.manifest.get(REASONING),
        configurations=[name for part, names in CONFIGURATIONS.items() if part in folder.files for name in names],
        has_images=(folder.root / IMAGES).is_dir(),
        embedded=bool(configs),
    )
    with atomic_file(path, "w") as file:
        file.write(str(card).rstrip() + "\n")
    return path
