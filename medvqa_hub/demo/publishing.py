"""The demo's last chapter: what would be pushed of it, and the card that people would see. Nothing is sent."""

from pathlib import Path

from rich.console import Console

from medvqa_hub.publishing.dataset import push_dataset
from medvqa_hub.publishing.model import ModelPush, push_model
from medvqa_hub.publishing.sending import Push

OWNER = "me"


def show_pushes(console: Console, release: Path, learning: Path | None) -> None:
    """Show a dry run of pushing the demo's release and, where something was trained, the last stage's model.

    Args:
        learning: folder of the demo's training; None: nothing was trained.
    """

    def log(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    push_dataset(Push(release, f"{OWNER}/mimic-cxr-vqa-phantom"), dry_run=True, log=log)
    if learning is not None:
        scores = learning / "scores3"
        options = ModelPush(learning / "stage3", f"{OWNER}/swin-ved-phantom", scores=scores, workspace=learning / "cxr")
        push_model(options, dry_run=True, log=log)
    log("To send it: the same without --dry-run (medvqa-hub push dataset …, medvqa-hub push model …).")
