"""The dataset card of a data folder: metadata for the Hub and plain `load_dataset(folder)`, and a page for people."""

from pathlib import Path

import hub_cards
from medvqa_core.files import atomic_file
from medvqa_core.governance import Governance
from rjua_meddqa.data_folder import QUESTIONS, REASONING, DataFolder
from rjua_meddqa.statistics import summarise_folder

LICENSES = {
    Governance.OPEN: {"license": "apache-2.0"},
    Governance.SHARE_ALIKE: {"license": "cc-by-nc-sa-4.0"},
    Governance.CREDENTIALED: {"license": "other", "license_name": "not-to-be-passed-on"},
}
SPLIT = "test"


def write_card(folder: DataFolder) -> Path:
    """Write `README.md` into a data folder.

    Raises:
        InputError: the folder has no annotations, or a file cannot be read.
        OutputError: the card cannot be written.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    parts = [part for part in (QUESTIONS, REASONING) if part in folder.files]  # one loader takes one format: JSON lines
    statistics = summarise_folder(folder).to_json()
    data = DatasetCardData(
        **LICENSES[folder.governance],
        pretty_name="RJUA-MedDQA",
        language="zh",
        task_categories=["visual-question-answering", "document-question-answering"],
        tags=["medical", "medical reports", "ocr", f"governance-{folder.governance}"],
        configs=[
            {"config_name": part, "data_files": [{"split": SPLIT, "path": folder.files[part].name}]} for part in parts
        ],
    )
    card = DatasetCard.from_template(
        data,
        template_path=str(hub_cards.template_path("rjua_meddqa")),
        source=folder.manifest.get("source", "the authors' sample"),
        governance=str(folder.governance),
        statistics=statistics,
        questions_total=sum(row["questions"] for row in statistics["questions"]),
        generated=folder.manifest.get(QUESTIONS),
        reasoning=folder.manifest.get(REASONING),
    )
    path = folder.root / "README.md"
    with atomic_file(path, "w") as file:
        file.write(str(card).rstrip() + "\n")
    return path
