"""Print a push for `--dry-run`: the target, every file with its size, and the card."""

from collections.abc import Callable
from pathlib import Path

from medvqa_hub.publishing.push import PushPlan
from medvqa_hub.publishing.staging import describe_staging


def show_push(folder: Path, plan: PushPlan, card: str, log: Callable[[str], None]) -> None:
    """Print what would be pushed."""
    files = describe_staging(folder)
    log(f"dry run: nothing is sent to {plan.repo_id} ({plan.repo_type})")
    gate = "manual approval" if plan.gated else "none"
    visibility = {True: "public after verification", False: "private", None: "unchanged, or private if new"}
    log(f"governance class: {plan.governance}, gate: {gate}, visibility: {visibility[plan.public]}")
    log(f"version: {plan.version or 'the next one'}")
    width = max(map(len, files))
    for name, file in files.items():
        log(f"  {name:{width}}  {file.size:>14,} bytes")
    log(f"  {'total':{width}}  {sum(file.size for file in files.values()):>14,} bytes in {len(files)} files")
    log("the card:\n")
    log(card)
