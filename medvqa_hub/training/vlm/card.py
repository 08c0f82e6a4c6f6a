"""The model card beside the output of `train vlm`."""

from pathlib import Path

from huggingface_hub import ModelCard, ModelCardData

import hub_cards
from medvqa_core.governance import Governance
from medvqa_hub.training.vlm.recipe import VlmRecipe


def write_card(folder: Path, recipe: VlmRecipe, governance: Governance, base: str, step: int, reports: bool) -> None:
    """Write README.md, which replaces the one that peft leaves beside an adapter.

    Args:
        base: what the user called the starting model.
        reports: whether it was trained on report images instead of chest X-rays.
    """
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
    )
    (folder / "README.md").write_text(str(card).rstrip() + "\n", encoding="utf-8")
