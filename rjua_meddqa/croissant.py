"""`croissant.json` of a data folder: its tables and columns, and the responsible-AI fields.

Images are not described, because they may be in another folder.
"""

from hub_cards.croissant import FILE, Records, content_digest, describe
from medvqa_core.digests import digest_file
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_object, write_json
from rjua_meddqa.data_folder import ANNOTATIONS, CONTEXTS, QUESTIONS, REASONING, DataFolder
from rjua_meddqa.schema import ANNOTATION_COLUMNS, CONTEXT_COLUMNS, QUESTION_COLUMNS, REASONING_COLUMNS

NAME = "rjua_meddqa"
LICENSES = {
    Governance.OPEN: "https://www.apache.org/licenses/LICENSE-2.0",
    Governance.SHARE_ALIKE: "https://creativecommons.org/licenses/by-nc-sa/4.0/",
}
NOT_PASSED_ON = "Not to be passed on"
CITATION = (
    "Jin et al.: RJUA-MedDQA: A Multimodal Benchmark for Medical Document Question Answering and Clinical Reasoning. "
    "KDD 2024."
)
_NUMBERS = ("answer_length", "is_table")
_TABLES = {
    ANNOTATIONS: ("A row per image: key-value pairs and table as annotated.", ANNOTATION_COLUMNS),
    QUESTIONS: ("A row per question about an image's content.", QUESTION_COLUMNS),
    REASONING: ("A row per question of clinical reasoning.", REASONING_COLUMNS),
    CONTEXTS: ("A row per piece of medical knowledge.", CONTEXT_COLUMNS),
}


def write_croissant(folder: DataFolder, url: str | None = None) -> None:
    """Write `croissant.json` into a data folder, unless it has one of another dataset.

    Args:
        url: of the dataset. By default, a URN of its content.

    Raises:
        InputError: the existing file cannot be read.
        OutputError: the file cannot be written.
    """
    path = folder.root / FILE
    if path.is_file() and read_object(path, "remove it").get("name") != NAME:
        return
    files = {file.name: {"bytes": file.stat().st_size, "sha256": digest_file(file)} for file in folder.files.values()}
    tables = {
        part: Records(folder.files[part].name, text, {name: (_type_of(name), False) for name in columns})
        for part, (text, columns) in _TABLES.items()
        if part in folder.files
    }
    about = {
        "name": NAME,
        "description": f"Medical reports in Chinese, annotated and asked about, of {folder.source}: "
        f"{', '.join(tables)}; in the layout of RJUA-MedDQA.",
        "license": LICENSES.get(folder.governance, NOT_PASSED_ON),
        "url": url or f"urn:medvqa-hub:{NAME}:{content_digest(files)}",
        "citeAs": CITATION,
    }
    write_json(path, describe(about, files, tables, _rai(folder)))


def _type_of(column: str) -> str:
    return "int" if column in _NUMBERS else "text"


def _rai(folder: DataFolder) -> dict[str, str]:
    drawn = "phantom" in folder.manifest
    generated, reasoning = folder.manifest.get(QUESTIONS), folder.manifest.get(REASONING)
    made = [f"questions from templates (answers {generated['answers']}, seed {generated['seed']})"] if generated else []
    made += [f"reasoning with wrong options by {reasoning['encoder']} (seed {reasoning['seed']})"] if reasoning else []
    return {
        "dataCollection": "Reports are drawn by a program, with invented content; nothing was collected."
        if drawn
        else f"Images of medical reports: {folder.source}; nothing was collected anew.",
        "dataCollectionType": "Synthetic" if drawn else "Secondary Data Analysis",
        "dataAnnotationProtocol": f"Made by medvqa-hub: {'; '.join(made)}." if made else "As its authors annotated it.",
        "dataBiases": "Content is drawn from lists: how often a finding occurs is no clinic's."
        if drawn
        else "What the choice of reports brings with it; not measured here.",
        "dataLimitations": "Chinese; report images of a few layouts. Answers say what the page says. Not for clinical "
        "use.",
        "dataUseCases": "Evaluating question answering on medical documents, in research.",
        "dataSocialImpact": "A model that answers fluently can be wrong; used in care without testing it can harm.",
        "personalSensitiveInformation": "None: reports are drawn and their content is invented; no patient is behind "
        "any row."
        if drawn
        else "Reports of patients as the source released them; nobody may try to identify one.",
        "dataReleaseMaintenancePlan": "Files are compared by their sha256.",
    }
