"""The card beside what `train vlm` wrote: what it is, what it learned from, and what may be done with it."""

from pathlib import Path

from medvqa_core.governance import Governance
from medvqa_hub.training.vlm.recipe import VlmRecipe


def write_card(
    folder: Path, recipe: VlmRecipe, governance: Governance, base: str, step: int, reports: bool = False
) -> None:
    """Write README.md; it takes the place of the one that peft leaves beside an adapter.

    Args:
        base: what the user called the model that was trained.
        reports: whether it learned of report images, not of studies.
    """
    from huggingface_hub import ModelCard, ModelCardData

    import hub_cards

    # A folder's name says where somebody's files lie; a repository's is for readers.
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
