"""Export of questions as VLMEvalKit's TSV and of figures as the Hub's evaluation results.

vlmevalkit     OUT/NAME.tsv (index, id, image_path, question, answer, category, and A … for options) and
               OUT/manifest.json with its class. `index` counts from 0 in the order of the dataset. `id` is part of
               VLMEvalKit's file of predictions, which `evaluate … --predictions` reads.
eval results   FOLDER/.eval_results/NAME.yaml, in the format of huggingface_hub's EvalResultEntry.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import atomic_file, atomic_folder
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_object, write_manifest
from medvqa_core.metrics.caption_row import METRICS
from medvqa_core.metrics.meddqa_scores import TABLE_5
from medvqa_hub.evaluation.cxr.evaluation_data import EvaluationData
from medvqa_hub.evaluation.cxr.prompts import StudyPrompt
from rjua_meddqa.inference.questions import QuestionSet

KIND, FORMAT = "vlmevalkit-tsv", 1
FOLDER = ".eval_results"
SHORT_METRICS = ("closed_accuracy", "open_recall", "exact")
FINDING_METRICS = ("finding_accuracy", "finding_balanced_accuracy")
CLINICAL_METRICS = (
    "radgraph_simple", "radgraph_partial", "radgraph_complete", "f1chexbert_5_micro_f1", "f1chexbert_all_micro_f1",
    "f1chexbert_5_macro_f1", "f1chexbert_all_macro_f1",
)  # fmt: skip
CXR_TASKS = (*METRICS, *FINDING_METRICS, "challenge_score", *CLINICAL_METRICS)
MEDDQA_TASKS = tuple(f"{column}_{name}" for column, name in TABLE_5)


@dataclass(frozen=True)
class TsvRow:
    """One question; `images` are absolute paths."""

    id: str
    images: Sequence[str]
    question: str
    answer: str
    category: str
    options: dict[str, str]


def cxr_rows(data: EvaluationData) -> list[TsvRow]:
    """The questions of a split, each with the text of our own prompt."""
    prompt = StudyPrompt(data.style)
    return [
        TsvRow(
            row["qa_id"],
            [str(Path(str(path)).absolute()) for path in study.images],
            prompt.text(study, {**row, "options": None}),
            row["answer"],
            row["category"],
            dict(row.get("options") or {}),
        )
        for study in data.studies
        for row in study.rows
    ]


def meddqa_rows(questions: QuestionSet) -> list[TsvRow]:
    """The questions of a folder of RJUA-MedDQA data, with options in the question as released."""
    return [
        TsvRow(
            row.id,
            [] if row.image is None else [str(row.image.absolute())],
            f"{row.context}\n{row.question}".strip(),
            row.answer,
            f"{row.task}/{row.answer_type}",
            {},
        )
        for row in questions.rows
    ]


def write_tsv(rows: Iterable[TsvRow], out: Path, name: str, governance: Governance) -> Path:
    """Write OUT/NAME.tsv and its manifest, and return the path of the table.

    Raises:
        InputError: a question does not have an image.
        OutputError: `out` contains something else, or cannot be written.
    """
    rows = list(rows)
    letters = sorted({letter for row in rows for letter in row.options})
    with atomic_folder(out, KIND, governance.private) as folder:
        with atomic_file(folder / f"{name}.tsv", "w", governance.private) as file:
            table = csv.writer(file, delimiter="\t", lineterminator="\n")
            table.writerow(["index", "id", "image_path", "question", "answer", "category", *letters])
            for index, row in enumerate(rows):
                if not row.images:
                    raise InputError(f"The image of question {row.id} is missing. Unpack the images.")
                shown = row.images[0] if len(row.images) == 1 else str(list(row.images))  # as VLMEvalKit reads lists
                options = [row.options.get(letter, "") for letter in letters]
                table.writerow([index, row.id, shown, row.question, row.answer, row.category, *options])
        counts = {"questions": len(rows)}
        write_manifest(folder, {"kind": KIND, "format": FORMAT, "governance": str(governance), "counts": counts})
    return out / f"{name}.tsv"


def result_entries(results: dict[str, Any], dataset_id: str, revision: str | None = None) -> list[Any]:
    """EvalResultEntry of each figure of a results.json.

    Args:
        dataset_id: the dataset's repository on the Hub.
        revision: commit of that repository.

    Raises:
        InputError: the results are not those of an evaluation, or do not have figures.
    """
    from huggingface_hub import EvalResultEntry

    figures, notes = find_figures(results)
    if hashes := results.get("hashes"):
        notes += f", hashes: data {hashes['data']}, predictions {hashes['predictions']}"
    entries = [
        EvalResultEntry(dataset_id, name, value, dataset_revision=revision, notes=notes)
        for name, value in figures.items()
        if value is not None
    ]
    if not entries:
        raise InputError("The results do not contain figures. Evaluate again.")
    return entries


def write_entries(entries: Sequence[Any], folder: Path, name: str) -> Path:
    """Write entries to FOLDER/.eval_results/NAME.yaml. Raises OutputError."""
    from huggingface_hub import eval_result_entries_to_yaml

    path = folder / FOLDER / f"{name}.yaml"
    with atomic_file(path, "w") as file:
        file.write(yaml.safe_dump(eval_result_entries_to_yaml(list(entries)), sort_keys=False, allow_unicode=True))
    return path


def export_entries(run: Path, folder: Path, dataset_id: str, revision: str | None = None) -> Path:
    """Write the entries of a run's results.json into a model's folder, in a file named after the dataset.

    Raises:
        ConfigError: `dataset_id` is not OWNER/NAME.
        InputError: the run or the model's folder does not exist.
        OutputError: the file cannot be written.
    """
    owner, _, name = dataset_id.partition("/")
    if not owner or not name or "/" in name:
        raise ConfigError(f"--dataset-id {dataset_id!r} is not a repository on the Hub. Expected OWNER/NAME.")
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. Name the model's folder.")
    results = read_object(run / "results.json", "name a folder that medvqa-hub evaluate wrote")
    return write_entries(result_entries(results, dataset_id, revision), folder, name)


def find_figures(results: dict[str, Any]) -> tuple[dict[str, float | None], str]:
    """Figures by task id, and a line about how they were computed. Raises InputError for other results."""
    if results.get("kind") == "cxr-evaluation":
        scored = results["scored_with"]
        figures = {name: results["table_4"].get(name) for name in METRICS}
        if "findings" in results:
            figures |= {name: results["findings"][name.removeprefix("finding_")] for name in FINDING_METRICS}
        clinical = results.get("clinical", {}).get("scores", {})
        figures |= {name: clinical.get(name) for name in CLINICAL_METRICS}
        figures |= {name: results.get("short_answers", {}).get(name) for name in SHORT_METRICS}
        data, counts = results["data"], results["counts"]
        if "challenge" in results:
            figures = {"challenge_score": results["challenge"]["score"], **figures}
        how = f"{data['split']} split, {results['images']} images, profile {scored['profile']}"
        return (
            figures,
            f"{how}, failed answers: {counts['failed']} of {counts['questions']}, {scored['failed_answers']}",
        )
    if results.get("kind") == "meddqa-evaluation":
        counts = results["counts"]
        how = f"profile {results['scores']['profile']}, ROUGE-L on {results['scores']['units']}"
        return dict(
            results["scores"]["table_5"]
        ), f"{how}, failed answers: {counts['failed']} of {counts['asked']}, scored 0"
    raise InputError(f"The kind of results is {results.get('kind')!r}. Expected cxr-evaluation or meddqa-evaluation.")
