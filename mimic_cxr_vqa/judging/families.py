"""Whether writer and judge are of one model family: such judges favour what reads like their own."""

import re

FAMILIES = (
    "llama",
    "vicuna",
    "meditron",
    "qwen",
    "qwq",
    "mistral",
    "mixtral",
    "ministral",
    "gemma",
    "gemini",
    "phi",
    "deepseek",
    "gpt",
    "claude",
    "command",
    "granite",
    "falcon",
    "glm",
    "internlm",
    "internvl",
    "olmo",
    "yi",
    "smollm",
)
_KIN = {
    "vicuna": "llama",
    "meditron": "llama",
    "qwq": "qwen",
    "mixtral": "mistral",
    "ministral": "mistral",
    "gemini": "gemma",
    "internvl": "internlm",
}


def find_model_families(model: str) -> set[str]:
    """The families that a model's name speaks of: `DeepSeek-R1-Distill-Llama-8B` is of two."""
    name = model.rstrip("/").lower()
    found = {family for family in FAMILIES if re.search(rf"(?<![a-z]){family}(?![a-rt-z])|{family}\d", name)}
    found |= {family for family in FAMILIES if len(family) > 4 and family in name}
    return {_KIN.get(family, family) for family in found}


def family_warning(writer: str, judge: str) -> str | None:
    """A line to show where judge and writer may be kin; None where nothing says so."""
    same = writer.lower() == judge.lower()
    shared = find_model_families(writer) & find_model_families(judge)
    if not same and not shared:
        return None
    why = "are the same model" if same else f"are both of the family {', '.join(sorted(shared))}"
    return f"warning: the judge {judge!r} and the writer {writer!r} {why}; such a judge favours what reads like its own"
