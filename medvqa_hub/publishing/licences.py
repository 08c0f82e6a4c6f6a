"""Which licence goes with what is pushed, and what it asks for: the licence follows the content.

Sources of each rule: docs/publishing.md.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.governance import Governance, check_publishable
from mimic_cxr_vqa.card import LICENSES

AUTHORS = "the authors' release"  # of MIMIC-CXR-VQA: its answers are Llama 3.1's (paper, Section 3.2)
LLAMA_LICENCES = ("3.1", "3.2", "3.3")  # these let outputs train other models, under their name
_LLAMA = re.compile(r"llama[-_ ]?v?([0-9](?:\.[0-9])?)", re.IGNORECASE)
_LLAMA_TYPES = {"mllama": "3.2", "llama4": "4"}  # architectures that nobody else trained from the start
GATE = {
    "extra_gated_heading": "For people who have signed the data use agreement of MIMIC-CXR",
    "extra_gated_prompt": (
        "These weights were trained on text derived from MIMIC-CXR (PhysioNet Credentialed Health Data License 1.5.0), "
        "and weights can repeat what they were trained on. Access is given by hand, to credentialed users who keep to "
        "that agreement: no attempt to identify anybody, no sharing of the weights or of what they say of real studies."
    ),
    "extra_gated_fields": {
        "Name": "text",
        "Institution": "text",
        "PhysioNet user name": "text",
        "I am a credentialed PhysioNet user and have signed the agreement for MIMIC-CXR": "checkbox",
        "I will not try to get training data out of these weights, nor to identify anybody": "checkbox",
    },
    "extra_gated_button_content": "Ask for access",
}


@dataclass(frozen=True)
class Licence:
    """Attributes:
    card: keys of the card: the licence, and the text of the gate where there is one.
    llama: version of the Llama whose outputs are in the content; None: none.
    """

    card: Mapping[str, Any]
    llama: str | None


def llama_of(answers: Iterable[tuple[str | None, str | None]]) -> str | None:
    """The version of the Llama that wrote answers, oldest first; None where none did.

    Args:
        answers: (source, model) of each stage's data.
    """
    found = []
    for source, model in answers:
        match = _LLAMA.search(model or "")
        found += [match[1]] if match else (["3.1"] if source == AUTHORS else [])
    return min(found, default=None)


def find_llama_version_of_stages(stages: Iterable[Mapping[str, Any]]) -> str | None:
    """`llama_of` the stages of a training history."""
    data = [stage.get("data", {}) for stage in stages]
    return llama_of((found.get("source"), found.get("answers", {}).get("model")) for found in data)


def check_llama(version: str | None, repo_id: str) -> None:
    """Raise where the licence of the Llama that wrote the answers does not allow the push, or its name is missing."""
    if version is None:
        return
    if version not in LLAMA_LICENCES:
        raise GovernanceError(
            f"answers of Llama {version} are in this: its licence does not let outputs improve other language models "
            f"(that of {', '.join(LLAMA_LICENCES)} does); have the questions answered by another model"
        )
    owner, _, name = repo_id.partition("/")
    if not name.startswith("Llama"):
        raise ConfigError(
            f"{repo_id}: trained with outputs of Llama {version}, whose licence (1.b.i) asks that the name of the "
            f'model begins with "Llama": push to {owner}/Llama-{name}'
        )


def find_llama_version(base: str | None, config: Mapping[str, Any]) -> str | None:
    """The version of the Llama that a model was made from, by its name or type; None where neither says."""
    text = config.get("text_config") or {}
    kinds = {config.get("model_type"), text.get("model_type")}
    names = [base, config.get("_name_or_path"), text.get("_name_or_path")]
    found = [match[1] for name in names if (match := _LLAMA.search(name or ""))]
    found += [version for kind, version in _LLAMA_TYPES.items() if kind in kinds]
    return min(found, default=None)


def check_llama_base(version: str | None, repo_id: str) -> None:
    """Raise a ConfigError where the name misses what the licence of the Llama asks for that the model was made from."""
    if version is None or version.startswith("2"):  # whose licence asks for the notice alone
        return
    owner, _, name = repo_id.partition("/")
    start = "Llama-3" if version in ("3", "3.0") else "Llama"
    if not name.startswith((start, start.replace("-", " "))):
        raise ConfigError(
            f"{repo_id}: made from Llama {version}, whose licence (1.b.i) asks that the name of the model begins with "
            f'"{start.replace("-", " ")}": push to {owner}/{start}-{name}'
        )


def get_foreign_licence(governance: Governance, base: str | None, llama: str | None, llama_base: str | None) -> Licence:
    """The licence of weights that were made from somebody else's: the base's, which only its authors' page says, and
    what the data asks for.

    Args:
        llama: version of the Llama that wrote the training answers.
        llama_base: version of the Llama that the model was made from.

    Raises:
        GovernanceError: as `get_model_licence`.
    """
    licence = get_model_licence(governance, llama)
    if governance is not Governance.OPEN:
        return licence
    names = [f"llama{llama_base}" if llama_base else "as-the-base-model", *([f"llama{llama}"] if llama else [])]
    if base is None:
        return Licence({"license": "unknown"}, llama)
    if set(names) == {f"llama{llama_base}"}:
        return Licence({"license": names[0]}, llama)
    link = f"https://huggingface.co/{base}"
    return Licence({"license": "other", "license_name": "-and-".join(names), "license_link": link}, llama)


def get_model_licence(governance: Governance, llama: str | None) -> Licence:
    """The licence of weights.

    Raises:
        GovernanceError: they are of class `no-derivatives`, which nothing may be made of and shared.
    """
    if governance is Governance.NO_DERIVATIVES:
        check_publishable(governance, "this model", "the Hub")
    card = dict(LICENSES[governance])
    if governance is Governance.OPEN and llama is not None:
        card = {"license": f"llama{llama}"}
    if governance is Governance.CREDENTIALED:
        card |= GATE
    return Licence(card, llama)


NOTICE = (
    "Llama {version} is licensed under the Llama {version} Community License, Copyright (c) Meta Platforms, Inc. "
    "All Rights Reserved.\n"
)
