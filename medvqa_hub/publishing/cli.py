"""`medvqa-hub push …`. Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Push to the Hugging Face Hub what may be pushed, with its card.")

RepoId = Annotated[str, typer.Option("--repo-id", help="OWNER/NAME of the repository; made where there is none.")]
Version = Annotated[str | None, typer.Option(help="X.Y.Z to tag; default: 1.0.0, then the next one.")]
Public = Annotated[
    bool | None,
    typer.Option("--public/--private", help="Visible when all is verified; default: as it is, new private."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show files, sizes, class and card; send nothing.")]


@app.command()
def model(
    folder: Annotated[Path, typer.Argument(help="Folder of a model, or the output of a training run.")],
    repo_id: RepoId,
    scores: Annotated[Path | None, typer.Option(help="Output of medvqa-hub evaluate cxr of this model.")] = None,
    workspace: Annotated[
        Path | None, typer.Option(help="Where its training data was built: for the memorisation check.")
    ] = None,
    acknowledge_credentialed_training: Annotated[
        str | None, typer.Option(help="In a sentence, why you may push weights trained on credentialed data.")
    ] = None,
    dataset_id: Annotated[
        str | None, typer.Option(help="OWNER/NAME of the dataset that the scores are on, for .eval_results.")
    ] = None,
    base_model: Annotated[
        str | None,
        typer.Option(help="OWNER/NAME of the model that an adapter belongs to, where its folder has a path."),
    ] = None,
    version: Version = None,
    public: Public = None,
    dry_run: DryRun = False,
) -> None:
    """Push a trained model: weights, code, processor and a card of what was measured."""
    from medvqa_hub.publishing.model import ModelPush, push_model

    words = acknowledge_credentialed_training
    options = ModelPush(folder, repo_id, public, version, scores, workspace, words, dataset_id, base_model)
    push_model(options, dry_run, log=typer.echo)


@app.command()
def dataset(
    folder: Annotated[Path, typer.Argument(help="A release, the folder it was built in, or RJUA-MedDQA data.")],
    repo_id: RepoId,
    version: Version = None,
    public: Public = None,
    dry_run: DryRun = False,
) -> None:
    """Push the rows of a release that may be handed on: open, or share-alike with licence and attribution."""
    from medvqa_hub.publishing.dataset import push_dataset
    from medvqa_hub.publishing.sending import Push

    push_dataset(Push(folder, repo_id, public, version), dry_run, log=typer.echo)


@app.command("rebuild-spec")
def rebuild_spec(
    folder: Annotated[Path, typer.Argument(help="Folder that medvqa-hub cxr rebuild-spec wrote.")],
    repo_id: RepoId,
    version: Version = None,
    public: Public = None,
    dry_run: DryRun = False,
) -> None:
    """Push what may be shared of rows that may not: questions, ids, settings and hashes to rebuild them."""
    from medvqa_hub.publishing.rebuild_spec import push_rebuild_spec
    from medvqa_hub.publishing.sending import Push

    push_rebuild_spec(Push(folder, repo_id, public, version), dry_run, log=typer.echo)
