"""`croissant.json` of a release: its files, columns and responsible-AI fields."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from hub_cards.croissant import FILE, Records, describe
from medvqa_core.governance import Governance
from medvqa_core.json_files import write_json
from mimic_cxr_vqa.schema import QA_SCHEMA, STUDY_SCHEMA

LICENSE_LINKS = {
    Governance.OPEN: "https://www.apache.org/licenses/LICENSE-2.0",
    Governance.SHARE_ALIKE: "https://creativecommons.org/licenses/by-nc-sa/4.0/",
    Governance.NO_DERIVATIVES: "https://creativecommons.org/licenses/by-nc-nd/4.0/",
    Governance.CREDENTIALED: "https://physionet.org/content/mimic-cxr/view-license/2.1.0/",
}
_PEOPLE = {
    Governance.OPEN: "None. Images and reports are synthetic, and the rows do not describe a patient.",
    Governance.NO_DERIVATIVES: "Derived from de-identified radiology reports of Open-i. Adaptations are not shared.",
}
_CREDENTIALED = (
    "Derived from de-identified radiology reports of patients. Only people who have signed the source's data use "
    "agreement may have the rows. Identifying patients is forbidden. Models trained on the rows can repeat report text."
)
CITATION = (
    "MIMIC-CXR-VQA: A Medical Visual Question Answering Dataset Constructed with LLaMA-based Annotations. Under "
    "review, MIDL 2026. Not the template-based dataset of the same name (Bae et al., EHRXQA)."
)


def write_croissant(folder: Path, manifest: Mapping[str, Any], shards: Mapping[str, Any], url: str) -> None:
    """Write `<folder>/croissant.json`.

    Args:
        shards: name -> bytes and sha256 (`minimum_class.describe_files`).
        url: of the dataset, or a URN of its content.
    """
    governance = Governance(manifest["governance"])
    counts, answers = manifest["counts"], manifest["answers"]
    about = {
        "name": "mimic_cxr_vqa",
        "description": f"{counts['rows']:,} question-answer pairs about chest radiographs in 15 categories, built from "
        f"{manifest['source']}. This is not the template-based dataset of the same name (Bae et al., EHRXQA).",
        "license": LICENSE_LINKS[governance],
        "url": url,
        "citeAs": CITATION,
    }
    tables = {
        "qa": Records("qa/*.parquet", "A row per question with its answer.", _fields(QA_SCHEMA)),
        "studies": Records("studies/*.parquet", "A row per study with its report's sections.", _fields(STUDY_SCHEMA)),
    }
    write_json(folder / FILE, describe(about, shards, tables, _rai(manifest, governance, answers)))


def _rai(manifest: Mapping[str, Any], governance: Governance, answers: Mapping[str, Any]) -> dict[str, str]:
    judged = manifest.get("validation")
    return {
        "dataCollection": f"Radiology reports, labels and image paths of the source {manifest['source']}. No new data "
        "was collected.",
        "dataCollectionType": "Secondary Data Analysis",
        "dataPreprocessingProtocol": "Reports are split into sections. Studies without findings are left out. "
        f"Questions are drawn with seed {manifest['seed']}: six for every stated label, four of not-mentioned "
        "categories for every positive label.",
        "dataAnnotationProtocol": f"Answers are written from the report by {answers['engine']}, model "
        f"{answers['model']} (revision {answers['revision']}), prompt {answers['prompt_version']}; the wording rules "
        "that an answer breaks are in its provenance.",
        "machineAnnotationTools": f"{answers['engine']}: {answers['model']}",
        "dataAnnotationAnalysis": "Judged and reviewed. The card has the results with their intervals."
        if judged
        else "This release has not been reviewed by people.",
        "dataBiases": "Labels come from an automatic labeler on the reports of one source, and categories and label "
        "values are as frequent as in the source. Questions about findings that a report omits "
        "are labelled not mentioned.",
        "dataLimitations": "English, 15 categories, one source. Answers follow the report, which may differ from the "
        "image. Not for clinical use.",
        "dataUseCases": "Training and evaluating visual question answering on chest radiographs, in research.",
        "dataSocialImpact": "A model that answers fluently can be wrong, and can harm patients if it is used in care "
        "without testing.",
        "personalSensitiveInformation": _PEOPLE.get(governance, _CREDENTIALED),
        "dataReleaseMaintenancePlan": "A release can be rebuilt from its source with the same commands, and its "
        "files can be compared by sha256.",
    }


def _fields(schema: pa.Schema) -> dict[str, tuple[str, bool]]:
    """The columns with plain types: numbers, texts and lists of texts."""
    found = {}
    for field in schema:
        repeated = pa.types.is_list(field.type)
        value = field.type.value_type if repeated else field.type
        if pa.types.is_integer(value):
            found[field.name] = ("int", repeated)
        elif pa.types.is_string(value):
            found[field.name] = ("text", repeated)
    return found
