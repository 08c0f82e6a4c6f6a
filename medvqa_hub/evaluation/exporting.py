"""What an evaluation gives to other people's tools: questions as VLMEvalKit's TSV, figures as the Hub's result entries.

vlmevalkit     OUT/NAME.tsv (index, id, image_path, question, answer, category, A … where there are options) and
               OUT/manifest.json with its class. `index` counts from 0 in the order of the dataset, as VLMEvalKit
               wants it; `id` comes back in its prediction file, which `evaluate … --predictions` reads.
eval results   FOLDER/.eval_results/NAME.yaml: what a model's repository on the Hub says of its evaluations, in the
               form of huggingface_hub's EvalResultEntry.
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
from medvqa_hub.evaluation.cxr.evaluation_data import EvaluationData
from medvqa_hub.evaluation.cxr.prompts import StudyPrompt
from rjua_meddqa.inference.questions import QuestionSet

KIND, FORMAT = "vlmevalkit-tsv", 1
FOLDER = ".eval_results"
CXR_METRICS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "cider", "bertscore")
SHORT_METRICS = ("closed_accuracy", "open_recall", "exact")


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
    """The questions of a split; each with the text that stands below its images in our own prompt."""
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
    """The questions of a folder of RJUA-MedDQA data; their options stand in the question, as released."""
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
    """Write OUT/NAME.tsv and its manifest; returns the table's path.

    Raises:
        InputError: a question has no image.
        OutputError: `out` holds something else, or cannot be written.
    """
    rows = list(rows)
    letters = sorted({letter for row in rows for letter in row.options})
    with atomic_folder(out, KIND, governance.private) as folder:
        with atomic_file(folder / f"{name}.tsv", "w", governance.private) as file:
            table = csv.writer(file, delimiter="\t", lineterminator="\n")
            table.writerow(["index", "id", "image_path", "question", "answer", "category", *letters])
            for index, row in enumerate(rows):
                if not row.images:
                    raise InputError(f"question {row.id} has no image, and VLMEvalKit asks about images; unpack them")
                shown = row.images[0] if len(row.images) == 1 else str(list(row.images))  # as VLMEvalKit reads lists
                options = [row.options.get(letter, "") for letter in letters]
                table.writerow([index, row.id, shown, row.question, row.answer, row.category, *options])
        counts = {"questions": len(rows)}
        write_manifest(folder, {"kind": KIND, "format": FORMAT, "governance": str(governance), "counts": counts})
    return out / f"{name}.tsv"


def result_entries(results: dict[str, Any], dataset_id: str, revision: str | None = None) -> list[Any]:
    """EvalResultEntry of each figure of a results.json; those that do not exist are left out.

    Args:
        dataset_id: the dataset's repository on the Hub; results name folders of this machine, which are none.
        revision: of that repository.

    Raises:
        InputError: the results are of no evaluation, or hold no figure.
    """
    from huggingface_hub import EvalResultEntry

    figures, notes = _figures(results)
    entries = [
        EvalResultEntry(dataset_id, name, value, dataset_revision=revision, notes=notes)
        for name, value in figures.items()
        if value is not None
    ]
    if not entries:
        raise InputError("the results hold no figure; evaluate again")
    return entries


def write_entries(entries: Sequence[Any], folder: Path, name: str) -> Path:
    """Write entries to FOLDER/.eval_results/NAME.yaml. Raises OutputError."""
    from huggingface_hub import eval_result_entries_to_yaml

    path = folder / FOLDER / f"{name}.yaml"
    with atomic_file(path, "w") as file:
        file.write(yaml.safe_dump(eval_result_entries_to_yaml(list(entries)), sort_keys=False, allow_unicode=True))
    return path


def export_entries(run: Path, folder: Path, dataset_id: str, revision: str | None = None) -> Path:
    """Write the entries of a run's results.json into a model's folder; the file is named after the dataset.

    Raises:
        ConfigError: `dataset_id` is no OWNER/NAME.
        InputError: no such run or model folder.
        OutputError: the file cannot be written.
    """
    owner, _, name = dataset_id.partition("/")
    if not owner or not name or "/" in name:
        raise ConfigError(f"--dataset-id {dataset_id!r}: a repository on the Hub is OWNER/NAME")
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name the model's, as it goes to the Hub")
    results = read_object(run / "results.json", "name a folder that medvqa-hub evaluate wrote")
    return write_entries(result_entries(results, dataset_id, revision), folder, name)


def _figures(results: dict[str, Any]) -> tuple[dict[str, float | None], str]:
    """Task id -> value, and what they were made with, in a line."""
    if results.get("kind") == "cxr-evaluation":
        scored = results["scored_with"]
        figures = {name: results["table_4"].get(name) for name in CXR_METRICS}
        if "findings" in results:
            figures |= {f"finding_{name}": results["findings"][name] for name in ("accuracy", "balanced_accuracy")}
        figures |= {name: results.get("short_answers", {}).get(name) for name in SHORT_METRICS}
        data, counts = results["data"], results["counts"]
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
    raise InputError(f"results of kind {results.get('kind')!r}; allowed: cxr-evaluation and meddqa-evaluation")
