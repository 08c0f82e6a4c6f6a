"""Whether a judge is independent of the writer of the answers.

A rule judge that reads with the same code as the engine cannot see the engine's errors. A language model favours the
style of its own family.
"""

import re
from collections.abc import Mapping
from typing import Any

FAMILIES = (
    *("llama", "vicuna", "meditron", "qwen", "qwq", "mistral", "mixtral", "ministral", "gemma", "gemini", "phi", "gpt"),
    *("deepseek", "claude", "command", "granite", "falcon", "glm", "internlm", "internvl", "olmo", "yi", "smollm"),
)
_PARENT = {
    "vicuna": "llama",
    "meditron": "llama",
    "qwq": "qwen",
    "mixtral": "mistral",
    "ministral": "mistral",
    "gemini": "gemma",
    "internvl": "internlm",
}
_READS_BY_RULES = ("rules",)  # the model of the extractive engine and of the rule judge: both read with `labeling`


def find_model_families(model: str) -> set[str]:
    """The families in a model's name. `DeepSeek-R1-Distill-Llama-8B` has two."""
    name = model.rstrip("/").lower()
    found = {family for family in FAMILIES if re.search(rf"(?<![a-z]){family}(?![a-rt-z])|{family}\d", name)}
    found |= {family for family in FAMILIES if len(family) > 4 and family in name}
    return {_PARENT.get(family, family) for family in found}


def find_dependence(writer: Mapping[str, Any], judge: Mapping[str, Any]) -> str | None:
    """Why the judge is not independent of the writer, from their settings, or None."""
    wrote, judged = str(writer.get("model")), str(judge.get("model"))
    if wrote in _READS_BY_RULES and judged in _READS_BY_RULES:
        return "the judge reads with the same rules as the engine that wrote the answers and cannot see its errors"
    if wrote.lower() == judged.lower():
        return f"the judge and the writer of the answers are the same model, {judged}"
    if shared := find_model_families(wrote) & find_model_families(judged):
        return f"the judge {judged} and the writer {wrote} are from the same family, {', '.join(sorted(shared))}"
    return None
