"""Overfit a tiny BLIP-2-MultiView on 32 studies, and measure the loss when a view is removed.

Each study has four questions of four categories. The same question has different answers in different studies, so only
the images can tell which answer is right. The tiny language model has random weights, and a frozen random model cannot
pass on what the Q-Formers see. Adapters of full width are therefore added to all of it (the recipe's `lora`). Images,
Q-Formers, projections and prefix are those of the recipe.

Figures: the mean loss per token, the share of answers that greedy decoding reproduces word for word, and for each view
the loss on studies that have this view and another one, with and without its images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STUDIES, QUESTIONS, STEPS = 32, 4, 800
TARGET_LOSS = 0.1
VIEWS = ("AP", "PA", "LAT")
CHANGES = (  # both configurations are the tiny ones, without dropout
    f"data.train_studies={STUDIES}",
    "data.questions_per_study=null",
    "data.validation_split=null",
    "model.lora={r: 64, lora_alpha: 64, lora_dropout: 0.0, "
    "target_modules: 'language_model\\..*\\.(q|k|v|o|wi_0|wi_1|wo|lm_head)'}",
    "model.changes={text_config: {model_type: t5, d_model: 64, d_kv: 32, d_ff: 128, num_layers: 2, num_heads: 2, "
    "feed_forward_proj: gated-gelu, tie_word_embeddings: false, decoder_start_token_id: 0, dropout_rate: 0.0}, "
    "qformer_config: {hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 2, "
    "initializer_range: 0.2, hidden_dropout_prob: 0.0, attention_probs_dropout_prob: 0.0}}",
    "training.learning_rates={q_formers: 2e-3, projections: 2e-3, prefix: 2e-3, lora: 5e-3}",
    "training.scheduler=cosine",
    "training.warmup_steps=20",
    "training.epochs=null",
    f"training.max_steps={STEPS}",
)


@dataclass(frozen=True)
class _Loss:
    total: float
    tokens: int


def overfit_blip2(release: Path, tree: Path, out: Path) -> dict[str, Any]:
    """Train, then return the figures."""
    from blip2_multiview import Blip2MultiViewForConditionalGeneration, Blip2MultiViewProcessor

    from medvqa_hub.training.arguments import TrainingRun
    from medvqa_hub.training.recipes import load_recipe
    from medvqa_hub.training.study_questions import StudyQuestions
    from medvqa_hub.training.trainer import SupervisedTrainer
    from medvqa_hub.training.training_data import load_data
    from medvqa_hub.training.training_log import TrainingLog
    from mimic_cxr_vqa.schema import canonical_view

    recipe = load_recipe("tiny-blip2-multiview", CHANGES)
    data = load_data(release, tree, recipe.data)
    chosen = [_choose(questions) for questions in data.train["questions"]]
    only = {row["qa_id"] for rows in chosen for row in rows}
    questions = StudyQuestions(data.train, "split train", lambda view: canonical_view(view) is not None, only)
    out.mkdir(parents=True, exist_ok=True)
    model, processor = recipe.open_model(None, data.texts())
    log = TrainingLog(out)
    run = TrainingRun(recipe, out, data.governance, log)
    trainer = SupervisedTrainer(model, processor, run, questions, None)
    trainer.train()
    trainer.save_best(None, None)
    log.close()

    studies = [{**questions.read_row(place), "questions": chosen[row]} for place, row in enumerate(questions.studies)]
    best = Blip2MultiViewForConditionalGeneration.from_pretrained(out / "best").eval()
    return measure(best, Blip2MultiViewProcessor.from_pretrained(out / "best"), studies)


def measure(model: Any, processor: Any, studies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a trained model on `studies`."""
    from mimic_cxr_vqa.schema import canonical_view

    whole = [_loss(model, processor, study) for study in studies]
    written = [_words(answer) for study in studies for answer in _answer(model, processor, study)]
    wanted = [_words(row["answer"]) for study in studies for row in study["questions"]]
    views = {}
    for view in VIEWS:
        places = [i for i, study in enumerate(studies) if {canonical_view(v) for v in study["views"]} - {None} > {view}]
        if places:
            full, less = (
                _mean([whole[i] for i in places]),
                _mean([_loss(model, processor, studies[i], view) for i in places]),
            )
            views[view] = {"studies": len(places), "loss": full, "loss_without": less, "rise": round(less - full, 4)}
    return {
        "studies": len(studies),
        "questions": len(wanted),
        "loss": _mean(whole),
        "target_loss": TARGET_LOSS,
        "answers_reproduced": round(sum(map(list.__eq__, written, wanted)) / len(wanted), 4),
        "without_a_view": views,
        "least_rise": min(figures["rise"] for figures in views.values()),
    }


def _choose(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first question of each of the first categories."""
    first = {}
    for row in questions:
        first.setdefault(row["category"], row)
    return list(first.values())[:QUESTIONS]


def _inputs(processor: Any, study: dict[str, Any], without: str | None, **texts: Any) -> Any:
    from mimic_cxr_vqa.schema import canonical_view

    pairs = zip(study["images"], study["views"], strict=True)
    kept = [(image, view) for image, view in pairs if canonical_view(view) not in (None, without)]
    return processor(
        images=[[image for image, _ in kept]],
        views=[[view for _, view in kept]],
        text=[row["question"] for row in study["questions"]],
        study_index=[0] * len(study["questions"]),
        **texts,
    )


def _loss(model: Any, processor: Any, study: dict[str, Any], without: str | None = None) -> _Loss:
    """Of a study's answers, with all of its images or without those of one view."""
    import torch

    batch = _inputs(processor, study, without, answers=[row["answer"] for row in study["questions"]])
    tokens = int((batch["labels"] != -100).sum())
    with torch.no_grad():
        return _Loss(model(**batch).loss.item() * tokens, tokens)


def _answer(model: Any, processor: Any, study: dict[str, Any]) -> list[str]:
    sequences = model.generate(**_inputs(processor, study, None), do_sample=False, max_new_tokens=64)
    return processor.batch_decode(sequences, skip_special_tokens=True)


def _mean(losses: Sequence[_Loss]) -> float:
    return round(sum(loss.total for loss in losses) / sum(loss.tokens for loss in losses), 4)


def _words(text: str) -> list[str]:
    return "".join(character if character.isalnum() else " " for character in text.lower()).split()
