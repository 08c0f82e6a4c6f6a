"""`medvqa-hub train …`. Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from medvqa_hub.families.registry import FAMILIES, find_family
from medvqa_hub.launching import Launch, launch_command
from medvqa_hub.tracking import ReportTo

app = typer.Typer(no_args_is_help=True, help="Train a model from a recipe.")

Data = Annotated[Path, typer.Option(help="A release, the folder it was built in, or the authors' CSV files.")]
Out = Annotated[Path, typer.Option(help="Folder of the run. The same command resumes it.")]
RecipeName = Annotated[str | None, typer.Option("--recipe", help="A shipped recipe's name, or a YAML file.")]
ImageRoot = Annotated[Path | None, typer.Option(help="Folder of the images. Default: MIMIC_CXR_JPG_ROOT.")]
Stage = Annotated[
    int | None, typer.Option(min=1, max=3, help="Recipe of a stage: 1 decoder, 2 all, 3 self-critical (SwinVED).")
]
Init = Annotated[Path | None, typer.Option(help="Checkpoint to start from, or the folder of an earlier stage.")]
FeatureCache = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the features of a frozen image encoder (--set data.cache_features=bfloat16), which runs may "
        "share. Default: OUT/features."
    ),
]
Damaged = Annotated[
    Literal["error", "skip"] | None,
    typer.Option(help="At a damaged image: stop with an error (default), or leave out its study and count it."),
]
CheckImages = Annotated[bool, typer.Option("--check-images", help="Decode every image before the first step.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Override section.key=value of the recipe. Repeatable.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the resolved recipe, counts and steps without training.")]


def add_command(name: str) -> None:
    """Add the command that trains the models of a family."""
    command = name.replace("_", "-")

    def train_family(
        context: typer.Context,
        data: Data,
        out: Out,
        stage: Stage = None,
        recipe: RecipeName = None,
        image_root: ImageRoot = None,
        init: Init = None,
        feature_cache: FeatureCache = None,
        damaged: Damaged = None,
        check_images: CheckImages = False,
        set_: Set = None,
        launch: Launch = None,
        report_to: ReportTo = None,
        dry_run: DryRun = False,
    ) -> None:
        from medvqa_core.errors import ConfigError
        from medvqa_hub.training.recipes import load_recipe, shipped_recipes

        if stage is None and recipe is None and command in shipped_recipes():
            recipe = command
        if (stage is None) == (recipe is None):
            raise typer.BadParameter("pass one of --stage (the paper's recipe) and --recipe")
        recipe = recipe or f"{command}-stage{stage}"
        overrides = [f"data.damaged_images={damaged}"] * (damaged is not None)
        overrides += ["data.check_images=true"] * check_images + (set_ or [])
        resolved = load_recipe(recipe, overrides)
        if resolved.model.kind != name:
            other = resolved.model.kind.replace("_", "-")
            raise ConfigError(f"recipe {recipe!r} trains {resolved.model.kind!r}. Run medvqa-hub train {other}")
        if launch is not None and not dry_run:
            launch_command(launch, ["train", command], context)
            return
        from medvqa_hub.training.run import train

        train(resolved, data, out, image_root, init, dry_run, typer.echo, report_to or (), feature_cache)

    app.command(command, help=f"Train {find_family(name).title} with a recipe of the paper or your own.")(train_family)


for family in FAMILIES:
    add_command(family)


@app.command()
def vlm(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="Any image-text model: a folder, a run's folder, or a Hub repository.")],
    data: Annotated[
        Path,
        typer.Option(
            help="A release, the folder it was built in, the authors' CSV files, or a folder of report questions."
        ),
    ],
    out: Out,
    stage: Annotated[str | None, typer.Option(help="Recipe of a stage: sft (supervised) or grpo (by rewards).")] = None,
    recipe: RecipeName = None,
    reward: Annotated[
        str | None,
        typer.Option(
            help="Reward of stage grpo: a name, your own function (FILE.py:FUNCTION or MODULE:FUNCTION, whose code is "
            "run), or a sum: 'mine.py:short:0.3+finding_accuracy:0.7'."
        ),
    ] = None,
    turns: Annotated[
        str | None, typer.Option(help="One conversation per question, or per study with all of its questions.")
    ] = None,
    image_root: ImageRoot = None,
    model_class: Annotated[
        str | None,
        typer.Option(help="Governance class of a model that does not declare one. Public models are open."),
    ] = None,
    set_: Set = None,
    launch: Launch = None,
    report_to: ReportTo = None,
    dry_run: DryRun = False,
) -> None:
    """Train any image-text model with TRL (extra `trl`), supervised or by rewards, whole or as an adapter."""
    from medvqa_hub.training.vlm.recipe import STAGES, load_vlm_recipe

    if (stage is None) == (recipe is None) or stage not in (None, *STAGES):
        raise typer.BadParameter(f"pass one of --stage ({' or '.join(STAGES)}) and --recipe")
    name = recipe or f"vlm-{stage}"
    overrides = [f"data.turns={turns}"] * bool(turns) + [f"reward.name={reward}"] * bool(reward) + (set_ or [])
    resolved = load_vlm_recipe(name, overrides)
    if launch is not None and not dry_run:
        launch_command(launch, ["train", "vlm"], context)
        return
    from medvqa_hub.training.vlm.run import train_vlm

    train_vlm(resolved, model, data, out, image_root, model_class, dry_run, typer.echo, report_to or ())


@app.command()
def tokenizer(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for the tokenizer.")],
    vocab_size: Annotated[int | None, typer.Option(min=8, help="Most words. The rarest are left out.")] = None,
    min_frequency: Annotated[int, typer.Option(min=1, help="How often a word must occur.")] = 1,
    split: Annotated[str, typer.Option(help="Split whose questions and answers are read.")] = "train",
) -> None:
    """Train SwinVED's tokenizer on the questions and answers of a split."""
    from medvqa_hub.training.tokenizer_training import write_tokenizer

    size, governance = write_tokenizer(data, out, vocab_size, min_frequency, split)
    typer.echo(f"{size:,} tokens in {out}, governance class {governance}. Use it with --set model.tokenizer={out}")
