"""What `--dry-run` shows of a push: where it goes, every file with its size, and the card as it is."""

from collections.abc import Callable
from pathlib import Path

from medvqa_hub.publishing.push import PushPlan
from medvqa_hub.publishing.staging import describe_staging


def show_push(folder: Path, plan: PushPlan, card: str, log: Callable[[str], None]) -> None:
    """Say what would be pushed; nothing leaves."""
    files = describe_staging(folder)
    log(f"dry run: nothing is sent to {plan.repo_id} ({plan.repo_type})")
    gate = "by hand, before anything is uploaded" if plan.gated else "none"
    seen = {True: "public when all is verified", False: "private", None: "private where new, else as it is"}
    log(f"governance class: {plan.governance}; gate: {gate}; visibility: {seen[plan.public]}")
    log(f"version: {plan.version or 'the next one'}")
    width = max(map(len, files))
    for name, file in files.items():
        log(f"  {name:{width}}  {file.size:>14,} bytes")
    log(f"  {'in all':{width}}  {sum(file.size for file in files.values()):>14,} bytes in {len(files)} files")
    log("the card:\n")
    log(card)
