"""The model card beside the output of `train vlm`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

import hub_cards
from medvqa_core.governance import Governance
from medvqa_hub.families.history import REPORTS
from medvqa_hub.publishing.licences import find_own_source
from medvqa_hub.training.vlm.recipe import VlmRecipe


def write_card(
    folder: Path, recipe: VlmRecipe, governance: Governance, base: str, step: int, stages: Sequence[dict[str, Any]]
) -> None:
    """Write README.md, which replaces the one that peft leaves beside an adapter.

    Args:
        base: what the user called the starting model.
        stages: the training history. The last stage is this run.
    """
    reports = bool(stages) and stages[-1]["data"].get("dataset") == REPORTS
    # Only a repository's name is published, since a folder's path may reveal names.
    repository = base if base.count("/") == 1 and not Path(base).exists() else None
    data = ModelCardData(
        base_model=repository,
        library_name="transformers" if recipe.lora is None else "peft",
        pipeline_tag="image-text-to-text",
        tags=["medical", *([] if reports else ["radiology"]), "visual-question-answering", f"governance-{governance}"],
    )
    card = ModelCard.from_template(
        data,
        template_path=str(hub_cards.template_path("vlm")),
        base=repository or "a model on the trainer's machine",
        governance=str(governance),
        adapter=recipe.lora is not None,
        stage=recipe.training.stage,
        reward=recipe.reward and recipe.reward.name,
        step=step,
        reports=reports,
        own_source=find_own_source(stages),
    )
    (folder / "README.md").write_text(str(card).rstrip() + "\n", encoding="utf-8")
