"""BLIP-2-MultiView tiny learns 32 studies by heart, and misses a view that is taken away.

Its language model has random weights, where the paper's knows English: through a frozen one of those, the Q-Formers can
say nothing. So adapters of full width are laid over all of it (the recipe's `lora`); images, Q-Formers, projections and
prefix are as in the recipe.

Figures: mean loss per token over all questions of the 32 studies; how many answers greedy decoding reproduces to the
letter; and for each view, the loss on the studies that have it and another one, with and without its images.
"""

from pathlib import Path
from typing import Any

STUDIES = 32
TARGET_LOSS = 0.1
VIEWS = ("AP", "PA", "LAT")
CHANGES = (
    f"data.train_studies={STUDIES}",
    "data.questions_per_study=null",
    "data.validation_split=null",
    "model.lora={r: 64, lora_alpha: 64, lora_dropout: 0.0, "
    "target_modules: 'language_model\\..*\\.(q|k|v|o|wi_0|wi_1|wo|lm_head)'}",
    "training.learning_rates={q_formers: 1e-3, projections: 1e-3, prefix: 1e-3, lora: 3e-3}",
    "training.scheduler=cosine",
    "training.epochs=null",
    "training.max_steps=400",
)


def overfit_blip2(release: Path, tree: Path, out: Path) -> dict[str, Any]:
    """Train, then measure; the figures."""
    from medvqa_hub.training.recipes import load_recipe
    from medvqa_hub.training.run import train

    train(load_recipe("tiny-blip2-multiview", CHANGES), release, out, tree)
    return measure(release, tree, out / "best")


def measure(release: Path, tree: Path, best: Path) -> dict[str, Any]:
    import torch
    from blip2_multiview import Blip2MultiViewForConditionalGeneration, Blip2MultiViewProcessor

    from medvqa_hub.training.data_loading import load_data
    from medvqa_hub.training.recipes import load_recipe
    from mimic_cxr_vqa.schema import canonical_view

    model = Blip2MultiViewForConditionalGeneration.from_pretrained(best).eval()
    processor = Blip2MultiViewProcessor.from_pretrained(best)
    rows = list(load_data(release, tree, load_recipe("tiny-blip2-multiview", CHANGES).data).train)

    @torch.no_grad()
    def loss_of(study: dict, without: str | None = None) -> tuple[float, int, int]:
        """Summed loss, tokens, and answers reproduced (counted with all views only)."""
        pairs = [
            (image, view)
            for image, view in zip(study["images"], study["views"], strict=True)
            if canonical_view(view) not in (None, without)
        ]
        questions, answers = ([row[name] for row in study["questions"]] for name in ("question", "answer"))
        images, views = [[image for image, _ in pairs]], [[view for _, view in pairs]]
        index = [0] * len(questions)
        batch = processor(images=images, views=views, text=questions, answers=answers, study_index=index)
        tokens = int((batch["labels"] != -100).sum())
        loss = model(**batch).loss.item() * tokens
        if without is not None:
            return loss, tokens, 0
        prompts = processor(images=images, views=views, text=questions, study_index=index)
        written = processor.batch_decode(model.generate(**prompts, do_sample=False), skip_special_tokens=True)
        wanted = processor.batch_decode(processor(text=answers)["input_ids"], skip_special_tokens=True)
        del wanted
        return loss, tokens, sum(_plain(a) == _plain(b) for a, b in zip(written, answers, strict=True))

    known = [study for study in rows if any(canonical_view(view) for view in study["views"])]
    full = {study["study_id"]: loss_of(study) for study in known}
    views = {}
    for view in VIEWS:
        chosen = [s for s in known if {canonical_view(v) for v in s["views"]} - {None} > {view}]
        if chosen:
            kept, left = (_mean([full[s["study_id"]] for s in chosen]), _mean([loss_of(s, view) for s in chosen]))
            views[view] = {"studies": len(chosen), "loss": kept, "loss_without": left, "rise": round(left - kept, 4)}
    return {
        "studies": len(known),
        "questions": sum(len(study["questions"]) for study in known),
        "loss": _mean(list(full.values())),
        "target_loss": TARGET_LOSS,
        "answers_reproduced": round(
            sum(right for _, _, right in full.values()) / sum(len(study["questions"]) for study in known), 4
        ),
        "without_a_view": views,
        "least_rise": min(figures["rise"] for figures in views.values()),
    }


def _mean(measured: list[tuple[float, int, int]]) -> float:
    return round(sum(loss for loss, _, _ in measured) / sum(tokens for _, tokens, _ in measured), 4)


def _plain(text: str) -> list[str]:
    return "".join(character if character.isalnum() else " " for character in text.lower()).split()
