"""The licence of pushed content, and its requirements. docs/publishing.md names the source of each rule."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.governance import Governance, check_publishable
from medvqa_hub.families.history import REPORTS
from mimic_cxr_vqa.card import LICENSED_SOURCES, LICENSES, OTHER_LICENSE

AUTHORS = "the authors' release"  # Llama 3.1 wrote its answers (paper, Section 3.2)
LLAMA_LICENCES = ("3.1", "3.2", "3.3")  # their outputs may train other models that are named after them
_LLAMA = re.compile(r"llama[-_ ]?v?([0-9](?:\.[0-9])?)", re.IGNORECASE)
_LLAMA_TYPES = {"mllama": "3.2", "llama4": "4"}  # architectures without other pretrained models
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
    card: metadata of the card: the licence, and the text of a gate.
    llama: version of the Llama whose outputs are in the content, or None.
    """

    card: Mapping[str, Any]
    llama: str | None


def find_answer_llama(answers: Iterable[tuple[str | None, str | None]]) -> str | None:
    """The oldest version of the Llamas that wrote answers, or None.

    Args:
        answers: (source, model) of the data of each stage.
    """
    found: list[str] = []
    for source, model in answers:
        match = _LLAMA.search(model or "")
        found += [match[1]] if match else (["3.1"] if source == AUTHORS else [])
    return min(found, default=None)


def find_stages_llama(stages: Iterable[Mapping[str, Any]]) -> str | None:
    """`find_answer_llama` the stages of a training history."""
    data = [stage.get("data", {}) for stage in stages]
    return find_answer_llama((found.get("source"), found.get("answers", {}).get("model")) for found in data)


def find_own_source(stages: Iterable[Mapping[str, Any]]) -> str | None:
    """The first source of studies in a training history whose licence the cards do not know, or None."""
    data = [stage.get("data", {}) for stage in stages]
    names = [found.get("source") for found in data if found.get("dataset") != REPORTS]
    return next((name for name in names if name not in (None, AUTHORS, *LICENSED_SOURCES)), None)


def get_own_licence(source: str, governance: Governance, llama: str | None) -> Licence:
    """The licence of weights that were trained on a source of one's own, which its maintainers state in the card.

    Raises:
        GovernanceError: the weights are not open, and the terms of their gate are not known.
    """
    if governance is not Governance.OPEN:
        raise GovernanceError(
            f"these weights are {governance} and were trained on the source {source!r}. push model only knows the "
            f"terms of {', '.join(LICENSED_SOURCES)}. Share the weights as the owners of that source allow"
        )
    return Licence(OTHER_LICENSE, llama)


def check_llama(version: str | None, repo_id: str) -> None:
    """Raise if the licence of the Llama that wrote the answers forbids the push, or requires another name."""
    if version is None:
        return
    if version not in LLAMA_LICENCES:
        raise GovernanceError(
            f"this contains answers of Llama {version}, whose licence does not allow outputs to improve other models "
            f"(those of {', '.join(LLAMA_LICENCES)} do). Use the answers of another model."
        )
    owner, _, name = repo_id.partition("/")
    if not name.startswith("Llama"):
        raise ConfigError(
            f"{repo_id} was trained with outputs of Llama {version}, whose licence (1.b.i) requires a model name that "
            f'begins with "Llama". Push to {owner}/Llama-{name}.'
        )


def find_base_llama(base: str | None, config: Mapping[str, Any]) -> str | None:
    """The version of the Llama that a model was made from, by its name or type, or None."""
    text = config.get("text_config") or {}
    kinds = {config.get("model_type"), text.get("model_type")}
    names = [base, config.get("_name_or_path"), text.get("_name_or_path")]
    found = [match[1] for name in names if (match := _LLAMA.search(name or ""))]
    found += [version for kind, version in _LLAMA_TYPES.items() if kind in kinds]
    return min(found, default=None)


def check_llama_base(version: str | None, repo_id: str) -> None:
    """Raise a ConfigError if the licence of the Llama that a model was made from requires another name."""
    if version is None or version.startswith("2"):  # only requires the notice
        return
    owner, _, name = repo_id.partition("/")
    start = "Llama-3" if version in ("3", "3.0") else "Llama"
    if not name.startswith((start, start.replace("-", " "))):
        raise ConfigError(
            f"{repo_id} was made from Llama {version}, whose licence (1.b.i) requires a model name that begins with "
            f'"{start.replace("-", " ")}". Push to {owner}/{start}-{name}.'
        )


def get_foreign_licence(governance: Governance, base: str | None, llama: str | None, llama_base: str | None) -> Licence:
    """The licence of weights that were made from somebody else's model, from the base model and the data.

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
        GovernanceError: the class is `no-derivatives`, whose derivatives may not be shared.
    """
    if governance is Governance.NO_DERIVATIVES:
        check_publishable(governance, "this model", "the Hub")
    card: dict[str, Any] = dict(LICENSES[governance])
    if governance is Governance.OPEN and llama is not None:
        card = {"license": f"llama{llama}"}
    if governance is Governance.CREDENTIALED:
        card |= GATE
    return Licence(card, llama)


NOTICE = (
    "Llama {version} is licensed under the Llama {version} Community License, Copyright (c) Meta Platforms, Inc. "
    "All Rights Reserved.\n"
)
