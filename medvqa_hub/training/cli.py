"""`medvqa-hub train …`. Heavy imports wait until a command runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from medvqa_hub.families.registry import FAMILIES, find_family
from medvqa_hub.launching import Launch

app = typer.Typer(no_args_is_help=True, help="Train a model from a recipe.")

Data = Annotated[Path, typer.Option(help="A release, the folder it was built in, or the authors' CSV files.")]
Out = Annotated[Path, typer.Option(help="Folder of the run; the same command goes on there.")]
RecipeName = Annotated[str | None, typer.Option("--recipe", help="A shipped recipe's name, or a YAML file.")]
ImageRoot = Annotated[Path | None, typer.Option(help="Folder of the images; default: MIMIC_CXR_JPG_ROOT.")]
Stage = Annotated[
    int | None, typer.Option(min=1, max=3, help="Recipe of a stage: 1 decoder, 2 all, 3 self-critical (SwinVED).")
]
Init = Annotated[Path | None, typer.Option(help="Checkpoint to start from, or the folder of an earlier stage.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="section.key=value in place of the recipe's; repeatable.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the resolved recipe, counts and steps; train nothing.")]


def add_command(name: str) -> None:
    """Add the command that trains the models of a family."""
    command = name.replace("_", "-")

    def train_family(
        data: Data,
        out: Out,
        stage: Stage = None,
        recipe: RecipeName = None,
        image_root: ImageRoot = None,
        init: Init = None,
        set_: Set = None,
        launch: Launch = None,
        dry_run: DryRun = False,
    ) -> None:
        from medvqa_hub.training.recipes import shipped_recipes

        if stage is not None and recipe is not None:
            raise typer.BadParameter("pass one of --stage (the paper's recipe) and --recipe")
        if stage is not None:
            recipe = f"{command}-stage{stage}"
        elif recipe is None and command in shipped_recipes():
            recipe = command
        if recipe is None:
            raise typer.BadParameter("pass one of --stage (the paper's recipe) and --recipe")
        _train(name, recipe, data, out, image_root, init, set_, launch, dry_run)

    app.command(command, help=f"Train {find_family(name).title}: a stage of the paper's, or any recipe.")(train_family)


for family in FAMILIES:
    add_command(family)


@app.command()
def vlm(
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
    turns: Annotated[
        str | None, typer.Option(help="A conversation per question, or per study with all of its.")
    ] = None,
    image_root: ImageRoot = None,
    model_class: Annotated[
        str | None,
        typer.Option(help="Governance class of the model where its folder does not say: open for public ones."),
    ] = None,
    set_: Set = None,
    launch: Launch = None,
    dry_run: DryRun = False,
) -> None:
    """Train any image-text model by TRL (extra `trl`): supervised or by rewards, whole or by an adapter."""
    from medvqa_hub.training.vlm.recipe import STAGES, load_vlm_recipe

    if (stage is None) == (recipe is None) or stage not in (None, *STAGES):
        raise typer.BadParameter(f"pass one of --stage ({' or '.join(STAGES)}) and --recipe")
    name = recipe or f"vlm-{stage}"
    overrides = [*([f"data.turns={turns}"] if turns else []), *(set_ or ())]
    resolved = load_vlm_recipe(name, overrides)
    if launch is not None and not dry_run:
        options = {"model": model, "data": data, "out": out, "image-root": image_root, "model-class": model_class}
        _launch(launch, "vlm", name, options, overrides)
        return
    from medvqa_hub.training.vlm.run import train_vlm

    train_vlm(resolved, model, data, out, image_root, model_class, dry_run, typer.echo)


@app.command()
def tokenizer(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for the tokenizer.")],
    vocab_size: Annotated[int | None, typer.Option(min=8, help="Most words; the rarest are left out.")] = None,
    min_frequency: Annotated[int, typer.Option(min=1, help="How often a word must occur.")] = 1,
    split: Annotated[str, typer.Option(help="Split whose questions and answers are read.")] = "train",
) -> None:
    """Train SwinVED's tokenizer on the questions and answers of a split."""
    from medvqa_hub.training.tokenizer_training import write_tokenizer

    size, governance = write_tokenizer(data, out, vocab_size, min_frequency, split)
    typer.echo(f"{size:,} tokens in {out}, governance class {governance}; use: --set model.tokenizer={out}")


def _train(
    kind: str,
    name: str,
    data: Path,
    out: Path,
    image_root: Path | None,
    init: Path | None,
    overrides: list[str] | None,
    launch: str | None,
    dry_run: bool,
) -> None:
    from medvqa_core.errors import ConfigError
    from medvqa_hub.training.recipes import load_recipe

    recipe = load_recipe(name, overrides or ())
    if recipe.model.kind != kind:
        command = recipe.model.kind.replace("_", "-")
        raise ConfigError(f"recipe {name!r} trains {recipe.model.kind!r}: run medvqa-hub train {command} …")
    if launch is not None and not dry_run:
        options = {"data": data, "out": out, "image-root": image_root, "init": init}
        _launch(launch, kind.replace("_", "-"), name, options, overrides or ())
        return
    from medvqa_hub.training.run import train

    train(recipe, data, out, image_root, init, dry_run, typer.echo)


def _launch(launch: str, command: str, recipe: str, options: dict[str, object], overrides: Sequence[str]) -> None:
    """Run `train COMMAND` in several processes."""
    from medvqa_hub.launching import run_launcher

    arguments = ["train", command, "--recipe", recipe]
    for option, value in options.items():
        arguments += [f"--{option}", str(value)] if value is not None else []
    for override in overrides:
        arguments += ["--set", override]
    code = run_launcher(launch, arguments)
    if code:
        raise typer.Exit(code)
