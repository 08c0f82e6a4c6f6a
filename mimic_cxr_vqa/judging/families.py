"""Warn if the judge and the writer of the answers are from one model family, which favours its own style."""

import re

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


def find_model_families(model: str) -> set[str]:
    """The families in a model's name. `DeepSeek-R1-Distill-Llama-8B` has two."""
    name = model.rstrip("/").lower()
    found = {family for family in FAMILIES if re.search(rf"(?<![a-z]){family}(?![a-rt-z])|{family}\d", name)}
    found |= {family for family in FAMILIES if len(family) > 4 and family in name}
    return {_PARENT.get(family, family) for family in found}


def family_warning(writer: str, judge: str) -> str | None:
    """A warning if judge and writer are related, else None."""
    shared = find_model_families(writer) & find_model_families(judge)
    if writer.lower() == judge.lower():
        relation = "are the same model"
    elif shared:
        relation = f"are both from the family {', '.join(sorted(shared))}"
    else:
        return None
    return f"Warning: the judge {judge!r} and the writer {writer!r} {relation}. Such a judge favours its own style."
