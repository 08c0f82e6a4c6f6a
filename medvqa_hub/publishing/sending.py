"""What every push does once it is known what goes where: stage it, scan it, and show it or send it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_hub.publishing.phrases import Phrases
from medvqa_hub.publishing.push import PushPlan, PushResult, push_folder
from medvqa_hub.publishing.scanning import scan
from medvqa_hub.publishing.showing import show_push
from medvqa_hub.publishing.staging import CARD, staged


@dataclass(frozen=True)
class Push:
    """What to push, and where to.

    Attributes:
        folder: that holds it.
        repo_id, public, version: see `PushPlan`.
    """

    folder: Path
    repo_id: str
    public: bool | None = None
    version: str | None = None


def send(
    files: Mapping[str, Path | bytes],
    plan: PushPlan,
    dry_run: bool = False,
    hub: Any = None,
    log: Callable[[str], None] = print,
    phrases: Phrases | None = None,
    ids_of: Collection[str] = (),
) -> PushResult | None:
    """Stage, scan and push files; with `dry_run` show what would be pushed, and its card.

    Args:
        files: name in the repository -> file or content; CARD among them.
        hub: HfApi; None: with the address and token of this machine.
        phrases, ids_of: see `scan`.

    Raises:
        ConfigError, OutputError: see `push_folder`.
        GovernanceError: the scan finds what must not leave.
        InputError: see `staged`.
    """
    with staged(files, plan.kind, plan.governance) as folder:
        scan(folder, phrases, ids_of)
        if dry_run:
            show_push(folder, plan, (folder / CARD).read_text(encoding="utf-8"), log)
            return None
        return push_folder(folder, plan, hub, log)
