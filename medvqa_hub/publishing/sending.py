"""Stage and scan files, then show or push them."""

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
    """Options of every push: the folder, and `repo_id`, `public` and `version` of `PushPlan`."""

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
    id_tables: Collection[str] = (),
    image_tables: Collection[str] = (),
) -> PushResult | None:
    """Stage, scan and push files. `dry_run` only prints what would be pushed.

    Args:
        files: name in the repository -> file or content, with CARD.
        hub: HfApi. The default uses the address and token of this machine.
        phrases, id_tables, image_tables: see `scan`.

    Raises:
        ConfigError, OutputError: see `push_folder`.
        GovernanceError: the scan found something.
        InputError: see `staged`.
    """
    with staged(files, plan.kind, plan.governance) as folder:
        scan(folder, phrases, id_tables, image_tables)
        if dry_run:
            show_push(folder, plan, (folder / CARD).read_text(encoding="utf-8"), log)
            return None
        return push_folder(folder, plan, hub, log)
