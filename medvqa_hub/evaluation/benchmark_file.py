"""`eval.yaml` of a dataset repository, by which the Hub registers it as a benchmark.

The Hub's format (huggingface.co/docs/hub/eval-results): name, description, and a task per figure with the config and
split that it is computed on. A result in a model's `.eval_results/` names the task by its id. The field
`evaluation_framework` is left out, because the Hub only accepts registered frameworks.
"""

from typing import Any

import yaml

from medvqa_core.errors import InputError
from medvqa_hub.evaluation.exporting import CXR_TASKS, MEDDQA_TASKS

FILE = "eval.yaml"
DESCRIPTIONS = {
    "MIMIC-CXR-VQA": "Questions about chest radiographs. Text scores of the paper's Table 4 (0 to 1; CIDEr 0 to 10), "
    "finding accuracy and clinical scores. Computed by medvqa-hub evaluate cxr.",
    "RJUA-MedDQA": "Questions about Chinese medical report images. Accuracy and ROUGE-L of the paper's Table 5 (0 to "
    "1). Computed by medvqa-hub evaluate meddqa.",
}
_TASKS = {"MIMIC-CXR-VQA": CXR_TASKS, "RJUA-MedDQA": MEDDQA_TASKS}


def make_benchmark_file(card: str, name: str) -> bytes:
    """The content of `eval.yaml` for a dataset.

    Args:
        card: the dataset's README.md, whose metadata name configs and splits. The default config is used, and its
            test split if there is one.
        name: MIMIC-CXR-VQA or RJUA-MedDQA.

    Raises:
        InputError: the card does not have configs.
    """
    metadata: dict[str, Any] = yaml.safe_load(card.split("---\n")[1])
    configs = metadata.get("configs") or []
    if not configs:
        raise InputError("The card does not list configs, which eval.yaml needs. Write the dataset again.")
    config = next((config for config in configs if config.get("default")), configs[0])
    splits = [file["split"] for file in config["data_files"]]
    split = "test" if "test" in splits else splits[-1]
    content = {
        "name": name,
        "description": DESCRIPTIONS[name],
        "tasks": [{"id": task, "config": config["config_name"], "split": split} for task in _TASKS[name]],
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100).encode()
