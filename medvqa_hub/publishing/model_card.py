"""Write the card of a model from its folder, its evaluation and the memorisation check.

Templates of families extend `hub_cards/model.md.jinja`.
"""

from pathlib import Path
from typing import Any

import hub_cards
from medvqa_core.governance import Governance
from medvqa_hub.families.checkpoint import Checkpoint
from medvqa_hub.families.history import read_stages
from medvqa_hub.families.registry import find_family
from medvqa_hub.publishing.audit_block import describe_audit
from medvqa_hub.publishing.licences import (
    Licence,
    find_base_llama,
    find_own_source,
    find_stages_llama,
    get_model_licence,
)
from medvqa_hub.publishing.memorisation import Memorisation
from medvqa_hub.publishing.model_folder import RECIPE, ModelFolder, weights_in
from medvqa_hub.publishing.phrases import PHRASE
from medvqa_hub.publishing.results import describe_results, model_index
from medvqa_hub.publishing.staging import CARD

REPOSITORY = "OWNER/NAME"  # in the card that training writes, before a repository is chosen
_STAGES = {
    1: "1: decoder", 2: "2: all", 3: "3: self-critical", "sft": "reference answers (SFT)", "grpo": "rewards (GRPO)",
}  # fmt: skip


def write_model_card(
    model: ModelFolder,
    repo_id: str,
    licence: Licence,
    results: list[dict[str, Any]] | None = None,
    memorisation: Memorisation | None = None,
    acknowledgement: str | None = None,
    has_recipe: bool | None = None,
    audit: dict[str, Any] | None = None,
) -> str:
    """The text of the card. It is deterministic.

    Args:
        results: from `read_results`. None if the model was not evaluated.
        acknowledgement: see `ModelPush`.
        has_recipe: whether the recipe is pushed. By default, if it is in the folder.
        audit: from `read_audit`.
    """
    kind = model.checkpoint.kind
    if model.foreign:
        title = f"{repo_id.partition('/')[2]}: {_describe_foreign(model)}"
        template, values = "image_text", _foreign_values(model)
        bases = {model.base: None} if model.base else {}
    else:
        template = kind if hub_cards.template_path(kind).exists() else "model"
        title, values = find_family(kind).title, _family_values(model)
        bases = dict.fromkeys(stage["base"] for stage in model.stages if stage.get("base"))
    return hub_cards.render(
        template,
        _metadata(model, licence, [base for base in bases if "/" in base])
        | ({"model-index": model_index(results, repo_id.partition("/")[2])} if results else {}),
        title=f"{title} for medical visual question answering",
        repository=repo_id,
        package=kind,
        command="vlm" if model.foreign else kind.replace("_", "-"),
        base_models=list(bases),
        llama=licence.llama,
        results=describe_results(results) if results else None,
        audit=describe_audit(audit) if audit else None,
        stages=[_describe_stage(stage) for stage in model.stages],
        has_recipe=(model.checkpoint.folder / RECIPE).is_file() if has_recipe is None else has_recipe,
        governance=str(model.governance),
        own_source=find_own_source(model.stages),
        acknowledgement=acknowledgement,
        memorisation=memorisation,
        longest_runs=None if memorisation is None else _show_runs(memorisation),
        parameters=count_parameters(model.checkpoint.folder),
        **values,
    )


def _family_values(model: ModelFolder) -> dict[str, Any]:
    from transformers import AutoConfig

    family = find_family(model.checkpoint.kind)
    family.register()
    return family.card_values(AutoConfig.from_pretrained(model.checkpoint.folder))


def _describe_foreign(model: ModelFolder) -> str:
    return f"an adapter of {model.base}" if model.is_adapter else model.base or model.checkpoint.kind


def _foreign_values(model: ModelFolder) -> dict[str, Any]:
    return {
        "base": model.base,
        "adapter": model.is_adapter,
        "kind": model.checkpoint.kind,
        "rank": model.config.get("r"),
        "llama_base": find_base_llama(model.base, model.config),
        "trained": bool(model.stages),
    }


def write_folder_card(folder: Path, kind: str, governance: Governance) -> None:
    """Write the card of a trained model, for `model.push_to_hub` and `Trainer.push_to_hub`.

    Writes nothing if only `medvqa-hub push model` can push the model (it needs an acknowledgement, a name, a notice
    or another licence).
    """
    stages = read_stages(folder)
    adapter = (folder / "adapter_config.json").exists()
    if adapter or not governance.publishable or find_stages_llama(stages) or find_own_source(stages):
        return
    model = ModelFolder(Checkpoint(str(folder), folder, kind, "", governance), governance, stages, {})
    card = write_model_card(model, REPOSITORY, get_model_licence(governance, None), has_recipe=True)
    (folder / CARD).write_text(card, encoding="utf-8")


def _metadata(model: ModelFolder, licence: Licence, bases: list[str]) -> dict[str, Any]:
    metadata: dict[str, Any] = dict(licence.card)
    metadata["language"] = "en"
    metadata["library_name"] = "peft" if model.is_adapter else "transformers"
    metadata["pipeline_tag"] = "image-text-to-text"
    if bases:
        metadata["base_model"] = bases
    if bases and model.foreign:
        metadata["base_model_relation"] = "adapter" if model.is_adapter else "finetune"
    metadata["tags"] = ["medical", "radiology", "chest-x-ray", "visual-question-answering"]
    metadata["tags"] += [*([] if model.foreign else ["custom_code"]), f"governance-{model.governance}"]
    if model.governance is Governance.CREDENTIALED:
        metadata["inference"] = False
    return metadata


def _describe_stage(stage: dict[str, Any]) -> dict[str, str]:
    """A row of "How it was made"."""
    data, answers = stage.get("data", {}), stage.get("data", {}).get("answers", {})
    name = _STAGES.get(stage.get("stage"), "-")
    if stage.get("reward"):
        name += f", reward `{stage['reward']}`"
    who = f"{answers.get('engine', '-')}, `{answers['model']}`" if answers.get("model") else answers.get("engine", "-")
    seconds = stage.get("seconds")
    damaged = data.get("left_out", {}).get("studies_with_damaged_image", 0)
    return {
        "name": name,
        "data": f"{data.get('source', '-')} (`{data.get('fingerprint', '-')}`)",
        "amount": f"{data.get('studies', 0):,}, {data.get('questions', 0):,}"
        + (f" ({damaged:,} studies with a damaged image left out)" if damaged else ""),
        "answers": who,
        "steps": f"{stage['steps']:,}" if "steps" in stage else "-",
        "hours": "-" if seconds is None else f"{seconds / 3600:.2f}" if seconds >= 36 else "under 0.01",
        "hardware": stage.get("hardware", "-"),
    }


def _show_runs(memorisation: Memorisation) -> dict[str, str]:
    """The lengths of the longest runs as text."""
    sides = {"training": memorisation.longest, "held_out": memorisation.longest_held_out}
    return {
        side: ", ".join(map(str, filter(None, runs))) or f"none of {PHRASE} or more" for side, runs in sides.items()
    }


def count_parameters(folder: Path) -> int:
    """The number of parameters in the weight files."""
    from math import prod

    from safetensors import safe_open

    total = 0
    for name in weights_in(folder):
        if not name.endswith(".safetensors"):
            continue
        with safe_open(folder / name, "pt") as weights:
            total += sum(prod(weights.get_slice(key).get_shape()) for key in weights.keys())  # noqa: SIM118
    return total
