"""Chapters 6 to 8 of the demo: a tiny SwinVED learns to look, in minutes on a CPU; its three rows, curves and pictures.

What is trained is `demo_training`'s; here are the sizes that fit into a demo, and what is printed.
"""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule

from medvqa_hub.demo.curves import draw_curves
from medvqa_hub.demo.encoder import EncoderSettings
from medvqa_hub.demo.training import (
    STAGES,
    Story,
    evaluate_stage,
    has_text_encoder,
    make_release,
    recipe_of,
    train_encoder,
    train_stage,
)
from medvqa_hub.evaluation.cxr.printing import make_table, number
from medvqa_hub.training.checkpoints import read_log

EPOCHS = {"encoder": 6, 1: 0.25, 2: 1.5}
# Smaller steps, and no dropout, which takes a fifth of the time of a step on a CPU.
QUICK = (
    "training.studies_per_step=4",
    "training.studies_per_batch=4",
    "model.decoder.hidden_dropout_prob=0.0",
    "model.decoder.attention_probs_dropout_prob=0.0",
    "training.save_every=100",  # seconds are lost where it is stopped, not a stage
    "data.workers=1",  # reads the images of the next step meanwhile
)
STEPS_OF_STAGE_3 = 40
STUDIES_EVALUATED = 60
FEW = 8  # studies that stage 3 validates on while it trains
COLUMNS = {"bleu_4": "BLEU-4", "rouge_l": "ROUGE-L", "cider": "CIDEr", "bertscore": "BERTScore"}


def tell_how_it_learns(console: Console, out: Path, studies: int, seed: int) -> dict[str, Path]:
    """Draw, train, evaluate, print and plot; what was made and where it is."""

    def log(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    console.print(Rule(f"6. {studies:,} small studies to learn from"))
    release, tree = make_release(out, studies, seed)
    story = _story(release, tree, out)
    if not has_text_encoder():
        log(
            "BERTScore's encoder is not installed (pip install 'medvqa-hub[encoder]'): stage 3 is rewarded with "
            "ROUGE-L, and the column BERTScore stays empty"
        )
    console.print(Rule("7. A tiny SwinVED: labels for its encoder, then the three stages"))
    made = train_encoder(story)
    log(f"encoder: area under the ROC curve {made['validation_auc']} on the validation split, mean of the labels")
    results = {}
    for stage in STAGES:
        train_stage(story, stage, log=lambda line, stage=stage: log(f"stage {stage}: {line}"))
        results[stage] = evaluate_stage(story, stage, shuffle=stage == 2)
    console.print(Rule("8. What it learned: the test split's patients, answered greedily"))
    console.print(_table(results))
    log("Finding: share of answers that say of their finding what the label says; balanced: an answer that")
    log("ignores the images gets 0.5. In the shuffled row each study got another patient's. Stage 3 is rewarded for")
    log("likeness to the references: the text scores rise, and at this size the findings pay for it.")
    reward = recipe_of(story, 3).reward.name
    draw_curves([read_log(story.run_of(stage)) for stage in STAGES], reward, out / "curves.png")
    return {
        "runs, best models": out,
        "loss and reward curves": out / "curves.png",
        "finding accuracy by category": out / "scores2" / "chart.png",
        "answers beside their images": out / "scores3" / "examples.png",
    }


def _story(release: Path, tree: Path, out: Path) -> Story:
    quick = {
        1: [f"training.epochs={EPOCHS[1]}", "training.learning_rates.decoder=1.5e-3", *QUICK],
        2: [f"training.epochs={EPOCHS[2]}", "training.learning_rates.decoder=1.5e-3", *QUICK],
        3: [
            f"training.max_steps={STEPS_OF_STAGE_3}",
            f"selection.every={STEPS_OF_STAGE_3 // 2}",
            f"selection.studies={FEW}",
            "training.studies_per_step=4",
            "training.studies_per_batch=4",
            "training.log_every=4",
            "training.save_every=10",
        ],
    }
    return Story(release, tree, out, EncoderSettings(epochs=EPOCHS["encoder"]), quick, STUDIES_EVALUATED)


def _table(results: dict[int, list[dict[str, Any]]]) -> Any:
    """A row per stage, and one for shuffled images after stage 2's."""
    table = make_table("", *COLUMNS.values(), "finding", "balanced")
    for stage, conditions in results.items():
        for place, result in enumerate(conditions):
            found = result["findings"]
            table.add_row(
                f"stage {stage}{', shuffled' if place else ''}",
                *(number(result["table_4"].get(name)) for name in COLUMNS),
                number(found["accuracy"]),
                number(found["balanced_accuracy"]),
            )
    commoner = results[STAGES[0]][0]["findings"]["majority"]
    table.add_row("always the commoner label", *["-"] * len(COLUMNS), number(commoner), "0.5000")
    return table
