"""Results of `medvqa-hub evaluate cxr`, for the card and `.eval_results`."""

from pathlib import Path
from typing import Any

import yaml

from medvqa_core.errors import InputError
from medvqa_core.json_files import read_object
from medvqa_core.metrics.caption_row import METRICS
from medvqa_hub.evaluation.exporting import result_entries

FILES = {"": "results.json", "-shuffled": "results-shuffled.json", "-blank": "results-blank.json"}
IMAGES = {"own": "the study's own", "shuffled": "another patient's", "blank": "none (blank)"}
BREAKDOWN = ("bleu_4", "rouge_l", "bertscore")
_PARTS = ("data", "table_4", "counts", "findings", "by_category", "scored_with", "libraries", "images")
_AGAIN = "run medvqa-hub evaluate cxr again"


def read_results(folder: Path, fingerprint: str) -> list[dict[str, Any]]:
    """Read the results in a folder of scores, own images first.

    Raises:
        InputError: results are missing, or they belong to another model or to other questions.
    """
    found = {name: read_object(folder / name, _AGAIN) for name in FILES.values() if (folder / name).is_file()}
    if not found or not (folder / FILES[""]).is_file():
        raise InputError(f"{folder} has no {FILES['']}. Pass the output folder of medvqa-hub evaluate cxr.")
    for name, result in found.items():
        of = (result.get("model") or {}).get("fingerprint")
        if not names_model(of, fingerprint):
            raise InputError(
                f"{folder} has the scores of another model ({of}, expected {fingerprint}). Evaluate the model that is "
                "pushed."
            )
        missing = [part for part in _PARTS if part not in result]
        if missing:
            raise InputError(
                f"{folder / name} has no {missing[0]}. The card needs scores on MIMIC-CXR-VQA's questions: pass the "
                "output of medvqa-hub evaluate cxr --data, without --layout."
            )
    return list(found.values())


def names_model(name: str | None, fingerprint: str) -> bool:
    """Whether the model name of a run has this fingerprint.

    Engines add more: `weights … + adapter weights …, float32, …`. The fingerprint is at the end of the first part.
    """
    return (name or "").partition(",")[0].endswith(fingerprint)


def describe_results(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The values of the card's results section."""
    own = results[0]
    names = [name for name, value in own["table_4"].items() if value is not None]
    breakdown = [name for name in BREAKDOWN if name in names]
    by_finding = own["findings"]["by_category"]
    with_, libraries = own["scored_with"], own["libraries"]
    return {
        **{name: own["data"][name] for name in ("split", "source", "fingerprint", "studies", "questions")},
        "answered": own["counts"]["answered"],
        "failed": own["counts"]["failed"],
        "failed_answers": "left out of the text scores"
        if with_["failed_answers"] == "exclude"
        else "scored as empty answers",
        "profile": with_.get("profile", "default"),
        "versions": ", ".join(f"{name} {version}" for name, version in sorted(libraries.items())),
        "metrics": [METRICS.get(name, name) for name in names],
        "conditions": [
            {
                "images": IMAGES.get(result["images"].split()[0], result["images"]),
                "scores": [_show(result["table_4"][name]) for name in names],
                "accuracy": _show(result["findings"]["accuracy"]),
                "balanced": _show(result["findings"]["balanced_accuracy"]),
            }
            for result in results
        ],
        **_describe_clinical(results),
        "majority": _show(own["findings"]["majority"]),
        "category_metrics": [METRICS.get(name, name) for name in breakdown],
        "categories": [
            {
                "name": category,
                "rows": scores["rows"],
                "scores": [_show(scores.get(name)) for name in breakdown],
                "accuracy": _show(by_finding[category]["accuracy"]) if category in by_finding else _show(None),
            }
            for category, scores in own["by_category"].items()
        ],
    }


def _describe_clinical(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Scores of RadEval and of the challenge, if all results have them."""
    values: dict[str, Any] = {"clinical": [], "clinical_library": "", "challenge": None}
    if all("clinical" in result for result in results):
        scores = [result["clinical"]["scores"] for result in results]
        values["clinical_library"] = f"RadEval {results[0]['clinical']['scored_with']['RadEval']}"
        values["clinical"] = [{"name": name, "scores": [_show(of.get(name)) for of in scores]} for name in scores[0]]
    if challenge := results[0].get("challenge"):
        chosen = ", ".join(f"{name} {value}" for name, value in challenge["chosen_here"].items())
        zero = sum(challenge["zero"].values())
        values["challenge"] = {
            "score": _show(challenge["score"]), "pairs": challenge["pairs"], "zero": zero, "chosen": chosen,
        }  # fmt: skip
    return values


def model_index(results: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The entry `model-index` of the card's metadata, with the scores for own images."""
    from huggingface_hub import EvalResult
    from huggingface_hub.repocard_data import eval_results_to_model_index

    own = results[0]
    scores = {**own["table_4"], "finding_accuracy": own["findings"]["accuracy"]}
    scores["finding_balanced_accuracy"] = own["findings"]["balanced_accuracy"]
    entries = [
        EvalResult(
            task_type="image-text-to-text",
            dataset_type="mimic_cxr_vqa",
            dataset_name=f"MIMIC-CXR-VQA ({own['data']['source']})",
            dataset_split=own["data"]["split"],
            metric_type=metric,
            metric_name=METRICS.get(metric, metric.replace("_", " ")),
            metric_value=round(value, 4),
        )
        for metric, value in scores.items()
        if value is not None
    ]
    return eval_results_to_model_index(name, entries)


def _show(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def eval_results(results: list[dict[str, Any]], dataset_id: str) -> bytes:
    """`.eval_results/…yaml` with the scores for own images, for the Hub's tables.

    Args:
        dataset_id: repository of the evaluated dataset.
    """
    from huggingface_hub import eval_result_entries_to_yaml

    entries = eval_result_entries_to_yaml(result_entries(results[0], dataset_id))
    return yaml.safe_dump(entries, sort_keys=False, allow_unicode=True).encode()
