"""`medvqa-hub push …`. Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Push models and datasets to the Hugging Face Hub with their cards.")

RepoId = Annotated[str, typer.Option("--repo-id", help="OWNER/NAME of the repository. Created if it does not exist.")]
Version = Annotated[str | None, typer.Option(help="X.Y.Z to tag. Default: 1.0.0, then the next minor version.")]
Public = Annotated[
    bool | None,
    typer.Option(
        "--public/--private",
        help="Make the repository public after verification. Default: unchanged, or private if new.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show files, sizes, class and card without sending anything.")]


@app.command()
def model(
    folder: Annotated[Path, typer.Argument(help="Folder of a model or training run.")],
    repo_id: RepoId,
    scores: Annotated[Path | None, typer.Option(help="Output of medvqa-hub evaluate cxr for this model.")] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(
            help="Folder that the training data were built in. The push is refused if a file quotes their reports."
        ),
    ] = None,
    acknowledge_credentialed_training: Annotated[
        str | None, typer.Option(help="Why you may push weights trained on credentialed data.")
    ] = None,
    dataset_id: Annotated[
        str | None, typer.Option(help="OWNER/NAME of the evaluated dataset, for .eval_results.")
    ] = None,
    base_model: Annotated[
        str | None,
        typer.Option(help="OWNER/NAME of an adapter's base model, if its folder names a local path."),
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="Output of medvqa-hub audit cxr for this model, shown in the card.")
    ] = None,
    version: Version = None,
    public: Public = None,
    dry_run: DryRun = False,
) -> None:
    """Push a trained model: weights, code, processor and a card with its scores."""
    from medvqa_hub.publishing.model import ModelPush, push_model

    reason = acknowledge_credentialed_training
    options = ModelPush(folder, repo_id, public, version, scores, workspace, reason, dataset_id, base_model, audit)
    push_model(options, dry_run, log=typer.echo)


@app.command()
def dataset(
    folder: Annotated[Path, typer.Argument(help="A release, its workspace, or RJUA-MedDQA data.")],
    repo_id: RepoId,
    image_root: Annotated[
        Path | None,
        typer.Option(
            help="Output folder of `cxr phantom` or `meddqa phantom`, to embed its images. Real images are refused."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that draw the images.", min=1)] = 1,
    version: Version = None,
    public: Public = None,
    dry_run: DryRun = False,
) -> None:
    """Push the rows of an open or share-alike release."""
    from medvqa_hub.publishing.dataset import push_dataset
    from medvqa_hub.publishing.sending import Push

    push_dataset(Push(folder, repo_id, public, version), dry_run, None, typer.echo, image_root, workers)


@app.command("rebuild-spec")
def rebuild_spec(
    folder: Annotated[Path, typer.Argument(help="Folder that medvqa-hub cxr rebuild-spec wrote.")],
    repo_id: RepoId,
    version: Version = None,
    public: Public = None,
    dry_run: DryRun = False,
) -> None:
    """Push questions, ids, settings and hashes from which restricted rows can be rebuilt."""
    from medvqa_hub.publishing.rebuild_spec import push_rebuild_spec
    from medvqa_hub.publishing.sending import Push

    push_rebuild_spec(Push(folder, repo_id, public, version), dry_run, log=typer.echo)
